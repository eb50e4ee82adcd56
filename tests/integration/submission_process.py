"""
A submitting task in a process that kills itself right before its n-th outside effect.

It reads one JSON object a line and answers with one, on the file descriptor that is its argument: each is a
fresh fork of this process, which has imported everything already. Points are not written down anywhere: every
``send``, ``recv`` and ``connect`` of a socket and every change of a file counts, whoever makes it. What lies
between two of them changes nothing outside, so that a kill there is the same as one right before the
second. An answer is one point, in however many pieces it comes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from container_training.operators.training import SubmitTrainingJobOperator

DAG_ID = "killed"
TASK_ID = "submit"
#: Audit events of the interpreter that stand for an act upon the outside; see
#: docs.python.org/3.11/library/audit_events.html.
_ACTS = {
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.truncate",
    "os.link",
    "os.symlink",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "socket.connect",
    "socket.sendto",
    "socket.sendmsg",
    "subprocess.Popen",
    "sqlite3.connect",
    "urllib.Request",
}
_READS = ("socket.recv", "socket.recv_into")
_SOCKET_METHODS = ("send", "sendall", "recv", "recv_into")


class Points:
    """Counts what the process does to the outside, and ends it before the chosen one."""

    def __init__(self, kill_at: int | None) -> None:
        self.names: list[str] = []
        self._kill_at = kill_at

    def install(self) -> None:
        """Watch from now on; cannot be undone."""
        sys.addaudithook(self._audit)
        for name in _SOCKET_METHODS:
            setattr(socket.socket, name, self._watched(name, getattr(socket.socket, name)))

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _ACTS or (event == "open" and _writes(arguments)):
            self.pass_by(event)

    def _watched(self, name: str, method: Any) -> Any:
        def watched(*arguments: Any, **keywords: Any) -> Any:
            self.pass_by(f"socket.{name}")
            return method(*arguments, **keywords)

        return watched

    def pass_by(self, name: str) -> None:
        """Note that ``name`` comes next, or end here."""
        if name in _READS and self.names[-1:] == [name]:
            return
        if len(self.names) == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.names.append(name)


def _writes(arguments: tuple[Any, ...]) -> bool:
    _, _, flags = arguments
    return bool(flags & (os.O_WRONLY | os.O_RDWR))


class FileStore:
    """
    A ``task_state_store`` in files.

    A value is stored whole or not at all, and outlives the process, as in Airflow's database.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> Any:
        file = self._folder / key
        return json.loads(file.read_text("utf-8")) if file.exists() else None

    def set(self, key: str, value: Any, **_: Any) -> None:
        new = self._folder / f"{key}.new"
        new.write_text(json.dumps(value), "utf-8")
        new.replace(self._folder / key)


def run_task(order: dict[str, Any]) -> dict[str, Any]:
    """Run the operator once, as the try of a task does, to its end or its death."""
    folder = Path(order["folder"])
    points = Points(order["kill_at"])
    task_instance = SimpleNamespace(
        dag_id=DAG_ID,
        task_id=TASK_ID,
        run_id=order["run_id"],
        map_index=-1,
        xcom_push=lambda key, value: (folder / f"xcom-{key}").write_text(json.dumps(value), "utf-8"),
    )
    operator = SubmitTrainingJobOperator(task_id=TASK_ID, image=order["image"], args=order["args"])
    points.install()
    job_id = operator.execute({"ti": task_instance, "task_state_store": FileStore(folder)})  # type: ignore[arg-type, typeddict-item]
    # What Airflow does next: it records the task's success.
    points.pass_by("record")
    return {"job_id": job_id, "points": points.names}


def main(answers_fd: int) -> None:
    """Answer until there are no more orders."""
    assert threading.active_count() == 1, "a fork has one thread only"
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            try:
                answer = run_task(json.loads(line))
            except BaseException as error:  # a fork must not go on as its parent
                answer = {"error": f"{type(error).__name__}: {error}"}
            os.write(writer, json.dumps(answer).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as answers:
            answer_text = answers.read().decode()
        _, status = os.waitpid(child, 0)
        is_killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        os.write(answers_fd, (json.dumps({"killed": True}) if is_killed else answer_text).encode() + b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
