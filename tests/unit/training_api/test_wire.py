"""When the models of messages are built."""

from __future__ import annotations

from training_api.wire import WireModel


def test_a_model_is_built_at_its_first_use() -> None:
    class Message(WireModel):
        some_text: str

    assert not Message.__pydantic_complete__
    assert Message(some_text="a").to_wire() == {"someText": "a"}
    assert Message.__pydantic_complete__


def test_a_server_builds_those_below_a_model_and_leaves_the_others() -> None:
    class Base(WireModel):
        pass

    class Message(Base):
        pass

    class Other(WireModel):
        pass

    Base.build_all()

    assert Message.__pydantic_complete__
    assert not Other.__pydantic_complete__
