"""Interpreters that have imported Airflow and nothing of this project."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

#: Airflow's import takes seconds, and a fork milliseconds. Airflow asks every installed
#: provider who it is.
_PROGRAM = """
import io, json, os, sys, traceback
from airflow.sdk import DAG, BaseHook, BaseOperator
print(flush=True)
for line in sys.stdin:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        sys.stdout = said = io.StringIO()
        try:
            exec(compile(json.loads(line), "question", "exec"), {"__name__": "__main__"})
        except BaseException:
            said.write(traceback.format_exc())
        os.write(writing, said.getvalue().encode())
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as answer:
        print(json.dumps(answer.read()), file=sys.__stdout__, flush=True)
    os.waitpid(child, 0)
"""


class FreshAirflow:
    """Runs code in copies of one interpreter; close it afterwards."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        # What Airflow logs while it is imported comes before the empty line.
        while self._line() != "\n":
            pass

    def run(self, code: str) -> Any:
        """Return the last line that ``code`` prints, read as JSON; fail if it is none."""
        assert self._process.stdin is not None
        print(json.dumps(code), file=self._process.stdin, flush=True)
        said = json.loads(self._line())
        try:
            return json.loads(said.splitlines()[-1])
        except (ValueError, IndexError):
            raise AssertionError(said) from None

    def close(self) -> None:
        """End the interpreter."""
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the interpreter has ended; its messages are above"
        return line
