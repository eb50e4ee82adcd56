"""``python -m container_training``: see ``container_training/cli``."""

from __future__ import annotations

import sys

from container_training.cli.parser import main

if __name__ == "__main__":
    sys.exit(main())
