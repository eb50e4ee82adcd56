"""
``gcloud ai-platform jobs submit training``: its flags, and reading them. Without I/O.

Source of the flags: ``gcloud [alpha|beta] ai-platform jobs submit training --help``, Google Cloud SDK 528,
and ``command_lib/ml_engine/flags.py``. A test compares ``FLAGS`` with the gcloud that is installed.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from container_training.work.migration.shell_text import ShellText
from training_api.errors import InvalidCommand

_TRACKS = ("alpha", "beta")
_SURFACES = ("ai-platform", "ml-engine")  # the second is the first's old name
_COMMAND = ("jobs", "submit", "training")


class Kind(Enum):
    """What a flag is about."""

    JOB = auto()  #: of the request
    STAGING = auto()  #: where packages are uploaded
    WAITING = auto()  #: how long gcloud itself goes on
    OUTPUT = auto()  #: what gcloud prints
    CREDENTIALS = auto()  #: as whom gcloud asks
    PROJECT = auto()  #: where the job is made


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag; ``takes_value`` is false of a switch, which also has a ``--no-`` form."""

    kind: Kind
    takes_value: bool = True


def _flags(kind: Kind, *names: str, takes_value: bool = True) -> dict[str, Flag]:
    return dict.fromkeys(names, Flag(kind=kind, takes_value=takes_value))


FLAGS: Mapping[str, Flag] = {
    **_flags(
        Kind.JOB,
        "config",
        "job-dir",
        "kms-key",
        "kms-keyring",
        "kms-location",
        "kms-project",
        "labels",
        "master-accelerator",
        "master-image-uri",
        "master-machine-type",
        "module-name",
        "network",  # alpha and beta
        "package-path",
        "packages",
        "parameter-server-accelerator",
        "parameter-server-count",
        "parameter-server-image-uri",
        "parameter-server-machine-type",
        "python-version",
        "region",
        "runtime-version",
        "scale-tier",
        "service-account",
        "tpu-tf-version",  # alpha and beta
        "use-chief-in-tf-config",
        "worker-accelerator",
        "worker-count",
        "worker-image-uri",
        "worker-machine-type",
    ),
    **_flags(Kind.JOB, "enable-web-access", takes_value=False),
    **_flags(Kind.STAGING, "staging-bucket"),
    **_flags(Kind.WAITING, "async", "stream-logs", takes_value=False),
    **_flags(Kind.PROJECT, "project"),
    **_flags(
        Kind.CREDENTIALS,
        "access-token-file",
        "account",
        "billing-project",
        "configuration",
        "impersonate-service-account",
    ),
    **_flags(Kind.OUTPUT, "flags-file", "flatten", "format", "trace-token", "verbosity"),
    **_flags(Kind.OUTPUT, "help", "log-http", "quiet", "user-output-enabled", takes_value=False),
}
_SHORT = {"-q": "quiet", "-h": "help"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GcloudCommand:
    """
    A command line, read.

    :param job: name of the job.
    :param flags: values by flag, in their order; a switch's are ``true`` or ``false``.
    :param user_args: what follows ``--``; ``None``: there is no ``--``.
    :param unknown: flags that gcloud does not have, as written.
    :param words: more words than a job name, as written.
    """

    job: str
    flags: Mapping[str, Sequence[str]]
    user_args: Sequence[str] | None
    unknown: Sequence[str] = field(default=())
    words: Sequence[str] = field(default=())

    def last(self, name: str) -> str | None:
        """Return the value of a flag; of one that is given twice the last."""
        values = self.flags.get(name)
        return values[-1] if values else None

    def of_kind(self, *kinds: Kind) -> list[str]:
        """Return the flags of ``kinds`` that are given."""
        return [name for name in self.flags if FLAGS[name].kind in kinds]


def find_gcloud_command(text: ShellText) -> GcloudCommand:
    """
    Return the command in ``text`` that submits a training job.

    Pure.

    :raises InvalidCommand: there is none, or more than one, or a flag lacks its value.
    """
    found = [words for words in text.statements if words[0].rpartition("/")[2] == "gcloud"]
    if len(found) != 1:
        raise InvalidCommand(
            f"expected one gcloud command, got {len(found)}; migrate `gcloud ai-platform jobs submit "
            "training ...` one at a time"
        )
    return _Reader(found[0][1:], text).read()


class _Reader:
    """Reads the words of one command, from the left to the right."""

    def __init__(self, words: Sequence[str], text: ShellText) -> None:
        end = words.index("--") if "--" in words else len(words)
        self._words = list(words[:end])
        self._user_args = list(words[end + 1 :]) if end < len(words) else None
        self._text = text
        self._flags: dict[str, list[str]] = {}
        self._unknown: list[str] = []
        self._positional: list[str] = []

    def read(self) -> GcloudCommand:
        while self._words:
            word = self._words.pop(0)
            if word in _SHORT:
                self._flags.setdefault(_SHORT[word], []).append("true")
            elif word.startswith("--"):
                self._flag(word)
            else:
                self._positional.append(word)
        job, *words = self._without_path()
        return GcloudCommand(
            job=job, flags=self._flags, user_args=self._user_args, unknown=self._unknown, words=words
        )

    def _without_path(self) -> list[str]:
        """Return the positional words after the name of the command."""
        words = (
            self._positional[1:]
            if self._positional[:1] and self._positional[0] in _TRACKS
            else self._positional
        )
        if not words or words[0] not in _SURFACES or tuple(words[1:4]) != _COMMAND:
            shown = self._text.as_written(" ".join(["gcloud", *self._positional[:5]]))
            raise InvalidCommand(f"expected gcloud ai-platform jobs submit training, got {shown!r}")
        if len(words) == 4:
            raise InvalidCommand(
                "gcloud ai-platform jobs submit training must be followed by the name of the job"
            )
        return words[4:]

    def _flag(self, word: str) -> None:
        name, has_value, value = word[2:].partition("=")
        flag = FLAGS.get(name)
        if (
            flag is None
            and not has_value
            and name.startswith("no-")
            and not FLAGS.get(name[3:], _NONE).takes_value
        ):
            self._flags.setdefault(name[3:], []).append("false")
        elif flag is None:
            self._unknown_flag(word, has_value)
        elif not flag.takes_value:
            self._flags.setdefault(name, []).append(value.lower() or "true")
        elif has_value:
            self._flags.setdefault(name, []).append(value)
        elif self._words and not self._words[0].startswith("--"):
            self._flags.setdefault(name, []).append(self._words.pop(0))
        else:
            raise InvalidCommand(f"--{name} must be followed by its value")

    def _unknown_flag(self, word: str, has_value: str) -> None:
        written = self._text.as_written(word)
        # Whether it takes the next word nobody knows; but a command has one positional word more than its
        # name.
        is_complete = len(self._positional) > len(_COMMAND) + 1
        if not has_value and self._words and not self._words[0].startswith("-") and is_complete:
            written = f"{written} {self._text.as_written(self._words.pop(0))}"
        self._unknown.append(written)


_NONE = Flag(kind=Kind.OUTPUT)


def similar_flag(written: str) -> str:
    """Return the flag that an unknown one may have been meant to be, or an empty string. Pure."""
    name = written.lstrip("-").partition("=")[0].partition(" ")[0]
    found = difflib.get_close_matches(name, list(FLAGS), n=1)
    return f"--{found[0]}" if found else ""
