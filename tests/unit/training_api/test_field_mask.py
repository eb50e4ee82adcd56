"""Field masks: names joined by commas, in either spelling, and nothing else."""

from __future__ import annotations

import pytest

from training_api.errors import InvalidRequest
from training_api.field_mask import parse_field_mask

ALLOWED = ("labels", "etag", "training_input")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", set()),
        ("  ", set()),
        ("labels", {"labels"}),
        (" etag , labels ", {"etag", "labels"}),
        ("labels,labels", {"labels"}),
        ("trainingInput", {"training_input"}),
        ("training_input,trainingInput", {"training_input"}),
    ],
)
def test_names_are_read_in_either_spelling(text: str, names: set[str]) -> None:
    assert parse_field_mask(text, ALLOWED) == names


@pytest.mark.parametrize("path", ["*", "labels.team", "state", "trainingInput.args", "Labels2"])
def test_any_other_path_is_refused_with_those_that_there_are(path: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_field_mask(f"labels,{path}", ALLOWED)

    (violation,) = caught.value.violations
    assert violation.field == "updateMask"
    assert violation.description == f"must name only etag, labels, training_input; got {path!r}"


def test_every_unknown_path_is_named_as_it_was_sent() -> None:
    with pytest.raises(InvalidRequest, match="got 'state', '', 'endTime'"):
        parse_field_mask("state,labels,,endTime", ALLOWED)
