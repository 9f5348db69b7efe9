"""``python -m verify`` is ``optimus-verify``."""

import sys

from verify.cli import main

sys.exit(main())
