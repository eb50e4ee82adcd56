"""A window of time in buckets of one length. Pure."""

from __future__ import annotations

from dataclasses import dataclass

_SECOND = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """
    Stretches of time of ``step_us`` each, the last of which is shorter where ``end_us`` cuts it.

    :param start_us: of the first, in microseconds since the epoch.
    :param end_us: what comes later is not looked at; above ``start_us``.
    """

    start_us: int
    end_us: int
    step_us: int

    def __post_init__(self) -> None:
        if not (self.end_us > self.start_us and self.step_us > 0):
            raise ValueError(
                f"end_us must be after start_us and step_us above 0, got {self.start_us}, {self.end_us}, {self.step_us}"
            )

    @classmethod
    def until(cls, end_us: int, window_seconds: int, step_seconds: int) -> Buckets:
        """
        Return the buckets of the window before ``end_us``. Pure.

        They begin at multiples of the step since the epoch, so that they stay while time goes on.
        """
        step_us = step_seconds * _SECOND
        first = (end_us - window_seconds * _SECOND) // step_us
        return cls(start_us=first * step_us, end_us=end_us, step_us=step_us)

    @property
    def starts_us(self) -> range:
        """Where each begins."""
        return range(self.start_us, self.end_us, self.step_us)

    @property
    def times(self) -> list[float]:
        """Where each begins, in seconds since the epoch."""
        return [start / _SECOND for start in self.starts_us]

    @property
    def lengths_us(self) -> list[int]:
        """How long each is."""
        return [min(self.step_us, self.end_us - start) for start in self.starts_us]
