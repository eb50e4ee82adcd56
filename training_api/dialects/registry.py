"""The dialects that this version speaks: a new one is one more value here."""

from __future__ import annotations

from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.dialects.vertex_v1.dialect import VERTEX_V1
from training_api.job.dialect import Dialects

DIALECTS: Dialects = {each.name: each for each in (ML_V1, VERTEX_V1)}


def title_of(dialect: str) -> str:
    """Return what people call the API of this name; of an unknown one the name. Pure."""
    return DIALECTS[dialect].title if dialect in DIALECTS else dialect
