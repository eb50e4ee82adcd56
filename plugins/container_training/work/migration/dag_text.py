"""A migrated job as the source of a DAG file. Without I/O."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from container_training.work.migration.dag_arguments import DagArguments, DagParams
from container_training.work.migration.legacy_job import Decision, LegacyDag, LegacyJob, LegacyTask
from container_training.work.migration.python_text import INDENT, LINE_WIDTH, Code, literal, text
from container_training.work.migration.shell_text import ShellText, literal_pieces
from training_api.errors import InvalidCommand, InvalidImageRef
from training_api.job.image_ref import parse_image_ref

_COMMENT_WIDTH = 100
_OF_LINE = re.compile(r"line (\d+): (.*)", re.DOTALL)
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
    return dags_source([LegacyDag(name=job.name, jobs=[job])], options, shell)


def dags_source(dags: Sequence[LegacyDag], options: DagOptions, shell: ShellText | None = None) -> str:
    """
    Return the source of a file with ``dags``, as :func:`dag_source` does. Pure.

    :raises InvalidCommand: ``options`` are about one job, and there are several; or an image is to be built
        for
        a job that runs packages.
    """
    jobs = [job for dag in dags for job in dag.jobs]
    if options.context_dir and len(jobs) > 1:
        raise InvalidCommand(f"--context is for one job, and {options.source} has {len(jobs)}; leave it out")
    if options.dag_id and len(dags) > 1:
        raise InvalidCommand(f"--dag-id is for one DAG, and {options.source} has {len(dags)}; leave it out")
    if options.context_dir and any(job.package_path or job.packages for job in jobs):
        raise InvalidCommand("a job runs an image or packages: leave --context out, or the flags of packages")
    writers = [_Writer(dag, options, shell or ShellText(statements=[], parts=[])) for dag in dags]
    bodies = [writer.body() for writer in writers]  # first: they find out which params there are
    body = "\n".join(line for lines in bodies for line in lines)
    times = [name for name in ("datetime", "timedelta") if f"{name}(" in body]
    names = [name for name in ("DAG", "Param", "TaskGroup") if re.search(rf"\b{name}\(", body)]
    lines = [
        '"""',
        f"### {', '.join(writer.dag_id for writer in writers)}",
        "",
        f"Migrated from {options.source} by `python -m container_training migrate`. Lines with DECIDE need a person.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        *([f"from datetime import {', '.join(times)}", ""] if times else []),
        f"from airflow.sdk import {', '.join(names)}",
        "",
        *sorted({line for writer in writers for line in writer.imports()}),
    ]
    return "\n".join([*lines, body]) + "\n"


