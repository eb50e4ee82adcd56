"""What a task keeps between its tries."""

from __future__ import annotations

import json
from typing import Any


class TaskState(dict[str, Any]):
    """``context["task_state_store"]``."""

    def set(self, key: str, value: Any, **_: Any) -> None:
        self[key] = json.loads(json.dumps(value))
