"""``python -m dynamlir``."""

import sys

from .cli import command_line

sys.exit(command_line.main())
