"""Which image Dockerfiles start from: one that is there, pulled or built, in this order."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import docker.errors
import pytest

from local_stack.errors import LocalStackError, PartFailed
from local_stack.images.debian_image import DebianRecipe
from local_stack.parts import base_image
from local_stack.parts.base_image import BaseImage, pack_context
from local_stack.parts.part import Workshop
from local_stack.processes.packages import PackageInstaller
from local_stack.settings import StackSettings
from tests.support.fakes.stack_workshop import FakeEngine, make_workshop, said

PUBLIC = StackSettings.model_fields["public_base_image"].default
DEBIAN = "localhost/debian:1"


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def is_online() -> list[bool]:
    return [True]


@pytest.fixture(autouse=True)
def machine(
    engine: FakeEngine, is_online: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine with an engine, perhaps with a network, that builds Debian images in no time."""

    def build(recipe: DebianRecipe, client: Any, packages: Any, **_: Any) -> str:
        engine.acts.append("build from Debian packages")
        return DEBIAN

    bundle = tmp_path / "bundle.crt"
    bundle.write_bytes(b"authorities")
    monkeypatch.setattr(base_image, "connect", lambda url, **_: engine)
    monkeypatch.setattr(base_image, "answers", lambda url: True)
    monkeypatch.setattr(base_image, "one_build", nullcontext)
    monkeypatch.setattr(base_image, "_answers", lambda url: is_online[0])
    monkeypatch.setattr(base_image, "build_debian_image", build)
    monkeypatch.setattr(base_image, "HOST_BUNDLE", bundle)


@pytest.fixture
def make_part(tmp_path: Path) -> Callable[..., tuple[BaseImage, Workshop]]:
    def make_part(**settings: Any) -> tuple[BaseImage, Workshop]:
        workshop = make_workshop(tmp_path / "state", **{"trust_host_authorities": False} | settings)
        return BaseImage(workshop), workshop

    return make_part


MakePart = Callable[..., tuple[BaseImage, Workshop]]


def test_an_image_that_the_engine_has_is_taken_as_it_is(make_part: MakePart, engine: FakeEngine) -> None:
    engine.present.add(PUBLIC)
    part, workshop = make_part()
    assert part.address() == "not chosen yet"

    part.prepare()

    assert engine.acts == []
    assert part.address() == BaseImage.name_of(workshop.settings) == PUBLIC
    assert part.is_healthy()


def test_the_public_image_is_pulled_where_a_registry_answers(make_part: MakePart, engine: FakeEngine) -> None:
    part, _ = make_part()

    part.prepare()
    part.prepare()

    assert engine.acts == [f"pull: {PUBLIC}"]
    assert part.address() == PUBLIC
    assert engine.is_closed


def test_the_machines_authorities_are_added_to_it(make_part: MakePart, engine: FakeEngine) -> None:
    part, _ = make_part(trust_host_authorities=True)

    part.prepare()

    pulled, built = engine.acts
    assert pulled == f"pull: {PUBLIC}"
    assert built == f"build from {PUBLIC}: {part.address()}"
    assert engine.contexts[0]["ca-certificates.crt"] == b"authorities"
    assert "python-3.11-slim-bookworm-" in part.address()


def test_without_a_network_it_is_built_from_debian_packages(
    make_part: MakePart, engine: FakeEngine, is_online: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_online[0] = False
    monkeypatch.setattr(PackageInstaller, "refusal", lambda installer: None)
    part, _ = make_part()

    part.prepare()

    assert (engine.acts, part.address()) == (["build from Debian packages"], DEBIAN)


def test_an_engine_without_a_network_of_its_own_is_said_and_gone_around(
    make_part: MakePart, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.refuses = docker.errors.APIError("proxy needed")
    monkeypatch.setattr(PackageInstaller, "refusal", lambda installer: None)
    part, workshop = make_part()

    part.prepare()

    assert part.address() == DEBIAN
    assert any("the engine cannot get" in line and "proxy needed" in line for line in said(workshop.progress))


def test_where_nothing_is_possible_the_way_out_is_said(
    make_part: MakePart, engine: FakeEngine, is_online: list[bool]
) -> None:
    is_online[0] = False
    part, workshop = make_part()

    with pytest.raises(PartFailed, match=r"set LOCAL_STACK_BASE_IMAGE to an image with Python 3\.11 and pip"):
        part.prepare()

    with pytest.raises(LocalStackError, match="no base image was chosen yet"):
        BaseImage.name_of(workshop.settings)
    assert engine.is_closed


def test_an_image_of_the_settings_is_nobodys_to_get(make_part: MakePart, engine: FakeEngine) -> None:
    part, _ = make_part(base_image="registry.test/python:1")

    part.prepare()

    assert part.is_healthy()
    assert (part.address(), engine.acts) == ("registry.test/python:1", [])


def test_an_image_that_was_removed_is_not_healthy(make_part: MakePart, engine: FakeEngine) -> None:
    part, _ = make_part()
    part.prepare()

    engine.present.clear()

    assert not part.is_healthy()


def test_a_machine_without_a_bundle_says_which_setting_asks_for_it(
    make_part: MakePart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_image, "HOST_BUNDLE", tmp_path / "absent.crt")
    part, _ = make_part(trust_host_authorities=True)

    with pytest.raises(LocalStackError, match="unset LOCAL_STACK_TRUST_HOST_AUTHORITIES"):
        part.prepare()


def test_a_context_is_the_same_bytes_each_time() -> None:
    files = {"Dockerfile": b"FROM x", "a.txt": b"1"}

    first, second = pack_context(files).read(), pack_context(dict(files)).read()

    assert first == second
    with tarfile.open(fileobj=pack_context(files)) as archive:
        assert {(each.name, each.mtime, each.uid, each.mode) for each in archive} == {
            ("Dockerfile", 0, 0, 0o644),
            ("a.txt", 0, 0, 0o644),
        }
