"""What the tests need from this machine: an engine, a base image, and programs, installed where that is possible."""

from __future__ import annotations

import fcntl
import hashlib
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from local_stack.base_image import BaseImage
from local_stack.database import ensure_server_programs
from local_stack.errors import PackagesMissing
from local_stack.packages import find_program
from local_stack.registry import ensure_registry_program
from local_stack.settings import Part
from local_stack.stack import LocalStack

#: Programs that tests start -> the Debian packages that have them.
PROGRAMS: Mapping[str, str] = {
    "ip": "iproute2",  # the nodes of the swarm that tests make have networks of their own
    "ssh-keygen": "openssh-client",  # keys for builds that reach an SSH agent
    "chromium": "chromium",  # a real browser looks at the dashboard
    "promtool": "prometheus",  # asks what the dashboard for Grafana asks
}
#: Programs that Debian does not have -> where they come from.
ELSEWHERE: Mapping[str, str] = {"gcloud": "https://cloud.google.com/sdk/docs/install"}
#: Where test beds say which engine they use, whoever's and from whatever checkout they are.
LOCKS = Path("/var/tmp")  # noqa: S108  # shared on purpose; the files are empty


def bring_up_test_bed(stack: LocalStack) -> None:
    """
    Bring up what the tests need, and print what they run against, and what is missing.

    The tests start a registry, an object store and services of their own, on free ports. Tests of programs that are missing are not
    run, and counted.

    :raises LocalStackError: there is no engine or base image.
    """
    missing = [package for program, package in PROGRAMS.items() if find_program(program) is None]
    if missing and stack.packages.refusal() is None:
        stack.packages.install(missing, start_services=False)
    stack.up([Part.ENGINE, Part.BASE_IMAGE])
    registry = ensure_registry_program(stack.settings, stack.packages)
    rows = {
        "engine": stack.engine.describe(),
        "base image": BaseImage.name_of(stack.settings),
        "registry": str(registry or stack.settings.registry_image),
        "postgresql": _path_or_reason(lambda: ensure_server_programs(stack.packages)),
        **{program: _found_or_source(program) for program in (*PROGRAMS, *ELSEWHERE)},
        "python": platform.python_version(),
        "airflow": version("apache-airflow"),
    }
    for name, value in rows.items():
        print(f"{name + ':':12}{value}")


@contextmanager
def engine_in_use(engine_url: str, folder: Path = LOCKS) -> Iterator[Callable[[], bool]]:
    """
    Note that this process uses the engine, so that no other test bed stops it meanwhile.

    :param folder: where the locks of all engines lie.
    :return: a function that tells whether nobody else uses the engine; once it has said so, nobody else begins to until the end.
    """
    name = f"container-training-engine-{hashlib.sha256(engine_url.encode()).hexdigest()[:12]}.lock"
    file = folder / name
    if not file.exists():
        file.touch(mode=0o644)  # another user may only read it, which is enough for a lock
    with file.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)

        def is_unused_by_others() -> bool:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        yield is_unused_by_others


def _found_or_source(program: str) -> str:
    source = ELSEWHERE.get(program) or f"the package {PROGRAMS.get(program)}"
    return str(find_program(program) or f"missing, its tests are not run: install {source}")


def _path_or_reason(ensure: Callable[[], Path]) -> str:
    try:
        return str(ensure())
    except PackagesMissing as error:
        return f"missing, its tests are not run: {error}"