class _Writer:
    """Writes one DAG."""

    def __init__(self, dag: LegacyDag, options: DagOptions, shell: ShellText) -> None:
        self._dag = dag
        self._options = options
        self._shell = shell
        self._params = DagParams()
        self._decisions = [*dag.decisions]
        self._group_ids: list[str] = []
        self.dag_id = options.dag_id or _slug(_unmarked(dag.name))

    def body(self) -> list[str]:
        """Return the lines of the DAG, with an empty one before them."""
        tasks = [line for job in self._dag.jobs for line in self._of_job(job)]
        given = dict(self._dag.given)
        if len(self._dag.jobs) == 1 and self._dag.jobs[0].task is not None:
            given |= _default_args(self._dag.jobs[0].task)
        tags = ["container-training", "migrated", *given.pop("tags", [])]
        params = {
            name: value for name, value in self._dag.params.items() if not self._shell.parts_of(str(value))
        }
        self._params.defaults |= params
        for name, value in self._dag.params.items():
            self._params.params[name] = ""
            if parts := self._shell.parts_of(str(value)):
                self._params.params[name] = f"was {parts[0].text} {parts[0].where}"
                if parts[0].default is not None:
                    self._params.defaults[name] = parts[0].default
        lines = [
            "",
            *_comments(_merged(self._decisions), "dag", 0, self._shell),
            "with DAG(",
            f"{INDENT}dag_id={text(self.dag_id)},",
        ]
        if given.get("schedule") is not None and self._params.params.keys() - self._params.defaults.keys():
            was = given.pop("schedule")
            lines.append(
                f"{INDENT}# DECIDE: was {literal(was, 0, 1)}; Airflow wants a default for each param before it schedules"
            )
        elif "schedule" not in given:
            lines.append(
                f'{INDENT}# DECIDE: when it runs - a cron expression, "@daily", an asset; None: when somebody starts it'
            )
        for name, value in {"schedule": None, "catchup": False, **given, "tags": tags}.items():
            lines.append(f"{INDENT}{name}={literal(value, len(INDENT) + len(name) + 2, 1)},")
        return [*lines, f"{INDENT}doc_md=__doc__,", *self._param_lines(), "):", *tasks]

    def imports(self) -> Iterator[str]:
        """Yield the imports of the operators."""
        if self._options.context_dir:
            yield "from container_training.pipeline import training_pipeline"
            return
        if any(job.package_path for job in self._dag.jobs):
            yield f"from {_OPERATORS}.package import PackageTrainerOperator"
        if any(map(_folder, self._dag.jobs)):
            yield f"from {_OPERATORS}.results import CollectTrainingResultsOperator"
        yield f"from {_OPERATORS}.training import SubmitTrainingJobOperator"
        yield "from container_training.sensors.training import TrainingJobSensor"

    def _of_job(self, job: LegacyJob) -> Iterator[str]:
        arguments = DagArguments(job, self._shell, self._params)
        # One job needs no group: its DAG is that.
        level = 2 if job.task is not None and len(self._dag.jobs) > 1 else 1
        lines = [*_Tasks(job, arguments, self._options, self._shell, level).lines()]
        self._decisions += [each for each in arguments.decisions if each.about == "dag"]
        if job.task is not None and level == 2:
            yield from self._group(job.task)
        yield from lines

    def _group(self, task: LegacyTask) -> Iterator[str]:
        """Yield the head of the group that has the old task's name."""
        defaults = _default_args(task)
        target = f" as {task.target}" if task.target else ""
        group_id = _slug(_unmarked(task.task_id))
        self._group_ids.append(group_id)
        if (count := self._group_ids.count(group_id)) > 1:  # what told them apart is known to a run only
            group_id = f"{group_id}_{count}"
        name = text(group_id)
        if not defaults:
            yield f"{INDENT}with TaskGroup({name}){target}:"
            return
        yield f"{INDENT}with TaskGroup("
        yield f"{INDENT * 2}{name},"
        yield f"{INDENT * 2}default_args={literal(defaults['default_args'], len(INDENT) * 2 + 14, 2)},"
        yield f"{INDENT}){target}:"

    def _param_lines(self) -> Iterator[str]:
        if not self._params.params:
            return
        if self._params.params.keys() - self._params.defaults.keys():
            yield f"{INDENT}# DECIDE: a default for each, or how else its value is found"
        yield f"{INDENT}params={{"
        for name, description in self._params.params.items():
            yield from self._param(name, description)
        yield f"{INDENT}}},"

    def _param(self, name: str, description: str) -> Iterator[str]:
        default = self._params.defaults.get(name)
        if not description:
            yield f"{INDENT * 2}{text(name)}: {literal(default, 12 + len(name), 2)},"
            return
        arguments = [
            *([literal(default, 0, 3)] if default is not None else []),
            'type="string"',
            f"description={text(description)}",
        ]
        call = f"Param({', '.join(arguments)})"
        if len(name) + len(call) + 13 <= 88:
            yield f"{INDENT * 2}{text(name)}: {call},"
            return
        yield f"{INDENT * 2}{text(name)}: Param("
        for argument in arguments:
            yield f"{INDENT * 3}{argument},"
        yield f"{INDENT * 2}),"


