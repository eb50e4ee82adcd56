"""A fork waits for what another thread imports."""

from __future__ import annotations

import subprocess
import sys

from tests.support.speed import scaled

PROGRAM = """
import os, signal, threading

from container_training.hooks.importing import importing

has_begun, is_over = threading.Event(), threading.Event()


def work():
    with importing(), importing():
        has_begun.set()
        is_over.wait(1.0)
        print("imported", flush=True)


threading.Thread(target=work).start()
has_begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(50)
    with importing():
        print("in the child", flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
with importing():
    print("after the fork", flush=True)
"""


def test_a_fork_waits_and_both_processes_may_import_afterwards() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=scaled(60), check=True
    )

    assert done.stdout.split("\n")[:3] == ["imported", "in the child", "after the fork"]
