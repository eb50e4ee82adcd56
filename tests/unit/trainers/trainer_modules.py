"""The modules of a trainer, imported by their bare names as its container does."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

TRAINERS = Path(__file__).resolve().parents[3] / "docker" / "trainers"


@contextmanager
def trainer_modules(
    folders: list[str], names: list[str], stubs: Mapping[str, ModuleType] | None = None
) -> Iterator[SimpleNamespace]:
    """
    Import ``names`` from the folders of ``docker/trainers``; free the names afterwards.

    :param stubs: modules that stand for libraries which only the container has.
    """
    paths = [str(TRAINERS / folder) for folder in folders]
    hidden = [path.stem for folder in paths for path in Path(folder).glob("*.py")] + list(stubs or {})
    before = {name: sys.modules.pop(name) for name in hidden if name in sys.modules}
    sys.modules.update(stubs or {})
    sys.path[:0] = paths
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    finally:
        for path in paths:
            sys.path.remove(path)
        for name in hidden:
            sys.modules.pop(name, None)
        sys.modules.update(before)
