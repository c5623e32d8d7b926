"""``python -m omni_verify``."""

import sys

from omni_verify.cli.main import main

sys.exit(main())
