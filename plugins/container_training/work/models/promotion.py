"""Whether a challenger takes the champion's place."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field, ValidationError

from container_training.work.models.paired_test import PairedResult, compare
from container_training.work.template_values import problems
from training_api.errors import EvaluationInvalid
from training_api.job.results import ResultModel

Fraction = Annotated[float, Field(ge=0, le=1)]
#: An evaluation of ten million examples is 10 MB.
MAX_EVALUATION_BYTES = 64 * 1024 * 1024
_SHOWN_BYTES = 100


class Evaluation(ResultModel):
    """
    How one model did on held-out examples: the file ``evaluation.json`` of an evaluating job.

    :param examples_sha256: digest over the examples in their order; two evaluations can be compared if it is
        the same.
    :param correct: one character an example in that order: ``1`` right, ``0`` wrong.
    :param model: address of the model, with its generation.
    """

    examples_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    correct: Annotated[str, Field(pattern=r"^[01]+$")]
    model: str

    @property
    def accuracy(self) -> float:
        """Share of the examples that the model had right."""
        return self.correct.count("1") / len(self.correct)


class PromotionRule(ResultModel):
    """
    What a challenger must achieve.

    :param alpha: the chance that a challenger that is no better is promoted is at most this.
    :param min_gain: accuracy more than the champion's; a difference too small to matter is no reason to
        change a model.
    :param min_accuracy: below it nothing is promoted, not even the first model.
    """

    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    min_gain: Fraction = 0.0
    min_accuracy: Fraction = 0.0


class Decision(ResultModel):
    """
    A decision and what it rests on.

    :param champion: version id that the challenger was compared with; ``None`` if there was none.
    :param champion_generation: of the pointer that named it; the decision counts as long as the pointer is at
        it.
    :param won: examples that only the challenger had right; with ``lost`` and ``p_value`` ``None`` without a
        champion.
    """

    promote: bool
    why: str
    challenger: str
    champion: str | None
    champion_generation: int
    examples: int
    challenger_accuracy: float
    champion_accuracy: float | None = None
    gain: float | None = None
    won: int | None = None
    lost: int | None = None
    p_value: float | None = None
    rule: PromotionRule


def parse_evaluation(content: bytes, uri: str) -> Evaluation:
    """
    Return the evaluation in the file at ``uri``. Pure.

    :raises EvaluationInvalid: it is none.
    """
    try:
        return Evaluation.model_validate(json.loads(content))
    except (ValueError, ValidationError) as error:
        raise EvaluationInvalid(
            f"{uri} must be an evaluation: a JSON object with examples_sha256, correct and model: "
            f"{_short(error)}; got {content[:_SHOWN_BYTES]!r}; have the command write it there"
        ) from error


def decide(
    challenger: Evaluation,
    champion: Evaluation | None,
    rule: PromotionRule,
    *,
    challenger_id: str,
    champion_id: str | None,
    champion_generation: int,
) -> Decision:
    """
    Return whether the challenger is promoted, and why. Pure.

    Without a champion ``min_accuracy`` alone decides.

    :raises EvaluationInvalid: the two were not evaluated on the same examples.
    """
    facts: dict[str, Any] = {
        "challenger": challenger_id,
        "champion": champion_id,
        "champion_generation": champion_generation,
        "examples": len(challenger.correct),
        "challenger_accuracy": challenger.accuracy,
        "rule": rule,
    }
    is_good_enough = challenger.accuracy >= rule.min_accuracy
    floor = f"accuracy {challenger.accuracy:.4f}, min_accuracy {rule.min_accuracy:g}"
    if champion is None:
        why = f"there is no champion; {floor}"
        return Decision(promote=is_good_enough, why=why, **facts)
    _require_same_examples(challenger, champion)
    result = compare(_answers(challenger), _answers(champion))
    is_better = result.gain >= rule.min_gain and result.gain > 0
    promote = is_good_enough and is_better and result.p_value <= rule.alpha
    return Decision(
        promote=promote,
        why=_why(result, rule, floor),
        champion_accuracy=champion.accuracy,
        gain=result.gain,
        won=result.won,
        lost=result.lost,
        p_value=result.p_value,
        **facts,
    )


def _require_same_examples(challenger: Evaluation, champion: Evaluation) -> None:
    if (challenger.examples_sha256, len(challenger.correct)) != (
        champion.examples_sha256,
        len(champion.correct),
    ):
        raise EvaluationInvalid(
            f"the challenger was evaluated on {len(challenger.correct)} examples and the champion on "
            f"{len(champion.correct)}, and they "
            "must be the same ones in the same order (examples_sha256); if the trainer now holds out others, "
            "promote the challenger by hand once"
        )


def _why(result: PairedResult, rule: PromotionRule, floor: str) -> str:
    return (
        f"{result.won} examples only the challenger has right, {result.lost} only the champion: p "
        f"{result.p_value:.4g}, alpha "
        f"{rule.alpha:g}; gain {result.gain:+.4f}, min_gain {rule.min_gain:g}; {floor}"
    )


def _answers(evaluation: Evaluation) -> list[bool]:
    return [character == "1" for character in evaluation.correct]


def _short(error: Exception) -> str:
    return problems(error) if isinstance(error, ValidationError) else str(error)
