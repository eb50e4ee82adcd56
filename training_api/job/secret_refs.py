"""
Which secrets a job names: AI Platform Training has no field for them, so labels do.

``secret-NAME: ""`` is a file in each container, ``secret-NAME: wandb_api_key`` the variable WANDB_API_KEY:
labels have no capitals. Any client can send labels, and a label never holds a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from training_api.errors import FieldViolation, InvalidJobSpec
from training_api.job.violations import Violations

LABEL_PREFIX = "secret-"
SECRET_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,55}")
NAME_RULE = "must hold only [a-z0-9_-], begin with a letter or a digit, and be at most 56 long"
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef:
    """
    A secret that each container of a job gets.

    :param variable: the environment variable that holds it; empty: it is a file.
    """

    name: str
    variable: str = ""

    @property
    def label(self) -> str:
        """The label that names it."""
        return f"{LABEL_PREFIX}{self.name}"


def secret_refs(labels: Mapping[str, str]) -> tuple[SecretRef, ...]:
    """Return the secrets that a job's labels name, good or not, by name. Pure."""
    return tuple(
        SecretRef(name=label.removeprefix(LABEL_PREFIX), variable=value.upper())
        for label, value in sorted(labels.items())
        if label.startswith(LABEL_PREFIX)
    )


def check_secrets(rules: Violations, refs: tuple[SecretRef, ...]) -> None:
    """Check the names of secrets and of their variables."""
    taken: dict[str, str] = {}
    for ref in refs:
        path = f"labels.{ref.label}"
        if not SECRET_NAME.fullmatch(ref.name):
            rules.add(path, f"the name of a secret {NAME_RULE}; got {ref.name!r}")
        if not ref.variable:
            continue
        if not _VARIABLE.fullmatch(ref.variable):
            rules.add(
                path,
                "must be empty, for a file, or the name of a variable: [a-z0-9_], not a digit first (its text is "
                "not shown: it could be the secret)",
            )
        if first := taken.get(ref.variable):
            rules.add(path, f"the variable {ref.variable} already holds the secret {first!r}")
        taken.setdefault(ref.variable, ref.name)


def secret_labels(secrets: Mapping[str, str | None]) -> dict[str, str]:
    """
    Return the labels that name ``secrets``. Pure.

    :param secrets: names of secrets -> variables; empty or ``None``: files.
    :raises InvalidJobSpec: a variable is not in capitals, which labels cannot tell.
    """
    small = [name for name, value in secrets.items() if value and value != value.upper()]
    if small:
        # The text is not shown: it could be the secret.
        what = "must be the name of a variable, in capitals, or empty, for a file"
        raise InvalidJobSpec(
            [FieldViolation(field=f"trainer_secrets.{name}", description=what) for name in small]
        )
    return {SecretRef(name=name).label: (value or "").lower() for name, value in secrets.items()}
