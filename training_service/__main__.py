"""``python -m training_service``: see ``training_service/cli``."""

from __future__ import annotations

import sys

from training_service.cli.parser import main

if __name__ == "__main__":
    sys.exit(main())
