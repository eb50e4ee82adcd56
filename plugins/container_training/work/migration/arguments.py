"""
Where the arguments of containers stand in ``trainingInput``. Without I/O.

Source: discovery, ``TrainingInput.args``: not together with ``containerCommand`` or ``containerArgs``. A role
has the image of the master unless it has its own, and neither its command nor its ``containerArgs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from training_api.dialects.ml_v1.roles import RoleFields


def words(value: Any) -> Any:
    """Return arguments as text: Vertex AI takes numbers, too. Pure."""
    return (
        [each if isinstance(each, str) else str(each) for each in value] if isinstance(value, list) else value
    )


def place_arguments(training: dict[str, Any], of_roles: Mapping[RoleFields, Any]) -> None:
    """
    Write the arguments of the roles into ``training``, which has their configurations.

    What all roles share is the job's, unless there is a command; then each container has its own.

    :param of_roles: lists of words, or one text that only a run can tell.
    """
    configs = {role: training.setdefault(f"{role.wire}Config", {}) for role in of_roles}
    first, *others = of_roles.values()
    has_command = any(config.get("containerCommand") for config in configs.values())
    # A single text is moved to the container by the task, which splits it into words.
    is_one_text = isinstance(first, str) and not others
    if is_one_text or (not has_command and all((each or []) == (first or []) for each in others)):
        training["args"] = first
        return
    for role, args in of_roles.items():
        if args:
            configs[role]["containerArgs"] = args if isinstance(args, list) else [args]
