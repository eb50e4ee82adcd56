from dataclasses import replace
from pathlib import Path

import pytest

from local_stack.errors import PartFailed
from local_stack.images import debian_image
from local_stack.images.debian_image import DebianRecipe, build_debian_image
from tests.support.fakes.stack_workshop import FakeEngine, make_workshop


def test_the_name_changes_with_everything_that_the_image_contains() -> None:
    recipe = DebianRecipe()
    changed = [
        replace(recipe, packages=("python3",)),
        replace(recipe, removed=()),
        replace(recipe, environment={}),
        replace(recipe, authorities=b"bundle"),
        replace(recipe, authorities=b"another bundle"),
    ]

    names = {recipe.image_name(), *(other.image_name() for other in changed)}

    assert len(names) == 6
    assert DebianRecipe().image_name() == recipe.image_name()


def test_pip_trusts_the_copied_authorities() -> None:
    assert not any("PIP_CERT" in change for change in DebianRecipe().changes())
    assert "ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt" in DebianRecipe(authorities=b"bundle").changes()


def test_lists_of_packages_are_taken_only_with_a_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "debootstrap"
    program.write_text('#!/bin/sh\necho "$@"\nexit 1\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(debian_image, "find_program", lambda _: program)
    monkeypatch.setattr(debian_image, "DEBIAN_KEYRING", program)
    packages, engine = make_workshop(tmp_path / "state").packages, FakeEngine()

    with pytest.raises(PartFailed, match="--force-check-gpg"):
        build_debian_image(
            DebianRecipe(), engine, packages, build_dir=tmp_path, log=tmp_path / "log", mirror=None
        )
