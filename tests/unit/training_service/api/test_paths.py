"""Which projects a path may name."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from training_service.api.paths import ProjectPath

PROJECT: TypeAdapter[str] = TypeAdapter(ProjectPath)


@pytest.mark.parametrize("project", ["p", "demo-project", "12345", "example.com:vision", "a" * 128])
def test_ids_numbers_and_domain_scoped_ids_are_projects(project: str) -> None:
    assert PROJECT.validate_python(project) == project


@pytest.mark.parametrize("project", ["", "-", "-demo", ":demo", "a b", "a/b", "demo\n", "é", "a" * 129])
def test_anything_else_is_none(project: str) -> None:
    with pytest.raises(ValidationError):
        PROJECT.validate_python(project)
