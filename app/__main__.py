"""`python -m app` is the same program as `plumbline`."""

import sys

from app.cli import main

if __name__ == "__main__":
    sys.exit(main())
