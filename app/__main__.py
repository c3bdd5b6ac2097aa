"""`python -m app` is the same program as `plumbline`."""

import sys

from app.cli import main

sys.exit(main())
