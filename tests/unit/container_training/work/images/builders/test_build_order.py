"""What the steps of a build may ask their caller for."""

from __future__ import annotations

import pytest

from container_training.work.images.builders.build_order import BuildSession
from training_api.errors import InvalidRequest


@pytest.mark.parametrize("id_", ["a,src=/etc/shadow", "a=b", "", "-x"])
def test_an_id_that_would_say_more_to_the_command_line_is_refused(id_: str) -> None:
    with pytest.raises(InvalidRequest, match="ids of secrets and SSH agents must be letters"):
        BuildSession(secret_ids=(id_,))
    with pytest.raises(InvalidRequest):
        BuildSession(ssh={id_: ""})


def test_what_is_offered_is_named_in_order_and_without_values() -> None:
    session = BuildSession(
        secret_ids=("b", "a.1"),
        read_secrets=lambda: {"a.1": b"secret", "b": b"x"},
        ssh={"key": "/home/ann/.ssh/id"},
    )

    assert session.ids == ["secret a.1", "secret b", "ssh key"]
    assert BuildSession().ids == []


def test_values_are_not_read_before_something_is_built() -> None:
    def read() -> dict[str, bytes]:
        raise AssertionError("nothing is built yet")

    assert BuildSession(secret_ids=("a",), read_secrets=read).ids == ["secret a"]
