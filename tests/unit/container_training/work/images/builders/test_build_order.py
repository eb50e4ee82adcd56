"""What the steps of a build may ask their caller for."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from container_training.work.images.build_context import open_context
from container_training.work.images.builders.build_order import BuildSession, order_build
from container_training.work.images.content import image_content
from container_training.work.images.engine import Cancellation
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


def test_an_order_has_the_packed_context_from_its_start_and_the_labels_of_both(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    context, archive, lines = open_context(tmp_path, build_args={"A": "1"}), io.BytesIO(), list[str]()
    content = image_content(context, "registry.example/p/digits", archive, lambda base: base, [])
    size = archive.tell()

    order = order_build(
        context,
        content,
        archive,
        labels={"team": "vision"},
        network_mode="host",
        on_line=lines.append,
        cancellation=Cancellation(),
        session=BuildSession(),
    )

    assert (order.ref, order.dockerfile, order.build_args) == (content.ref, "Dockerfile", {"A": "1"})
    assert (order.labels["team"], order.labels["container-training.context"]) == ("vision", content.digest)
    assert (order.archive.tell(), len(order.archive.read())) == (0, size)
    assert lines == [f"building {content.ref} from {tmp_path} ({size} bytes of context)"]
