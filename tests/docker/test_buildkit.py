"""Builds that need BuildKit, on a real engine: secrets, SSH agents, cache mounts, errors."""

from __future__ import annotations

import base64
import json
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from docker.api import APIClient

from container_training.operators.image import BuildImageOperator
from tests.support.bed.image_tasks import (
    LOCAL,
    build,
    make_context_dir,
    processes_with,
    push,
    signalled,
    task_context,
)
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("image_connections")]

#: A step of its own in each run: BuildKit's cache outlasts the tests, and a cached step prints nothing.
BEGIN = f"ARG BASE_IMAGE\nFROM ${{BASE_IMAGE}}\nENV RUN_OF_TESTS={uuid.uuid4()}\n"
SECRET = "correct-horse-battery-staple"
#: Uses the secret as a step would, and then does what none should: prints it.
USES_SECRET = BEGIN + (
    "RUN --mount=type=secret,id=token sha256sum < /run/secrets/token > /proof && cat /run/secrets/token\n"
    "RUN test ! -s /run/secrets/token\n"
)


@pytest.fixture(params=["file", "connection", "variable"])
def source(request: pytest.FixtureRequest, tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the secret is; ``SECRET`` is its value."""
    monkeypatch.setenv("AIRFLOW_CONN_PRIVATE_INDEX", json.dumps({"conn_type": "http", "password": SECRET}))
    monkeypatch.setenv("AIRFLOW_VAR_BUILD_TOKEN", SECRET)
    file = tmp_path_factory.mktemp("secret") / "token"
    file.write_text(SECRET)
    sources = {
        "file": str(file),
        "connection": "connection:private_index",
        "variable": "variable:build_token",
    }
    return sources[request.param]


def test_a_secret_is_there_for_its_step_and_nowhere_else(
    tmp_path: Path, api: APIClient, base_image: str, task_log: list[str], source: str, tmp_path_factory: Any
) -> None:
    # The secret's source does not count in the tag.
    folder = make_context_dir(
        tmp_path, USES_SECRET.replace("ENV ", f"ENV SOURCE={source.partition(':')[0]}\nENV ")
    )

    image = build(folder, f"{LOCAL}/secret", base_image, secrets={"token": source})

    archive = tmp_path_factory.mktemp("image") / "image.tar"
    with archive.open("wb") as file:
        for chunk in api.get_image(image):
            file.write(chunk)
    contents = archive.read_bytes()
    proof = subprocess.run(["sha256sum"], input=SECRET.encode(), capture_output=True, check=True).stdout
    # As booleans: pytest would print the whole image.
    has_proof, has_secret = proof in contents, SECRET.encode() in contents
    assert has_proof
    assert not has_secret
    described = json.dumps([api.inspect_image(image), api.history(image)])
    assert SECRET not in described
    log = "\n".join(task_log)
    assert "BuildKit builds it, for RUN --mount, secret token" in log
    assert SECRET not in log
    assert "***" in log


def test_another_value_is_the_same_image_and_another_id_is_not(
    tmp_path: Path, base_image: str, task_log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_context_dir(
        tmp_path, BEGIN + "RUN --mount=type=secret,id=a cat /proc/sys/kernel/random/uuid > /id\n"
    )
    name = f"{LOCAL}/secret-value"
    monkeypatch.setenv("AIRFLOW_VAR_BUILD_TOKEN", "one value")
    image = build(folder, name, base_image, secrets={"a": "variable:build_token"})
    monkeypatch.setenv("AIRFLOW_VAR_BUILD_TOKEN", "another value")
    task_log.clear()

    same = build(folder, name, base_image, secrets={"a": "variable:build_token"})
    log = "\n".join(task_log)
    other = build(
        folder, name, base_image, secrets={"a": "variable:build_token", "b": "variable:build_token"}
    )

    assert same == image
    assert "on the engine already" in log
    assert other != image


def test_a_secret_that_cannot_be_had_is_named_before_anything_runs(tmp_path: Path, base_image: str) -> None:
    folder = make_context_dir(tmp_path, USES_SECRET + "# no secret\n")
    sources = {"token": str(tmp_path / "nowhere"), "other": "variable:nobody_set_this", "third": "relative"}

    with pytest.raises(AirflowFailException) as caught:
        build(folder, f"{LOCAL}/no-secret", base_image, secrets=sources)

    message = str(caught.value)
    assert message.startswith("InvalidRequest: secrets.token: ")
    assert "is not a file on this worker" in message
    assert "secrets.other: 'variable:nobody_set_this' is no variable of this Airflow" in message
    assert "secrets.third: 'relative' must be connection:ID, variable:KEY or the absolute path" in message


#: Asks the agent for its identities (SSH agent protocol, message 11) and keeps the answer, which has the
#: public keys. Its length comes first, and then it may arrive in pieces: ``read`` waits for all of them.
ASK_AGENT = (
    "import os, socket, struct; agent = socket.socket(socket.AF_UNIX); agent.connect(os.environ['SSH_AUTH_SOCK']); "
    "agent.sendall(struct.pack('>IB', 1, 11)); answer = agent.makefile('rb'); "
    "length, = struct.unpack('>I', answer.read(4)); open('/identities', 'wb').write(answer.read(length))"
)


@pytest.mark.needs_program("ssh-keygen")
def test_a_step_reaches_the_ssh_agent_and_the_key_stays_outside(
    tmp_path: Path, api: APIClient, base_image: str, tmp_path_factory: Any
) -> None:
    key = tmp_path_factory.mktemp("keys") / "deploy"
    make_key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "deploy", "-f", str(key)]
    subprocess.run(make_key, check=True)
    folder = make_context_dir(tmp_path, BEGIN + f'RUN --mount=type=ssh python3 -c "{ASK_AGENT}"\n')

    image = build(folder, f"{LOCAL}/ssh", base_image, ssh={"default": str(key)})

    contents = b"".join(api.get_image(image))
    public = key.with_suffix(".pub").read_text().split()[1]
    has_answer = base64.b64decode(public) in contents  # a boolean: pytest would print the whole image
    assert has_answer
    private_lines = key.read_bytes().splitlines()[1:-1]
    assert not [line for line in private_lines if line in contents]


def test_a_cache_mount_lasts_from_build_to_build(
    tmp_path: Path, base_image: str, task_log: list[str]
) -> None:
    cache = uuid.uuid4()
    step = f"RUN --mount=type=cache,id={cache},target=/cache echo run >> /cache/runs; wc -l < /cache/runs | sed s/^/runs=/\n"
    name = f"{LOCAL}/cached"
    build(make_context_dir(tmp_path, BEGIN + "ENV A=1\n" + step), name, base_image)

    build(make_context_dir(tmp_path, BEGIN + "ENV A=2\n" + step), name, base_image)

    said = [line.partition("runs=")[2] for line in task_log if " runs=" in line]
    assert said == ["1", "2"]


def test_an_image_that_buildkit_built_is_tested_pushed_and_found_like_any_other(
    tmp_path: Path, base_image: str, registry: str, task_log: list[str]
) -> None:
    folder = make_context_dir(
        tmp_path, BEGIN + "RUN --mount=type=tmpfs,target=/t true\n", **{"Dockerfile.dockerignore": "*.log\n"}
    )
    name = f"{registry}/p-1/image-tests/buildkit"

    image = build(folder, name, base_image)
    digest = push(image)
    task_log.clear()
    again = push(build(folder, name, base_image))

    assert again == digest
    assert "nothing is built" in "\n".join(task_log)
    assert "nothing is pushed" in "\n".join(task_log)


@pytest.mark.parametrize(
    ("dockerfile", "message"),
    [
        (
            BEGIN + "RUN --mount=type=tmpfs,target=/t echo before >&2; echo wrong >&2; exit 7\n",
            r"BuildFailed: \[2/2\] RUN --mount=\S+ echo before.* exited with 7; its last output:\n    before\n    wrong$",
        ),
        (
            BEGIN + "RUN --mount=type=tmpfs,target=/t true\nFORM scratch\n",
            "BuildFailed: .*unknown instruction: FORM",
        ),
        (BEGIN + "COPY --chmod=600 missing.txt /\n", "BuildFailed: .*missing.txt"),
    ],
    ids=["a step", "syntax", "no file"],
)
def test_what_fails_is_named(tmp_path: Path, base_image: str, dockerfile: str, message: str) -> None:
    with pytest.raises(AirflowFailException, match=message):
        build(make_context_dir(tmp_path, dockerfile), f"{LOCAL}/broken", base_image)


def test_killing_the_task_ends_the_build(tmp_path: Path, base_image: str) -> None:
    step = f"sleep 613.{uuid.uuid4().int % 10**9}"  # of this run
    operator = BuildImageOperator(
        task_id="build",
        context_dir=make_context_dir(tmp_path, BEGIN + f"RUN --mount=type=tmpfs,target=/t {step}\n"),
        image=f"{LOCAL}/slow-buildkit",
        build_args={"BASE_IMAGE": base_image},
    )

    # Of BuildKit's steps the engine lists no containers; the machine has their processes.
    killed = signalled(lambda: processes_with(step), operator.on_kill)
    with killed, pytest.raises(AirflowFailException, match="build was cancelled"):
        operator.execute(task_context())

    wait_until(lambda: not processes_with(step), "the build's step has ended")


def test_the_classic_builder_is_not_given_what_it_cannot_do(tmp_path: Path, base_image: str) -> None:
    folder = make_context_dir(tmp_path, USES_SECRET)

    with pytest.raises(
        AirflowFailException, match=r"BuildKitMissing: the classic builder knows no RUN --mount"
    ):
        build(folder, f"{LOCAL}/classic", base_image, builder="classic")


def test_a_machine_without_buildkit_says_what_to_install(
    tmp_path: Path, base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_context_dir(tmp_path, USES_SECRET + "# no command line\n")
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(
        AirflowFailException, match=r"BuildKitMissing: .*no program docker on PATH; install docker-buildx"
    ):
        build(folder, f"{LOCAL}/no-cli", base_image)
