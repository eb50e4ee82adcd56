"""Images by content on a real engine and registry: what is not repeated, and what is logged."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from docker.api import APIClient
from docker.utils import kwargs_from_env

from container_training.work.images.build_context import open_context
from container_training.work.images.engine import Cancellation
from container_training.work.images.image_builder import build_image
from container_training.work.images.labels import CREATED_LABEL, REVISION_LABEL, labels_of
from container_training.work.images.pusher import push_image
from tests.support import web
from tests.support.bed.image_tasks import LOCAL, OWN, build, make_context_dir, push
from tests.support.speed import scaled
from training_api.job.image_ref import parse_image_ref

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("image_connections")]

#: Its image is another one each time that it is built; that of no other process of tests.
BEGIN = f"ARG BASE_IMAGE\nFROM ${{BASE_IMAGE}}\n{OWN}"
UNIQUE = f"{BEGIN}COPY note.txt /\nRUN cat /proc/sys/kernel/random/uuid > /id\n"


def test_what_is_skipped_is_said_with_what_was_compared(
    tmp_path: Path, api: APIClient, base_image: str, registry: str, task_log: list[str]
) -> None:
    folder = make_context_dir(tmp_path, UNIQUE, **{"note.txt": "skipped"})
    name = f"{registry}/p-1/image-tests/skipped"
    digest = push(build(folder, name, base_image))
    first = "\n".join(task_log)
    task_log.clear()

    by_digest = build(folder, name, base_image)
    again = push(by_digest)

    image = by_digest.partition("@")[0]
    assert f"building {image} from {folder}" in first
    assert f"neither the engine nor registry {registry} has {image}" in first
    assert again == digest
    log = "\n".join(task_log)
    found = api.inspect_image(image)
    assert f"{image} is on the engine already: nothing is built" in log
    assert "compared: 2 files of the context, Dockerfile among them" in log
    assert f"compared: build arguments: BASE_IMAGE; base images: {base_image} (" in log
    assert (
        f"found as {found['Id']}, built {labels_of(found)[CREATED_LABEL]}, from no known commit; "
        "it keeps the labels of that build" in log
    )
    assert f"is in the registry already, as {digest.rpartition('@')[2]}: nothing is pushed" in log
    assert f"that of the engine's image {found['Id']}" in log


def test_another_commit_of_the_same_content_is_the_same_image_with_its_first_labels(
    tmp_path: Path, api: APIClient, base_image: str, task_log: list[str]
) -> None:
    folder = make_context_dir(tmp_path, UNIQUE, **{"note.txt": "committed", ".dockerignore": ".git\n"})
    first_commit = commit_all(tmp_path, "--allow-empty")
    image = build(folder, f"{LOCAL}/labelled", base_image, labels={"team": "vision"})
    labels = labels_of(api.inspect_image(image))
    commit_all(tmp_path, "--allow-empty")
    task_log.clear()

    again = build(folder, f"{LOCAL}/labelled", base_image, labels={"team": "other"})

    assert again == image
    assert labels_of(api.inspect_image(image)) == labels
    assert labels[REVISION_LABEL] == first_commit
    assert labels["team"] == "vision"
    assert labels["container-training.context"].startswith(image.rpartition("ctx-")[2])
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", labels[CREATED_LABEL])
    assert f"from commit {first_commit}; it keeps the labels of that build" in "\n".join(task_log)


def commit_all(folder: Path, *options: str) -> str:
    """Commit what is in ``folder``, a checkout of its own; return the commit."""

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.com"]
        command = ["git", "-C", str(folder), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "a commit", *options)
    return git("rev-parse", "HEAD")


def test_an_engine_without_the_image_takes_it_from_the_registry(
    tmp_path: Path, api: APIClient, base_image: str, registry: str, task_log: list[str]
) -> None:
    folder = make_context_dir(tmp_path, UNIQUE, **{"note.txt": "elsewhere"})
    name = f"{registry}/p-1/image-tests/elsewhere"
    image = build(folder, name, base_image)
    digest = push(image)
    by_tag = image.partition("@")[0]
    first = api.inspect_image(image)["Id"]
    forget(api, image)
    task_log.clear()

    again = build(folder, name, base_image)

    log = "\n".join(task_log)
    assert again == image
    assert api.inspect_image(image)["Id"] == first
    assert f"registry {registry} has {by_tag}: pulling it" in log
    assert "Step 1/" not in log
    assert push(again) == digest


def forget(api: APIClient, image: str) -> None:
    """Remove an image with all its names, as a prune does."""
    api.remove_image(api.inspect_image(image)["Id"], force=True)


def test_a_foreign_image_in_the_registry_is_not_taken(
    tmp_path: Path, api: APIClient, base_image: str, registry: str, task_log: list[str]
) -> None:
    folder = make_context_dir(tmp_path, UNIQUE, **{"note.txt": "foreign"})
    name = f"{registry}/p-1/image-tests/foreign"
    image = build(folder, name, base_image).partition("@")[0]
    repository, _, tag = image.rpartition(":")
    forget(api, image)
    api.tag(base_image, repository, tag)
    push_image(api, parse_image_ref(image), on_line=print, find_login=lambda host: {})
    api.remove_image(image)
    task_log.clear()

    build(folder, name, base_image)

    assert f"the registry's {image} was not built from this content, and is not used" in "\n".join(task_log)
    assert labels_of(api.inspect_image(image))["container-training.context"]
    assert "is in the registry already" not in "\n".join(task_log)


def side_by_side(*works: Callable[[], Any]) -> list[Any]:
    """Run each in a thread of its own, begun together; return what they return."""
    results: list[Any] = [None] * len(works)
    start = threading.Barrier(len(works))

    def work(number: int) -> None:
        start.wait()
        try:
            results[number] = works[number]()
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors := [result for result in results if isinstance(result, Exception)]:
        raise errors[0]
    return results


@pytest.fixture
def engines(api: APIClient) -> Iterator[list[APIClient]]:
    """Clients of the engine, one for each task, as tasks have them."""
    clients = [_another_client() for _ in range(3)]
    yield clients
    for client in clients:
        client.close()


def _another_client() -> APIClient:
    return APIClient(**kwargs_from_env())


def test_the_same_content_at_once_is_built_once_and_pushed_once(
    tmp_path: Path, engines: list[APIClient], base_image: str, registry: str
) -> None:
    folder = make_context_dir(tmp_path, UNIQUE + "RUN sleep 5\n", **{"note.txt": "at once"})
    name = f"{registry}/p-1/image-tests/at-once"
    lines: list[str] = []

    def make(engine: APIClient) -> Any:
        context = open_context(folder, build_args={"BASE_IMAGE": base_image})
        built = build_image(engine, context, name, on_line=lines.append, find_login=lambda host: {})
        return built, push_image(engine, built.ref, on_line=lines.append, find_login=lambda host: {})

    made = side_by_side(*(lambda engine=engine: make(engine) for engine in engines))

    assert sorted(built.is_reused for built, _ in made) == [False, True, True]
    assert len({built.image_id for built, _ in made}) == 1
    assert len({str(pushed.ref) for _, pushed in made}) == 1
    assert sum(line.startswith("another task is building") for line in lines) == 2
    assert sum(line.startswith("Step 1/") for line in lines) == 1
    answer = web.get(f"http://{registry}/v2/p-1/image-tests/at-once/tags/list")
    assert answer.json()["tags"] == [str(made[0][0].ref.tag)]


def test_the_images_of_two_roles_are_built_side_by_side(
    tmp_path: Path, engines: list[APIClient], base_image: str, registry: str
) -> None:
    random = "import os; open('/blob', 'wb').write(os.urandom(4000000))"
    folder = make_context_dir(tmp_path, f'{BEGIN}RUN python3 -c "{random}"\n')
    base = build(folder, f"{LOCAL}/shared", base_image)
    for role in ("master", "worker"):
        own = f"{BEGIN}RUN echo {role} > /role\n"
        (tmp_path / f"Dockerfile-{role}").write_text(own)
    both_build = threading.Barrier(2)

    def on_line(line: str) -> None:
        if line.startswith("building "):
            both_build.wait(scaled(60))

    def make(role: str, engine: APIClient) -> str:
        context = open_context(folder, dockerfile=f"Dockerfile-{role}", build_args={"BASE_IMAGE": base})
        name = f"{registry}/p-1/image-tests/roles"
        built = build_image(engine, context, name, on_line=on_line, find_login=lambda host: {})
        return str(push_image(engine, built.ref, on_line=print, find_login=lambda host: {}).ref)

    digests = side_by_side(lambda: make("master", engines[0]), lambda: make("worker", engines[1]))

    assert len(set(digests)) == 2


def test_a_build_that_waits_for_another_one_can_be_cancelled(
    tmp_path: Path, engines: list[APIClient], base_image: str
) -> None:
    from training_api.errors import BuildFailed

    folder = make_context_dir(tmp_path, UNIQUE, **{"note.txt": "waiting"})
    context = open_context(folder, build_args={"BASE_IMAGE": base_image})
    cancellation = Cancellation()
    builds, waits, has_ended = (threading.Event() for _ in range(3))

    def first() -> Any:
        def on_line(line: str) -> None:
            if line.startswith("building "):
                builds.set()
                assert has_ended.wait(scaled(60)), "the other build went on waiting"

        return build_image(engines[0], context, f"{LOCAL}/waiting", on_line=on_line)

    def second() -> Any:
        assert builds.wait(scaled(60))

        def on_line(line: str) -> None:
            if line.startswith("another task is building"):
                waits.set()

        with pytest.raises(BuildFailed, match="the build was cancelled"):
            build_image(
                engines[1],
                context,
                f"{LOCAL}/waiting",
                on_line=on_line,
                cancellation=cancellation,
            )
        has_ended.set()

    def third() -> Any:
        assert waits.wait(scaled(60))
        cancellation.cancel()

    built, _, _ = side_by_side(first, second, third)

    assert not built.is_reused


IGNORE = """\
# comment
*.log
cache
!cache/keep.txt
/deep/
**/*.pyc
src/[^a]*.py
a\\.txt
src/tmp/../old
"""


@pytest.mark.parametrize("file", [".dockerignore", "Dockerfile.dockerignore"])
def test_what_is_left_out_is_what_docker_leaves_out(
    tmp_path: Path, api: APIClient, base_image: str, file: str
) -> None:
    names = "a.log b.log cache/keep.txt cache/x deep/x.py src/a.py src/d.py src/deep/x.py src/y.pyc src/old/z a.txt t.py"
    for name in names.split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / ".dockerignore").write_text(IGNORE)
    listing = f"{BEGIN}COPY . /context\nRUN cd /context && find . -type f | sort\n"
    make_context_dir(tmp_path, listing)
    # The classic builder of docker's own command line knows the one file only.
    command = ["docker", "build", "--no-cache", "--tag", f"{LOCAL}/ignored:by-hand"]
    command += ["--build-arg", f"BASE_IMAGE={base_image}", str(tmp_path)]
    environment = {**os.environ, "DOCKER_BUILDKIT": "0"}
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    expected = {line.removeprefix("./") for line in said.splitlines() if line.startswith("./")}
    make_context_dir(tmp_path, listing + "# not from the engine's cache\n")
    if file != ".dockerignore":
        (tmp_path / ".dockerignore").rename(tmp_path / file)
        expected = {*expected, file} - {".dockerignore"}
    lines: list[str] = []

    build_image(
        api,
        open_context(tmp_path, build_args={"BASE_IMAGE": base_image}),
        f"{LOCAL}/ignored",
        on_line=lines.append,
    )

    assert {line.removeprefix("./") for line in lines if line.startswith("./")} == expected
    assert "t.py" in expected
    assert "a.log" not in expected
