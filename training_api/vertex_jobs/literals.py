"""
What Vertex AI expands in commands and arguments, and AI Platform Training did not. Pure.

``$(NAME)`` is the value of a variable there, ``$$`` one ``$`` (``dialects/vertex_v1/variables.py``).
"""

from __future__ import annotations

import re

from training_api.dialects.ml_v1.packages import job_dir_args
from training_api.dialects.vertex_v1.variables import expanded
from training_api.job.tuning.trial_spec import trial_output_dir

_SPECIAL = re.compile(r"\$(?=[$(])")
#: What stands for a trial's number in its arguments. Google's own samples have ``$(AIP_MODEL_DIR)`` in
#: arguments; that this variable expands there as well is [unverified].
_TRIAL = "$(CLOUD_ML_TRIAL_ID)"


def literal(text: str) -> str:
    """Return what Vertex AI expands to ``text``."""
    return _SPECIAL.sub("$$", text)


def literal_text(word: str) -> str:
    """Return the text that ``literal`` made ``word`` from; references to variables stay."""
    return expanded(word, {})


def folder_args(job_dir: str, *, is_study: bool) -> tuple[str, ...]:
    """
    Return the arguments that name a trainer's folder; none without one.

    Those of ml.v1: Vertex AI adds none. Each trial has a folder of its own, ``JOB_DIR/NUMBER``.
    """
    folder = literal(job_dir)
    return job_dir_args(trial_output_dir(folder, _TRIAL) if folder and is_study else folder)
