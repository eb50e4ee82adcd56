"""
A process that decides about a challenger, and may kill itself.

``judging_process.py URL FOLDER NAME MOMENT``. It says ``ready``, and decides when its standard input is
closed; at ``MOMENT`` - ``before`` the decision is written, or ``after`` - it kills itself, as ``kill -9``
does.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing

from container_training.work.models.promotion import Decision, PromotionRule
from container_training.work.models.registry import ModelRegistry
from container_training.work.object_store import ObjectStore
from tests.support.bed.model_versions import make_contender
from tests.support.bed.object_store import connect


class Mortal(ObjectStore):
    """Dies beside a write."""

    moment = "never"

    def write_if(self, uri: str, content: bytes, content_type: str, *, generation: int) -> int:
        if self.moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        written = super().write_if(uri, content, content_type, generation=generation)
        if self.moment == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return written


def judge(store: ObjectStore, folder: str, name: str) -> Decision:
    """Decide about challenger ``name``, which is better than the champion."""
    return ModelRegistry(store, folder).judge(
        make_contender(name, "1" * 100),
        make_contender("champion", "1" * 80 + "0" * 20),
        PromotionRule(),
        champion_generation=1,
    )


if __name__ == "__main__":
    url, folder, name, moment = sys.argv[1:]
    with closing(connect(url)) as store:
        mortal = Mortal(store._client)
        mortal.moment = moment
        print("ready", flush=True)
        sys.stdin.read()
        print(judge(mortal, folder, name).look)
