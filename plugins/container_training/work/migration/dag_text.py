"""A migrated job as the source of a DAG file. Without I/O."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from container_training.work.migration.dag_arguments import DagArguments
from container_training.work.migration.legacy_job import LegacyJob
from container_training.work.migration.python_text import INDENT, literal, text
from container_training.work.migration.shell_text import ShellText, literal_pieces
from training_api.errors import InvalidCommand, InvalidImageRef
from training_api.job.image_ref import parse_image_ref

_COMMENT_WIDTH = 100
_OPERATORS = "container_training.operators"


@dataclass(frozen=True, slots=True, kw_only=True)
class DagOptions:
    """
    What the user says of the DAG.

    :param source: what it was made from, for its description.
    :param dag_id: default: from the job's name.
    :param context_dir: build the master's image from this folder.
    """

    source: str
    dag_id: str | None = None
    context_dir: str | None = None


def dag_source(job: LegacyJob, options: DagOptions, shell: ShellText | None = None) -> str:
    """
    Return the source of a DAG file that submits ``job``, formatted as ruff does it. Pure.

    :param shell: where the marks in the job come from.
    :raises InvalidCommand: an image is to be built for a job that runs packages.
    """
    if options.context_dir and (job.package_path or job.packages):
        raise InvalidCommand("a job runs an image or packages: leave --context out, or the flags of packages")
    return _Writer(job, options, shell or ShellText(statements=[], parts=[])).source()


class _Writer:
    """Writes one DAG file."""

    def __init__(self, job: LegacyJob, options: DagOptions, shell: ShellText) -> None:
        self._job = job
        self._options = options
        self._shell = shell
        self._arguments = DagArguments(job, shell)
        self._dag_id = options.dag_id or _slug(_unmarked(job.name))

    def source(self) -> str:
        tasks = [*self._tasks()]  # first: they find out which params there are
        lines = [
            '"""',
            f"### {self._dag_id}",
            "",
            (
                f"Migrated from {self._options.source} by `python -m container_training migrate`. Lines with "
                "DECIDE need a person."
            ),
            '"""',
            "",
            "from __future__ import annotations",
            "",
            f"from airflow.sdk import DAG{', Param' if self._arguments.params else ''}",
            "",
            *self._imports(),
            "",
            *self._comments("dag", 0),
            "with DAG(",
            f"{INDENT}dag_id={text(self._dag_id)},",
            f'{INDENT}# DECIDE: when it runs - a cron expression, "@daily", an asset; None: when somebody starts it',
            f"{INDENT}schedule=None,",
            f"{INDENT}catchup=False,",
            f'{INDENT}tags=["container-training", "migrated"],',
            f"{INDENT}doc_md=__doc__,",
            *self._param_lines(),
            "):",
            *tasks,
        ]
        return "\n".join(lines) + "\n"

    def _imports(self) -> list[str]:
        if self._options.context_dir:
            return ["from container_training.pipeline import training_pipeline"]
        package = (
            [f"from {_OPERATORS}.package import PackageTrainerOperator"] if self._job.package_path else []
        )
        collect = [f"from {_OPERATORS}.results import CollectTrainingResultsOperator"] if self._folder else []
        return [
            *package,
            *collect,
            f"from {_OPERATORS}.training import SubmitTrainingJobOperator",
            "from container_training.sensors.training import TrainingJobSensor",
        ]

    @property
    def _folder(self) -> str | None:
        return self._arguments.training.get("jobDir")

    def _tasks(self) -> Iterator[str]:
        if self._options.context_dir:
            yield from self._pipeline()
            return
        if self._job.package_path:
            yield from self._call(
                "package = PackageTrainerOperator", {"task_id": "package", **self._arguments.of_package()}
            )
        given = self._arguments.of_job()
        if "image" in given:
            self._arguments.decide(
                "image",
                "the image is not built here; `migrate --context DIR` writes a DAG that builds, tests and "
                "pushes it",
            )
        yield from self._call(
            "submit = SubmitTrainingJobOperator", {"task_id": "submit", **given}, is_job=True
        )
        yield from self._comments("wait", 1)
        yield f'{INDENT}finished = TrainingJobSensor(task_id="wait_until_finished", job_id=submit.output)'
        if self._folder:
            yield f'{INDENT}collect = CollectTrainingResultsOperator(task_id="collect", job_id=submit.output)'
            yield f"{INDENT}submit >> finished >> collect"
        else:
            yield f"{INDENT}submit >> finished"

    def _pipeline(self) -> Iterator[str]:
        given = self._arguments.of_job()
        image = _without_tag(given.pop("image", ""))
        self._arguments.decide(
            "image", "built from context_dir and pushed under this name; its tag comes from its content"
        )
        self._arguments.decide("args", "test_args=[...] of training_pipeline makes the local test run short")
        yield from self._comments("wait", 1)
        context = self._options.context_dir
        yield from self._call(
            "training_pipeline", {"context_dir": context, "image": image, **given}, is_job=True
        )

    def _call(self, head: str, arguments: Mapping[str, Any], *, is_job: bool = False) -> Iterator[str]:
        """
        Yield a call.

        Decisions stand above their arguments; those about absent arguments of the job stand at its end.
        """
        yield f"{INDENT}{head}("
        inner = INDENT * 2
        for name, value in arguments.items():
            yield from self._comments(name, 2)
            yield f"{inner}{name}={literal(value, len(inner) + len(name) + 2, 2)},"
        if is_job:
            for about in dict.fromkeys(each.about for each in self._arguments.decisions):
                if about not in ("dag", "wait"):
                    yield from self._comments(about, 2)
        yield f"{INDENT})"

    def _param_lines(self) -> Iterator[str]:
        if not self._arguments.params:
            return
        yield f"{INDENT}# DECIDE: a default for each, or how else its value is found"
        yield f"{INDENT}params={{"
        for name, description in self._arguments.params.items():
            call = f'Param(type="string", description={text(description)})'
            if len(name) + len(call) + 13 <= 88:
                yield f"{INDENT * 2}{text(name)}: {call},"
                continue
            yield f"{INDENT * 2}{text(name)}: Param("
            yield f'{INDENT * 3}type="string",'
            yield f"{INDENT * 3}description={text(description)},"
            yield f"{INDENT * 2}),"
        yield f"{INDENT}}},"

    def _comments(self, about: str, level: int) -> Iterator[str]:
        """Yield the decisions at one place; each is written once."""
        for decision in [each for each in self._arguments.decisions if each.about == about]:
            self._arguments.decisions.remove(decision)
            prefix = f"{INDENT * level}# "
            words = " ".join(self._shell.as_written(f"DECIDE: {decision.text}").split())
            yield from textwrap.wrap(
                words,
                _COMMENT_WIDTH,
                initial_indent=prefix,
                subsequent_indent=prefix,
                break_long_words=False,
                break_on_hyphens=False,
            )


def _unmarked(name: str) -> str:
    return "".join(piece for place, piece in enumerate(literal_pieces(name)) if place % 2 == 0)


def _slug(name: str) -> str:
    """Return a DAG id."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_.-") or "migrated_training"


def _without_tag(image: str) -> str:
    try:
        return parse_image_ref(image).name
    except InvalidImageRef:
        return image  # a template
