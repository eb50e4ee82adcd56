"""The comparison of a challenger with the champion: prepared as jobs, and decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from container_training.hooks.failures import final_unless_transient
from container_training.hooks.storage import StorageHook
from container_training.hooks.training import TrainingHook
from container_training.operators.models import ModelArguments, ModelOperator
from container_training.work.models.promotion import (
    MAX_EVALUATION_BYTES,
    Contender,
    Decision,
    Evaluation,
    PromotionRule,
    parse_evaluation,
)
from container_training.work.models.versions import ModelVersion
from container_training.work.template_values import TaskOutput, made, number, output_of, shown
from training_api.errors import EvaluationInvalid, InvalidArgument
from training_api.job.results import ResultModel

if TYPE_CHECKING:
    from airflow.sdk import Context

#: Key of the champion as it was read: what the decision, and the promotion, refer to.
CHAMPION = "champion"


class _Champion(ResultModel):
    """The champion, or ``None``, and the generation of the pointer that names it."""

    version: ModelVersion | None
    generation: int


class PrepareEvaluationsOperator(ModelOperator):
    """
    Reads the champion, and returns the jobs that evaluate it and the challenger.

    Each model is loaded in the image that trained it; otherwise both jobs get the same arguments. Without a
    champion there is one job, the challenger's.

    :param challenger: output of ``RegisterModelOperator``. (templated)
    :param args: arguments of both jobs; ``--model URI#GENERATION`` is added. A list within it is inserted as
        its words. (templated)
    :return: ``image`` and ``args`` of each job, the challenger's first, for
        ``SubmitTrainingJobOperator.expand_kwargs``. The XCom key ``champion`` has ``version`` (or ``None``)
        and the pointer's ``generation``.
    """

    template_fields: Sequence[str] = (*ModelOperator.template_fields, "challenger", "args")
    template_fields_renderers = {"challenger": "json", "args": "json"}

    def __init__(
        self,
        *,
        challenger: Mapping[str, Any] | TaskOutput,
        args: Sequence[Any] = (),
        **kwargs: Unpack[ModelArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.challenger = challenger
        self.args = args

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Return the arguments of the jobs."""
        with self.hook as hook, final_unless_transient():
            challenger = output_of("RegisterModelOperator", "challenger", ModelVersion, self.challenger)
            if not isinstance(self.args, list | tuple):
                raise InvalidArgument(
                    f'args must be a list of words, got {shown(self.args)}; write ["--data", "gs://..."]'
                )
            reading = hook.registry.read()
        champion = reading.champion
        self.log.info(
            "champion %s, pointer at generation %d",
            champion.version_id if champion else "none",
            reading.generation,
        )
        seen = _Champion(version=champion, generation=reading.generation)
        context["ti"].xcom_push(key=CHAMPION, value=seen.model_dump(mode="json"))
        return [
            {"image": version.image, "args": [*self.args, "--model", version.model_uri]}
            for version in (challenger, champion)
            if version is not None
        ]


