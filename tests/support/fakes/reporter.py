"""
A trainer that reports as ``cloudml-hypertune`` 0.1.0.dev6 does.

``tests/docker`` runs the package itself.

``python reporter.py FILE COUNT PAUSE_SECONDS [new]``; it prints each step when its report is done.
"""

import collections
import json
import sys
import time


def main() -> None:
    path, count, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    queue: collections.deque[dict[str, object]] = collections.deque(maxlen=100)
    for step in range(1, count + 1):
        if "new" in sys.argv:
            queue.clear()
        queue.append(
            {
                "timestamp": time.time(),
                "trial": "1",
                "accuracy": str(float(step) / 7),
                "global_step": str(step),
                "checkpoint_path": "",
            }
        )
        with open(path, "w") as file:  # noqa: PTH123  # as the package does
            for entry in queue:
                file.write(json.dumps(entry, sort_keys=True) + "\n")
        print(step, flush=True)
        time.sleep(pause)


if __name__ == "__main__":
    main()
