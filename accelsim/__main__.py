"""The command `accelsim`, and `python -m accelsim`."""

import os
import signal
import sys


def main() -> int:
    """Run the command line, and end with 128 + the number of a signal from here on, also while modules are imported."""
    for number in (getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")):
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: os._exit(128 + number))
    from accelsim.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