class DecidePromotionOperator(ModelOperator):
    """
    Decides whether the challenger replaces the champion.

    Both were evaluated on the same held-out examples. The challenger must win McNemar's exact test and gain a
    minimum of accuracy. Each comparison is a look at the hold-out, and takes a part of ``alpha``. The
    decision and the look are kept in ``looks.json`` beside the pointer: a retry, or a clear, finds both.

    :param challenger: output of ``RegisterModelOperator``. (templated)
    :param champion: output of ``PrepareEvaluationsOperator`` under the key ``champion``. (templated)
    :param job_ids: the evaluating jobs; each left an ``evaluation_file`` in its folder. (templated)
    :param evaluation_file: path of the evaluation below the job's folder. (templated)
    :param alpha: probability that any challenger that is no better is promoted, over all looks at one
        hold-out together. (templated)
    :param min_gain: minimum gain of accuracy. (templated)
    :param min_accuracy: minimum accuracy in any case; the only rule for the first model. (templated)
    :param training_conn_id: connection of the training service. (templated)
    :return: the decision (:class:`Decision`).
    """

    template_fields: Sequence[str] = (
        *ModelOperator.template_fields,
        "challenger",
        "champion",
        "job_ids",
        "alpha",
        "min_gain",
        "min_accuracy",
        "evaluation_file",
        "training_conn_id",
    )
    template_fields_renderers = {"challenger": "json", "champion": "json"}

    def __init__(
        self,
        *,
        challenger: Mapping[str, Any] | TaskOutput,
        champion: Mapping[str, Any] | TaskOutput,
        job_ids: Iterable[str] | TaskOutput,
        alpha: float | str = 0.05,
        min_gain: float | str = 0.0,
        min_accuracy: float | str = 0.0,
        evaluation_file: str = "evaluation.json",
        training_conn_id: str = TrainingHook.default_conn_name,
        **kwargs: Unpack[ModelArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.challenger = challenger
        self.champion = champion
        self.job_ids: Any = job_ids
        self.alpha = alpha
        self.min_gain = min_gain
        self.min_accuracy = min_accuracy
        self.evaluation_file = evaluation_file
        self.training_conn_id = training_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Return the decision as JSON values."""
        hook, storage = TrainingHook(self.training_conn_id), StorageHook(self.gcp_conn_id)
        with hook, storage, self.hook as models, final_unless_transient():
            challenger = output_of("RegisterModelOperator", "challenger", ModelVersion, self.challenger)
            seen = output_of("PrepareEvaluationsOperator", "champion", _Champion, self.champion)
            champion = seen.version
            rule = made(
                PromotionRule,
                alpha=number("alpha", self.alpha),
                min_gain=number("min_gain", self.min_gain),
                min_accuracy=number("min_accuracy", self.min_accuracy),
            )
            if isinstance(self.job_ids, str) or not isinstance(self.job_ids, Iterable):
                raise InvalidArgument(
                    f"job_ids must be a list of ids of jobs, got {shown(self.job_ids)}; pass the .output of the "
                    "mapped task that submits them"
                )
            evaluations = [self._read(hook, storage, job_id) for job_id in self.job_ids]
            found = {evaluation.model: evaluation for evaluation in evaluations}
            decision = models.registry.judge(
                _of(challenger, found),
                _of(champion, found) if champion else None,
                rule,
                champion_generation=seen.generation,
            )
        self._say(decision)
        return decision.model_dump(mode="json")

    def _read(self, hook: TrainingHook, storage: StorageHook, job_id: str) -> Evaluation:
        job = hook.get_job(job_id)
        job_dir = job.training_input.job_dir if job.training_input else None
        uri = f"{(job_dir or '').rstrip('/')}/{self.evaluation_file}"
        store = storage.get_conn()
        if job_dir:
            hook.job_buckets.check(store, uri)
        content = store.read(uri, MAX_EVALUATION_BYTES) if job_dir else None
        if content is None:
            raise EvaluationInvalid(
                f"job {job_id!r} left no {uri}; its command must write the evaluation there"
            )
        return parse_evaluation(content, uri)

    def _say(self, decision: Decision) -> None:
        self.log.info(
            "challenger %s %.4f, champion %s %s",
            decision.challenger,
            decision.challenger_accuracy,
            decision.champion or "none",
            "" if decision.champion_accuracy is None else f"{decision.champion_accuracy:.4f}",
        )
        self.log.info("%s: %s", "PROMOTE" if decision.promote else "KEEP THE CHAMPION", decision.why)


def _of(version: ModelVersion, found: Mapping[str, Evaluation]) -> Contender:
    try:
        return Contender(version=version, evaluation=found[version.model_uri])
    except KeyError:
        raise EvaluationInvalid(
            f"none of the jobs evaluated {version.model_uri} of version {version.version_id!r}; they "
            f"evaluated {', '.join(sorted(found)) or 'nothing'}"
        ) from None
