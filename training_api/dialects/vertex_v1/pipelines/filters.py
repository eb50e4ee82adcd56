"""What the filters of lists of pipelines and models may ask for. Pure."""

from __future__ import annotations

from training_api.dialects.vertex_v1.filters import LABEL_OPERATORS, OPERATORS, FilterWords
from training_api.dialects.vertex_v1.pipelines.states import PIPELINE_STATES

_EQUALITY = ("=", "!=")

#: discovery: trainingPipelines.list, "filter". A word for two states means the later one of them.
OF_PIPELINES = FilterWords(
    operators={"training_task_definition": ("=", "!=", ":"), **OPERATORS},
    states={word: state.value for state, word in PIPELINE_STATES.items()},
    never=frozenset({"PIPELINE_STATE_QUEUED", "PIPELINE_STATE_PAUSED", "PIPELINE_STATE_UNSPECIFIED"}),
)
#: discovery: models.list, "filter".
OF_MODELS = FilterWords(
    operators={"model": _EQUALITY, "display_name": _EQUALITY, **LABEL_OPERATORS},
    states={},
    never=frozenset(),
)
