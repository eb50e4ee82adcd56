"""
A process that promotes a version.

``promotion_process.py URL FOLDER NUMBER GENERATION``.

It registers its version, says ``ready``, and promotes when its standard input is closed.
"""

from __future__ import annotations

import sys
from contextlib import closing

from container_training.work.models.registry import ModelRegistry
from tests.support.bed.model_versions import make_author, registered
from tests.support.bed.object_store import connect
from training_api.errors import ChampionMoved


def attempt(url: str, folder: str, number: int, generation: int) -> str:
    """Promote version ``number``; return what became of it."""
    with closing(connect(url)) as store:
        version = registered(store, folder, f"v{number}")
        print("ready", flush=True)
        sys.stdin.read()
        return promote(ModelRegistry(store, folder), version.version_id, generation)


def promote(registry: ModelRegistry, version_id: str, generation: int) -> str:
    """Promote a version that is registered; return what became of it."""
    version = registry.find(version_id)
    assert version is not None
    try:
        changed = registry.promote(version, make_author(version_id), generation=generation)
    except ChampionMoved:
        return "moved"
    return "promoted" if changed.is_new else "own"


if __name__ == "__main__":
    print(attempt(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
