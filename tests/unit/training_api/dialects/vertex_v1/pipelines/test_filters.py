"""Filters of lists of pipelines and models."""

from __future__ import annotations

import pytest

from training_api.dialects.vertex_v1.filters import FilterWords, read_filter
from training_api.dialects.vertex_v1.pipelines.filters import OF_MODELS, OF_PIPELINES
from training_api.errors import InvalidFilter
from training_api.filtering import Comparison


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ('state="PIPELINE_STATE_RUNNING"', Comparison("state", "=", "RUNNING")),
        ("state=PIPELINE_STATE_PENDING", Comparison("state", "=", "QUEUED")),
        ("state!=PIPELINE_STATE_PAUSED", Comparison("state", "!=", "PIPELINE_STATE_PAUSED")),
        ('trainingTaskDefinition:"*custom*"', Comparison("training_task_definition", ":", "*custom*")),
    ],
)
def test_a_filter_of_pipelines_is_read_into_neutral_words(text: str, tree: Comparison) -> None:
    assert read_filter(text, OF_PIPELINES) == tree


@pytest.mark.parametrize(
    ("words", "text", "told"),
    [
        (OF_PIPELINES, "state=JOB_STATE_FAILED", "'state' must be one of PIPELINE_STATE_PENDING, "),
        (
            OF_PIPELINES,
            "model=1",
            "it can for training_task_definition, display_name, state, create_time and labels.KEY",
        ),
        (OF_MODELS, "state=PIPELINE_STATE_FAILED", "it can for model, display_name and labels.KEY"),
        (OF_MODELS, 'display_name:"a*"', "must be compared by one of = !=, got ':'"),
    ],
)
def test_what_a_list_cannot_be_asked_is_told(words: FilterWords, text: str, told: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        read_filter(text, words)

    assert told in str(caught.value)
