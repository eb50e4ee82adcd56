"""
The secrets that trainers get: ``FOLDER/PROJECT/NAME``, one file each, its owner's alone.

``python -m training_service secret`` writes them. No message and no error here has a value in it.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from container_engines.base import GivenSecrets
from training_api.errors import FieldViolation, InvalidJobSpec, SecretUnusable
from training_api.job.job_spec import JobSpec
from training_api.job.secret_refs import NAME_RULE, SECRET_NAME, SecretRef
from training_service.model.projects import PROJECT_PATTERN

#: Of a version in Secret Manager [docs: Secret Manager, quotas].
MAX_BYTES = 65_536
_PROJECT = re.compile(PROJECT_PATTERN)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class SecretStore:
    """
    The secrets of all projects; safe for threads, and beside other processes.

    :param own_variables: variables that containers get from the service, which no secret replaces.
    """

    def __init__(self, folder: Path, own_variables: Collection[str] = ()) -> None:
        self._folder = folder
        self._own_variables = frozenset(own_variables)

    def check(self, spec: JobSpec) -> None:
        """
        Check that a job can get its secrets now.

        :raises InvalidJobSpec: with each that it cannot get.
        """
        violations = []
        for ref in spec.secrets:
            try:
                self.given(replace(spec, secrets=(ref,)))
            except SecretUnusable as error:
                violations.append(FieldViolation(field=f"labels.{ref.label}", description=str(error)))
        if violations:
            raise InvalidJobSpec(violations)

    def given(self, spec: JobSpec) -> GivenSecrets:
        """
        Return what a container of the job gets, as it is now.

        :raises SecretUnusable: a secret cannot be read.
        """
        contents = {ref: self._read(spec.project, ref.name) for ref in spec.secrets}
        return GivenSecrets(
            files={ref.name: content for ref, content in contents.items() if not ref.variable},
            environment={
                ref.variable: self._text(ref, content) for ref, content in contents.items() if ref.variable
            },
        )

    def put(self, project: str, name: str, content: bytes) -> None:
        """
        Make a secret, or replace it as a whole.

        :raises SecretUnusable: it is empty or too large, or a name breaks its rule.
        """
        if not 0 < len(content) <= MAX_BYTES:
            raise SecretUnusable(f"a secret has 1 to {MAX_BYTES} bytes, got {len(content)}")
        path = self._path(project, name)
        for folder in (self._folder, path.parent):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
        # No name of a secret begins with a dot.
        fresh = path.with_name(f".{name}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)

    def written(self, project: str) -> Mapping[str, datetime]:
        """Return the names of a project's secrets, and when each was written last."""
        folder = self._path(project, "a").parent
        found = {}
        with suppress(FileNotFoundError):
            for item in sorted(folder.iterdir()):
                if SECRET_NAME.fullmatch(item.name):
                    found[item.name] = datetime.fromtimestamp(item.lstat().st_mtime, UTC)
        return found

    def remove(self, project: str, name: str) -> None:
        """Remove a secret; containers that have it keep it. :raises SecretUnusable: there is none."""
        try:
            self._path(project, name).unlink()
        except FileNotFoundError:
            raise self._missing(project, name) from None

    def _text(self, ref: SecretRef, content: bytes) -> str:
        """Return what a variable holds: as a shell's ``$(...)`` does, without line ends at the end."""
        if ref.variable in self._own_variables:
            raise SecretUnusable(
                f"the service itself sets {ref.variable} in containers; choose another variable"
            )
        try:
            text = content.decode().rstrip("\n")
        except UnicodeDecodeError:
            text = "\0"  # the error has the value in it
        if "\0" in text:
            raise SecretUnusable(
                f"secret {ref.name!r} is no text without NUL, which a variable must be; give it as a file: leave the "
                "label empty"
            )
        return text

    def _read(self, project: str, name: str) -> bytes:
        path = self._path(project, name)
        try:
            with _opened(self._folder, project, name) as descriptors:
                for descriptor, place in zip(descriptors, (self._folder, path.parent, path), strict=True):
                    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
                    if mode & _OTHERS:
                        raise SecretUnusable(
                            f"secret {name!r}: {place} must be its owner's alone, got mode {mode:04o}; chmod go= {place}"
                        )
                if not stat.S_ISREG(os.fstat(descriptors[-1]).st_mode):
                    raise SecretUnusable(f"secret {name!r}: {path} is no file")
                content = os.read(descriptors[-1], MAX_BYTES + 1)
        except FileNotFoundError:
            raise self._missing(project, name) from None
        except OSError as error:
            raise SecretUnusable(
                f"secret {name!r}: {path} cannot be read: {error.strerror}; links are not followed"
            ) from error
        if len(content) > MAX_BYTES:
            raise SecretUnusable(f"secret {name!r}: {path} has more than {MAX_BYTES} bytes")
        return content

    def _path(self, project: str, name: str) -> Path:
        if not _PROJECT.fullmatch(project):
            raise SecretUnusable(f"{project!r} is no project's id")
        if not SECRET_NAME.fullmatch(name):
            raise SecretUnusable(f"the name of a secret {NAME_RULE}; got {name!r}")
        return self._folder / project / name

    def _missing(self, project: str, name: str) -> SecretUnusable:
        return SecretUnusable(
            f"project {project!r} has no secret {name!r}: there is no {self._path(project, name)}; on the service's "
            f"machine `python -m training_service secret set {name} --project {project}` makes it"
        )


@contextmanager
def _opened(folder: Path, *names: str) -> Iterator[list[int]]:
    """Open a folder and what lies below it, without following links or waiting for pipes."""
    descriptors = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY)]
    try:
        for name in names:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptors.append(os.open(name, flags, dir_fd=descriptors[-1]))
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
