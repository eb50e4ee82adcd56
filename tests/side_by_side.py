"""
Runs the suite as two pytest processes side by side: those that drive a whole stack, Airflow included, and all others.

    python -m tests.side_by_side [OPTION ...]

The whole stack mostly waits for containers and schedulers, so that two cores have time for the others meanwhile. With a path, ``-k`` or
``-m``, it is one pytest as always.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO

#: Name of a part -> what selects it. Each test is in exactly one.
PARTS = {"e2e": "e2e", "rest": "not e2e"}
#: pytest: "no tests were collected"; a part may have none of those that an option leaves.
_NOTHING_COLLECTED = 5


def main(options: Sequence[str]) -> int:
    """Run the tests; return the worst exit status, 0: all passed."""
    pytest = [sys.executable, "-m", "pytest", *options]
    if any(not option.startswith("-") or option.startswith(("-k", "-m")) for option in options):
        return subprocess.run(pytest, check=False).returncode
    processes = {
        name: subprocess.Popen([*pytest, "-m", marker], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for name, marker in PARTS.items()
    }
    readers = [
        threading.Thread(target=_show, args=(name, process.stdout)) for name, process in processes.items()
    ]
    for reader in readers:
        reader.start()
    try:
        statuses = [process.wait() for process in processes.values()]
    except KeyboardInterrupt:
        # The terminal has told them, too; they still take down what they brought up.
        statuses = [process.wait() for process in processes.values()]
        return max(*statuses, 130)
    for reader in readers:
        reader.join()
    return max(0 if status == _NOTHING_COLLECTED else abs(status) for status in statuses)


def _show(name: str, output: IO[bytes] | None) -> None:
    """Print each line of ``output`` as it comes, with the part that it is of."""
    assert output is not None
    for line in output:
        sys.stdout.write(f"{name:4} | {line.decode(errors='replace')}")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