@dataclass(frozen=True, slots=True)
class _Tasks:
    """
    Writes the tasks of one job.

    :param level: of their indent.
    """

    _job: LegacyJob
    _arguments: DagArguments
    _options: DagOptions
    _shell: ShellText
    _level: int

    def lines(self) -> Iterator[str]:
        """Yield the lines of all tasks."""
        indent = INDENT * self._level
        if self._options.context_dir:
            yield from self._pipeline()
            return
        if self._job.package_path:
            yield from self._call(
                "package = PackageTrainerOperator", {"task_id": "package", **self._arguments.of_package()}
            )
        given = self._arguments.of_job()
        if self._job.task is not None and "trigger_rule" in self._job.task.arguments:
            given["trigger_rule"] = self._job.task.arguments["trigger_rule"]
        if "image" in given:
            self._arguments.decide(
                "image",
                "the image is not built here; `migrate --context DIR` writes a DAG that builds, tests and "
                "pushes it",
            )
        collects = bool(_folder(self._job))
        if not collects:
            for decision in [each for each in self._arguments.decisions if each.about == "collect"]:
                self._arguments.decisions.remove(decision)
                self._arguments.decide("wait", decision.text)
        yield from self._call(
            "submit = SubmitTrainingJobOperator", {"task_id": "submit", **given}, is_job=True
        )
        yield from self._comments("wait", self._level)
        yield from self._short_call("finished = TrainingJobSensor", "wait_until_finished")
        if collects:
            yield from self._comments("collect", self._level)
            yield from self._short_call("collect = CollectTrainingResultsOperator", "collect")
            yield f"{indent}submit >> finished >> collect"
        else:
            yield f"{indent}submit >> finished"

    def _short_call(self, head: str, task_id: str) -> Iterator[str]:
        line = f"{INDENT * self._level}{head}(task_id={text(task_id)}, job_id=submit.output)"
        if len(line) <= LINE_WIDTH:
            yield line
        else:
            yield from self._call(head, {"task_id": task_id, "job_id": Code("submit.output")})

    def _pipeline(self) -> Iterator[str]:
        given = self._arguments.of_job()
        image = _without_tag(given.pop("image", ""))
        self._arguments.decide(
            "image", "built from context_dir and pushed under this name; its tag comes from its content"
        )
        self._arguments.decide("args", "test_args=[...] of training_pipeline makes the local test run short")
        yield from self._comments("wait", self._level)
        yield from self._comments("collect", self._level)
        context = self._options.context_dir
        yield from self._call(
            "training_pipeline", {"context_dir": context, "image": image, **given}, is_job=True
        )

    def _call(self, head: str, arguments: Mapping[str, Any], *, is_job: bool = False) -> Iterator[str]:
        """
        Yield a call.

        Decisions stand above their arguments; those about absent arguments of the job stand at its end.
        """
        yield f"{INDENT * self._level}{head}("
        level = self._level + 1
        inner = INDENT * level
        for name, value in arguments.items():
            yield from self._comments(name, level)
            yield f"{inner}{name}={literal(value, len(inner) + len(name) + 2, level)},"
        if is_job:
            for about in dict.fromkeys(each.about for each in self._arguments.decisions):
                if about not in ("dag", "wait", "collect"):
                    yield from self._comments(about, level)
        yield f"{INDENT * self._level})"

    def _comments(self, about: str, level: int) -> Iterator[str]:
        return _comments(self._arguments.decisions, about, level, self._shell)


def _comments(decisions: list[Decision], about: str, level: int, shell: ShellText) -> Iterator[str]:
    """Yield the decisions at one place; each is written once."""
    for decision in [each for each in decisions if each.about == about]:
        decisions.remove(decision)
        yield from decision_comment(shell.as_written(decision.text), INDENT * level)


def decision_comment(decision: str, indent: str) -> list[str]:
    """Return the lines of a comment that asks for a decision. Pure."""
    prefix = f"{indent}# "
    return textwrap.wrap(
        " ".join(f"DECIDE: {decision}".split()),
        _COMMENT_WIDTH,
        initial_indent=prefix,
        subsequent_indent=prefix,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _merged(decisions: list[Decision]) -> list[Decision]:
    """Return the decisions; what is to be decided in the same way for several old lines is one."""
    lines: dict[Decision, list[str]] = {}
    for decision in decisions:
        found = _OF_LINE.fullmatch(decision.text)
        text = found[2] if found else decision.text
        lines.setdefault(Decision(about=decision.about, text=text), []).extend([found[1]] if found else [])
    return [
        Decision(about=decision.about, text=f"{_line(of)}: {decision.text}") if of else decision
        for decision, of in lines.items()
    ]


def _line(numbers: Sequence[str]) -> str:
    return f"line {numbers[0]}" if len(numbers) == 1 else f"lines {', '.join(numbers)}"


def _default_args(task: LegacyTask) -> dict[str, Any]:
    """Return what all tasks have that stand for ``task``, as an argument of a group or a DAG."""
    given = {name: value for name, value in task.arguments.items() if name != "trigger_rule"}
    return {"default_args": given} if given else {}


def decisions_in(source: str) -> list[tuple[int, str]]:
    """Return what needs a person in a written file: line, and what is to be decided. Pure."""
    found: list[tuple[int, str]] = []
    goes_on = False
    for number, line in enumerate(source.splitlines(), 1):
        comment = line.strip()
        if comment.startswith("# DECIDE: "):
            found.append((number, comment.removeprefix("# DECIDE: ")))
            goes_on = True
        elif goes_on and comment.startswith("# "):
            found[-1] = (found[-1][0], f"{found[-1][1]} {comment.removeprefix('# ')}")
        else:
            goes_on = False
    return found


def _folder(job: LegacyJob) -> str | None:
    return (job.wire.get("trainingInput") or {}).get("jobDir")


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
