"""The command line: each command reads its arguments, calls the library, and prints.

Results go to stdout, progress and mistakes to stderr. Exit codes: 0 done, 1 no valid mapping (or records that differ),
2 bad input, 70 a fault of accelsim, 128 + the number of a signal that ended it (130 Ctrl-C, 143 SIGTERM, 129 SIGHUP).
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib import import_module

from accelsim import __version__
from accelsim.cli import BAD_INPUT, INTERRUPTED, NO_VALID_MAPPING, complain
from accelsim.search import stopping

INTERNAL, CLOSED_PIPE = 70, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; never ends in a traceback.

    By default the arguments are those of the process, which then stops at signals as `accelsim.search.stopping` says.
    """
    if arguments is None:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads would spin at the start, 30 ms each
        gc.set_threshold(20_000, 20, 20)  # the usual ones take a twentieth of a short command's time
    with stopping.stoppable() if arguments is None else nullcontext():
        code = _guarded(arguments)
    if stopping.asked() and arguments is None:
        stopping.leave()
    return 128 + stopping.asked() if stopping.asked() else code


def _guarded(arguments: Sequence[str] | None) -> int:
    """Run a command; whatever happens becomes an exit code and a line on stderr."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # closed by the shell: `>&-`
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a character that the terminal cannot show is no reason to fail
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up_stdout()
        return CLOSED_PIPE
    except KeyboardInterrupt:
        return _interrupted()
    except OSError as error:
        _give_up_stdout()
        complain(
            f"accelsim: {error.filename + ': ' if isinstance(error.filename, str) else ''}{error.strerror or error}"
        )
        return BAD_INPUT
    except Exception as error:  # the user gets a line and a file instead of a traceback
        if isinstance(error.__cause__, KeyboardInterrupt):  # it came while Python made a class
            return _interrupted()
        return _internal_error(error)
    return code


def _interrupted() -> int:
    complain(stopping.said(stopping.asked()))
    return INTERRUPTED


def _run(arguments: Sequence[str] | None) -> int:
    from accelsim.cli.arguments import parse
    from accelsim.inputs.errors import AccelsimError, NoValidMappingError
    from accelsim.results import refuse_directory

    try:
        parsed = parse(arguments)
        _show_log(quiet=getattr(parsed, "quiet", False))
        if getattr(parsed, "csv", None):
            refuse_directory(parsed.csv)
        if getattr(parsed, "writes_folder", False) and parsed.output:
            refuse_directory(parsed.output)
        command: Callable[[argparse.Namespace], int] = getattr(
            import_module(f"accelsim.cli.{parsed.module}"), parsed.command
        )
        return command(parsed)
    except SystemExit as stop:  # --help, --version and mistakes in the arguments
        return stop.code if isinstance(stop.code, int) else BAD_INPUT
    except NoValidMappingError as error:
        complain(str(error))
        return NO_VALID_MAPPING
    except AccelsimError as error:
        complain(str(error))
        return BAD_INPUT


def _show_log(*, quiet: bool) -> None:
    """Show on stderr what the library says it does, and once each of what it warns of; a progress bar stays below."""
    import logging

    warned = set[str]()

    class Shown(logging.Handler):
        """Writes to what stderr is at the time."""

        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if record.levelno == logging.INFO:
                complain(f"accelsim: {text}" if record.module == "compiled" else text)
            elif text not in warned:
                warned.add(text)
                complain(text)

    log = logging.getLogger("accelsim")
    log.handlers[:] = [Shown()]
    log.setLevel(logging.WARNING if quiet else logging.INFO)
    log.propagate = False


def _give_up_stdout() -> None:
    """Let nothing be written to stdout any more, also not at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return


def _internal_error(error: Exception) -> int:
    import tempfile
    import traceback

    where = ""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="accelsim-", suffix=".log", delete=False, encoding="utf-8") as log:
            log.write(f"accelsim {__version__}, Python {sys.version}\n{' '.join(sys.argv)}\n\n")
            log.write("".join(traceback.format_exception(error)))
            where = f"; details are in {log.name}"
    except OSError:
        where = "; a log could not be written"
    first = " ".join(str(error).split())[:200]
    complain(f"internal error: {type(error).__name__}: {first}; please report it{where}")
    return INTERNAL
