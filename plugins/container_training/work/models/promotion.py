"""Whether a challenger takes the champion's place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from container_training.work.models.paired_test import PairedResult, compare
from container_training.work.models.versions import HoldOut, ModelVersion
from container_training.work.template_values import problems
from training_api.errors import EvaluationInvalid
from training_api.job.results import ResultModel

Fraction = Annotated[float, Field(ge=0, le=1)]
#: An evaluation of three million examples is 60 MB.
MAX_EVALUATION_BYTES = 64 * 1024 * 1024
_SHOWN_BYTES = 100
#: After so many looks half of ``alpha`` is spent; after three times as many, three quarters.
_HALF_SPENT = 10
_WAY_OUT = (
    "Train and evaluate with the champion's hold-out; or begin anew: delete champion.json, and the next model "
    "needs min_accuracy only"
)


class Evaluation(ResultModel):
    """
    How one model did on held-out examples: the file ``evaluation.json`` of an evaluating job.

    :param examples_sha256: digest over the examples in their order; two evaluations can be compared if it is
        the same.
    :param correct: one character an example in that order: ``1`` right, ``0`` wrong.
    :param model: address of the model, with its generation.
    :param rows: a digest of each example in that order; of those with the same digest only the first counts.
        ``None``: all are different.
    :param hold_out: how the examples were chosen; ``None`` if the job does not say.
    """

    examples_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    correct: Annotated[str, Field(pattern=r"^[01]+$")]
    model: str
    rows: list[str] | None = None
    hold_out: HoldOut | None = None

    @model_validator(mode="after")
    def _has_a_digest_for_each_example(self) -> Self:
        if self.rows is not None and len(self.rows) != len(self.correct):
            raise ValueError(
                f"rows must have a digest for each of the {len(self.correct)} examples, got {len(self.rows)}"
            )
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A model version and how it did."""

    version: ModelVersion
    evaluation: Evaluation


class PromotionRule(ResultModel):
    """
    What a challenger must achieve.

    :param alpha: the chance that any challenger that is no better is promoted, over all looks at one
        hold-out together, is at most this.
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
    :param examples: different examples that both were evaluated on.
    :param won: examples that only the challenger had right; with ``lost``, ``p_value``, ``look`` and
        ``level`` ``None`` without a champion.
    :param look: number of this comparison among all at this hold-out, from 1 on.
    :param level: the part of ``alpha`` that this look has; ``p_value`` must not be above it.
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
    look: int | None = None
    level: float | None = None
    rule: PromotionRule


def level_of(look: int, alpha: float) -> float:
    """
    Return the part of ``alpha`` that the ``look``-th look at a hold-out may spend. Pure.

    The parts of all looks, however many, add up to ``alpha``. So the chance that any of them promotes a
    challenger that is no better is at most ``alpha``, whatever the looks have to do with each other
    (Bonferroni). The parts of the first n looks add up to ``alpha * n / (n + 10)``.

    :param look: 1 and up.
    """
    return alpha * _HALF_SPENT / ((look + _HALF_SPENT - 1) * (look + _HALF_SPENT))


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
    challenger: Contender,
    champion: Contender | None,
    rule: PromotionRule,
    *,
    champion_generation: int,
    look: int,
) -> Decision:
    """
    Return whether the challenger is promoted, and why. Pure.

    Without a champion ``min_accuracy`` alone decides.

    :param look: number of this comparison among all at this hold-out.
    :raises EvaluationInvalid: the two were not evaluated on the same examples, or hold out other rows.
    """
    _require_same_hold_out(challenger, champion)
    answers, champion_answers = _answers(challenger.evaluation, champion.evaluation if champion else None)
    accuracy = _accuracy(answers)
    facts: dict[str, Any] = {
        "challenger": challenger.version.version_id,
        "champion": champion.version.version_id if champion else None,
        "champion_generation": champion_generation,
        "examples": len(answers),
        "challenger_accuracy": accuracy,
        "rule": rule,
    }
    is_good_enough = accuracy >= rule.min_accuracy
    floor = f"accuracy {accuracy:.4f}, min_accuracy {rule.min_accuracy:g}"
    if champion is None:
        return Decision(promote=is_good_enough, why=f"there is no champion; {floor}", **facts)
    result = compare(answers, champion_answers)
    level = level_of(look, rule.alpha)
    is_better = result.gain >= rule.min_gain and result.gain > 0
    return Decision(
        promote=is_good_enough and is_better and result.p_value <= level,
        why=f"{_why(result, rule, look, level)}; {floor}",
        champion_accuracy=_accuracy(champion_answers),
        gain=result.gain,
        won=result.won,
        lost=result.lost,
        p_value=result.p_value,
        look=look,
        level=level,
        **facts,
    )


def _require_same_hold_out(challenger: Contender, champion: Contender | None) -> None:
    """
    Refuse models and evaluations of which one held out other rows than another.

    What is not known is accepted, but for a challenger that does not say what its champion says.
    """
    found = {
        "challenger": challenger.version.hold_out,
        "its evaluation": challenger.evaluation.hold_out,
        "champion": champion and champion.version.hold_out,
        "evaluation of the champion": champion and champion.evaluation.hold_out,
    }
    says_less = found["champion"] is not None and found["challenger"] is None
    if len({each for each in found.values() if each is not None}) > 1 or says_less:
        raise EvaluationInvalid(
            "both models must be trained without the same rows and evaluated on these, got "
            + "; ".join(f"{who}: {each or 'does not say'}" for who, each in found.items())
            + f". {_WAY_OUT}"
        )


def _answers(challenger: Evaluation, champion: Evaluation | None) -> tuple[str, str]:
    """
    Return ``correct`` of both for the examples that count; of no champion the challenger's.

    Equal examples prove nothing twice: the first of them counts.
    """
    champion = champion or challenger
    if (challenger.examples_sha256, len(challenger.correct)) != (
        champion.examples_sha256,
        len(champion.correct),
    ):
        raise EvaluationInvalid(
            f"the challenger was evaluated on {len(challenger.correct)} examples and the champion on "
            f"{len(champion.correct)}, and they must be the same ones in the same order (examples_sha256). "
            f"{_WAY_OUT}"
        )
    rows = challenger.rows or champion.rows
    if not rows:
        return challenger.correct, champion.correct
    first: dict[str, int] = {}
    for place, row in enumerate(rows):
        first.setdefault(row, place)
    new, old = ("".join(each.correct[place] for place in first.values()) for each in (challenger, champion))
    return new, old


def _accuracy(answers: str) -> float:
    return answers.count("1") / len(answers)


def _why(result: PairedResult, rule: PromotionRule, look: int, level: float) -> str:
    return (
        f"{result.won} examples only the challenger has right, {result.lost} only the champion: p "
        f"{result.p_value:.4g}, level {level:.4g} of look {look} at this hold-out, alpha {rule.alpha:g}; "
        f"gain {result.gain:+.4f}, min_gain {rule.min_gain:g}"
    )


def _short(error: Exception) -> str:
    return problems(error) if isinstance(error, ValidationError) else str(error)
