"""The image of the runtime versions: the launcher, on the base image."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_stack.parts import runtime_image as module
from local_stack.parts.runtime_image import image_aliases, runtime_image, runtime_images


def test_it_is_made_from_the_launcher_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Dockerfile").write_text("FROM x")
    (tmp_path / "run_package.py").write_text("print(1)")
    (tmp_path / "__pycache__").mkdir()
    monkeypatch.setattr(module, "DOCKERFILE", tmp_path / "Dockerfile")
    monkeypatch.setattr(module, "LAUNCHER", tmp_path)

    image = runtime_image("base:1")

    assert image.files == {"Dockerfile": b"FROM x", "run_package.py": b"print(1)"}
    assert image.name.startswith("localhost/container-training/runtime:")
    assert image.pushed_name("host/project").startswith("host/project/container-training-runtime:")


def test_every_runtime_version_and_every_prebuilt_image_is_that_image() -> None:
    images = runtime_images("name")

    assert {"1.15", "2.1", "2.11"} <= set(images)
    assert set(images.values()) == set(image_aliases("name").values()) == {"name"}
