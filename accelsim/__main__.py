"""`python -m accelsim`."""

import sys

from accelsim.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
