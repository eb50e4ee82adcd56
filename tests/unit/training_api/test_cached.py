"""A property that is computed once for each instance."""

from __future__ import annotations

from training_api.cached import cached_property


class Counter:
    """Counts how often its value is computed."""

    def __init__(self) -> None:
        self.computed = 0

    @cached_property
    def value(self) -> int:
        """The value."""
        self.computed += 1
        return self.computed


def test_a_value_is_computed_once_for_each_instance_and_again_when_it_is_forgotten() -> None:
    one, other = Counter(), Counter()

    assert (one.value, one.value, other.value) == (1, 1, 1)
    del one.__dict__["value"]
    assert one.value == 2
    other.value = 7
    assert (other.value, other.computed) == (7, 1)


def test_the_class_has_the_property_and_its_docstring() -> None:
    assert Counter.value.__doc__ == "The value."
