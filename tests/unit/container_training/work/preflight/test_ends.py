from __future__ import annotations

from typing import Any

import pytest

from container_training.work.preflight.ends import describe_end


@pytest.mark.parametrize(
    ("exit_code", "fields", "text"),
    [
        (3, {}, "exited with 3"),
        (3, {"ran_seconds": 1.46}, "exited with 3 after 1.5 s"),
        (65, {}, "exited with 65"),  # no packages are installed, so it is the program's own
        (127, {"ran_seconds": 1}, "exited with 127 after 1.0 s (the program was not found)"),
        (137, {}, "exited with 137 (SIGKILL, and the engine did not say that the memory was full)"),
        (137, {"out_of_memory": True}, "ran out of memory (exit code 137)"),
        (
            137,
            {"out_of_memory": True, "memory_bytes": 2**26, "ran_seconds": 2},
            "ran out of memory after 2.0 s (exit code 137, limit 64 MiB)",
        ),
        # A child was killed for the memory, and the program ended by itself.
        (1, {"out_of_memory": True}, "ran out of memory (exit code 1)"),
    ],
)
def test_an_end_is_worded_with_what_is_known(exit_code: int, fields: dict[str, Any], text: str) -> None:
    assert describe_end(exit_code, **{"out_of_memory": False, "memory_bytes": None} | fields) == text
