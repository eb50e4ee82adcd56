"""The one thread that writes to the catalog: changes of many requests share a commit."""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

_Result = TypeVar("_Result")
Change = Callable[[sqlite3.Connection], _Result]
_TOGETHER = 64


class Writer:
    """
    Runs changes in the order in which they come; safe for threads.

    A change that raises is rolled back by itself. The others of its commit stay.

    :param connect: returns the connection; called on the writer's thread.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._is_closed = False
        self._waiting: queue.SimpleQueue[tuple[Change[Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="catalog-writer", daemon=True)
        self._thread.start()

    def submit(self, change: Change[_Result]) -> Future[_Result]:
        """
        Return the future of what ``change`` returns; it is done after the commit.

        :raises sqlite3.ProgrammingError: the writer is closed.
        """
        future: Future[_Result] = Future()
        with self._lock:
            if self._is_closed:
                raise sqlite3.ProgrammingError("the catalog is closed")
            self._waiting.put((change, future))
        return future

    def close(self) -> None:
        """Finish what was submitted; may be called twice."""
        with self._lock:
            self._is_closed = True
            self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        connection = self._connect()
        try:
            while (first := self._waiting.get()) is not None:
                together = [first]
                ends = False
                while len(together) < _TOGETHER and not ends and not self._waiting.empty():
                    more = self._waiting.get()
                    if more is None:
                        ends = True
                    else:
                        together.append(more)
                _commit(connection, together)
                if ends:
                    return
        finally:
            connection.close()


def _commit(connection: sqlite3.Connection, together: list[tuple[Change[Any], Future[Any]]]) -> None:
    # A refusal also waits for the commit: its cause may be another change in the same commit, which the
    # refused client reads next.
    done: list[tuple[Future[Any], Any, Exception | None]] = []
    try:
        connection.execute("BEGIN IMMEDIATE")
        for change, future in together:
            connection.execute("SAVEPOINT change")
            try:
                result = change(connection)
            except Exception as error:
                if not connection.in_transaction:
                    # A full disk, for one, makes SQLite roll all of it back by itself.
                    raise
                connection.execute("ROLLBACK TO change")
                done.append((future, None, error))
            else:
                done.append((future, result, None))
            connection.execute("RELEASE change")
        connection.execute("COMMIT")
    except Exception as error:
        # The disk is full, or the file is gone: no client may believe that its change is stored.
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        done = [(future, None, error) for _, future in together]
    for future, result, refusal in done:
        if refusal is None:
            future.set_result(result)
        else:
            future.set_exception(refusal)
