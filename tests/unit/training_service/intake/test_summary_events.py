"""TensorFlow's event files, as the real one wrote them (``events/make_events.py``)."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest

from training_service.intake.summary_events import EventReader, masked_crc

EVENTS = Path(__file__).parent / "events"
TF1, TF2 = EVENTS / "tf1-0.tfevents", EVENTS / "tf2-0.tfevents"


def scalars(path: Path) -> list[tuple[str, int, float]]:
    reader = EventReader()
    reports = reader.feed(path.read_bytes())
    assert reader.damage == ""
    assert all(10**15 < report.reported_us < 10**16 for report in reports)
    return [(report.tag, report.step, report.value) for report in reports]


def test_simple_values_of_tensorflow_1_are_read() -> None:
    found = scalars(TF1)

    assert [(step, value) for tag, step, value in found if tag == "accuracy"] == [
        (step, step / 8) for step in range(1, 6)
    ]
    losses = [value for tag, _, value in found if tag == "loss"]
    assert losses[:4] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4])
    assert math.isnan(losses[4])
    assert len(found) == 10


def test_scalar_tensors_of_tensorflow_2_are_read_and_nothing_else() -> None:
    assert scalars(TF2) == [
        ("accuracy", 1, 0.125),
        ("accuracy", 2, 0.25),
        ("accuracy", 3, 0.375),
        ("double", 4, 0.1),
    ]


def test_what_keras_writes_is_read() -> None:
    found = [each for path in sorted(EVENTS.glob("keras-*.tfevents")) for each in scalars(path)]

    assert [(tag, step) for tag, step, _ in found if tag == "epoch_loss"] == [
        ("epoch_loss", 0),
        ("epoch_loss", 1),
    ]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_file_is_read_in_pieces_of_any_size(size: int) -> None:
    content, reader = TF1.read_bytes(), EventReader()

    reports = [
        report
        for start in range(0, len(content), size)
        for report in reader.feed(content[start : start + size])
    ]

    assert len(reports) == 10
    assert reader.size == len(content)


def test_what_stands_before_a_damage_is_read() -> None:
    content = bytearray(TF1.read_bytes())
    content[-1] ^= 1  # the checksum of the last record

    reader = EventReader()
    reports = reader.feed(bytes(content))

    assert len(reports) == 8
    assert "checksum" in reader.damage
    assert reader.feed(TF1.read_bytes()) == []


def test_a_record_that_claims_to_be_huge_is_not_waited_for() -> None:
    length = struct.pack("<Q", 1 << 40)
    reader = EventReader()

    reader.feed(length + struct.pack("<I", masked_crc(length)))

    assert str(1 << 40) in reader.damage
