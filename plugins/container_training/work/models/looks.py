"""
What was decided at the hold-outs of a model, and how many looks each has had.

All of it is one small JSON object beside the pointer to the champion. A decision and the look that it took
are one conditional write of it: two who decide at the same moment take two looks, and a task that is run
again finds its decision and takes no second one.
"""

from __future__ import annotations

import hashlib
import json

from container_training.work.models.promotion import Contender, Decision, PromotionRule, decide
from training_api.job.packages.pinned_uri import split_pinned
from training_api.job.results import ResultModel

#: So many decisions are remembered.
MAX_JUDGEMENTS = 500
_UNKNOWN = "unknown"


class Judgement(ResultModel):
    """
    One decision.

    :param comparison: digest of what was compared by which rule; see :func:`judged`.
    :param snapshot: manifest of the challenger's data, without a generation: a snapshot that was deleted and
        taken again is the same.
    """

    comparison: str
    snapshot: str | None
    decision: Decision


class Looks(ResultModel):
    """
    The contents of the object.

    :param taken: looks at each hold-out, by its description.
    :param judgements: the newest last.
    """

    taken: dict[str, int] = {}
    judgements: list[Judgement] = []

    def of_snapshot(self, manifest_uri: str) -> Judgement | None:
        """Return the newest decision about a model that was trained on this snapshot."""
        manifest = split_pinned(manifest_uri)[0]
        return next((each for each in reversed(self.judgements) if each.snapshot == manifest), None)


def judged(
    looks: Looks,
    challenger: Contender,
    champion: Contender | None,
    rule: PromotionRule,
    *,
    champion_generation: int,
) -> tuple[Looks, Decision]:
    """
    Return the looks after a comparison, and its decision. Pure.

    The same models on the same examples by the same rule are the same comparison: its first decision stands
    and takes no second look, also if the models' answers were other ones this time.

    :raises EvaluationInvalid: as ``decide`` does; nothing is taken.
    """
    comparison = _digest(challenger, champion, rule)
    known = next((each for each in looks.judgements if each.comparison == comparison), None)
    if known is not None:
        return looks, known.decision.model_copy(update={"champion_generation": champion_generation})
    name = str(challenger.version.hold_out or challenger.evaluation.hold_out or _UNKNOWN)
    # Looks from before the trainer said how it holds out were looks at the same rows, as far as is known.
    look = looks.taken.get(name, looks.taken.get(_UNKNOWN, 0)) + 1
    decision = decide(challenger, champion, rule, champion_generation=champion_generation, look=look)
    snapshot = challenger.version.snapshot_uri
    judgement = Judgement(
        comparison=comparison, snapshot=snapshot and split_pinned(snapshot)[0], decision=decision
    )
    after = Looks(
        taken={**looks.taken, name: look} if decision.look else looks.taken,
        judgements=[*looks.judgements, judgement][-MAX_JUDGEMENTS:],
    )
    return after, decision


def _digest(challenger: Contender, champion: Contender | None, rule: PromotionRule) -> str:
    compared = [
        challenger.version.model_uri,
        champion and champion.version.model_uri,
        challenger.evaluation.examples_sha256,
        rule.model_dump(),
    ]
    return hashlib.sha256(json.dumps(compared).encode()).hexdigest()[:32]
