"""The newest facts of each machine, and their age."""

from __future__ import annotations

from container_engines.base import Usage
from container_engines.swarm.facts import MachineFacts, NodeFacts


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_facts_are_of_their_machine_and_take_the_place_of_older_ones() -> None:
    facts = NodeFacts(Time())
    facts.tell("one", MachineFacts(out_of_memory={"a": True, "b": False}, usage={}))

    assert facts.out_of_memory("one", "a") is True
    assert facts.out_of_memory("one", "b") is False
    assert facts.out_of_memory("one", "c") is None
    assert facts.out_of_memory("two", "a") is None
    facts.tell("one", MachineFacts(out_of_memory={}, usage={}))
    assert facts.out_of_memory("one", "a") is None


def test_use_gets_older_and_then_says_nothing() -> None:
    time = Time()
    facts = NodeFacts(time)
    used = Usage(cpu_seconds=2.0, memory_bytes=3, age_seconds=1.0)
    facts.tell("one", MachineFacts(out_of_memory={}, usage={"a": used}))
    time.now = 4.0

    assert facts.usage("one", "a") == Usage(cpu_seconds=2.0, memory_bytes=3, age_seconds=5.0)
    assert facts.usage("two", "a") is None
    time.now = 61.0
    assert facts.usage("one", "a") is None


def test_a_machine_holds_an_egress_as_long_as_its_agent_says_so() -> None:
    time = Time()
    facts = NodeFacts(time)
    assert not facts.holds_egress("one", "digest")
    facts.tell("one", MachineFacts(out_of_memory={}, usage={}, egress="digest"))

    assert facts.holds_egress("one", "digest")
    assert not facts.holds_egress("one", "another")
    assert not facts.holds_egress("two", "digest")
    time.now = 10.0  # a machine that starts again has no rules
    assert not facts.holds_egress("one", "digest")
