"""
The arguments of a migrated job's tasks: its fields as templates, and decisions.

A person has to take the decisions. Without I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from container_training.work.migration.legacy_job import Decision, LegacyJob
from container_training.work.migration.python_text import Code
from container_training.work.migration.shell_text import ShellPart, ShellText, literal_pieces
from container_training.work.submission.job_fields import fields_of_part

_JINJA = re.compile(r"\{[{%#]")


class DagParams:
    """
    The params of a DAG, which whoever starts a run sets.

    :ivar params: name -> description.
    :ivar defaults: name -> value that it has if nobody sets one.
    """

    def __init__(self) -> None:
        self.params: dict[str, str] = {}
        self.defaults: dict[str, Any] = {}
        self._names: dict[str, str] = {}

    def of_part(self, part: ShellPart) -> str:
        """Return a template for what only a run knows."""
        known = part.name or part.text  # $DATA and ${DATA} are one variable
        name = self._names.get(known)
        if name is None:
            count = sum(not each.isidentifier() for each in self._names) + 1
            name = part.name.lower() or f"{'shell' if 'shell' in part.where else 'value'}_{count}"
            while name in self.params:  # Data and DATA are two
                name += "_"
            self._names[known] = name
            if part.default is not None:
                self.defaults[name] = part.default
        return self.add(name, f"was {part.text} {part.where}")

    def add(self, name: str, description: str) -> str:
        """Return a template for a param."""
        self.params.setdefault(name, " ".join(description.split()))
        return f"{{{{ params.{name} }}}}"


class DagArguments:
    """
    Turns a legacy job into arguments of operators.

    :param shell: where the marks in the job come from.
    """

    def __init__(self, job: LegacyJob, shell: ShellText, params: DagParams) -> None:
        self.decisions: list[Decision] = [*job.decisions]
        self.param = params.add
        self._params = params
        self._job = job
        self._shell = shell

    @property
    def training(self) -> Mapping[str, Any]:
        """The job's ``trainingInput``."""
        training: Mapping[str, Any] = self._job.wire.get("trainingInput") or {}
        return training

    def of_package(self) -> dict[str, Any]:
        """Return the arguments of ``PackageTrainerOperator``."""
        given: dict[str, Any] = {"package_path": self.template(self._job.package_path)}
        if self._job.packages:
            given["packages"] = self.template(self._job.packages)
        if self._job.staging:
            given["staging"] = self.template(self._job.staging)
        else:
            self.decide("staging", "gs:// folder to upload the package to")
            given["staging"] = self.param("staging", "gs:// folder to upload the package to")
        if module := self.training.get("pythonModule"):
            given["python_module"] = self.template(module)
        return given

    def of_job(self) -> dict[str, Any]:
        """
        Return the arguments that describe the job.

        A field without an argument is in ``job``, in the API's own form.
        """
        training = dict(self.training)
        master = dict(training.pop("masterConfig", None) or {})
        scheduling = dict(training.pop("scheduling", None) or {})
        packages = self._packages(training.pop("packageUris", None) or [])
        image = master.pop("imageUri", None)
        given = self._image(image, is_packaged=bool(packages or training.get("pythonModule")))
        if master:
            training["masterConfig"] = master
        given |= self._moved(training)
        if packages:
            given["package_uris"] = packages
        given |= self._moved(scheduling, "scheduling")
        if labels := self._job.wire.get("labels"):
            given["labels"] = self.template(labels)
        if self._job.vertex_options:
            given["vertex_options"] = self.template(self._job.vertex_options)
        if scheduling:
            training["scheduling"] = scheduling
        rest = {
            name: value for name, value in self._job.wire.items() if name not in ("labels", "trainingInput")
        }
        if training:
            rest["trainingInput"] = training
        return given | ({"job": self.template(rest)} if rest else {})

    def _image(self, image: str | None, *, is_packaged: bool) -> dict[str, Any]:
        if image:
            return {"image": self.template(image)}
        if is_packaged:
            return {}
        self.decide("image", "no image was named")
        return {"image": self.param("image", "HOST/PROJECT/NAME:TAG, better @sha256:...")}

    def _moved(self, wire: dict[str, Any], part: str = "") -> dict[str, Any]:
        """Return the arguments that have fields of ``wire``, which are taken out of it."""
        return {
            field.name: self.template(wire.pop(field.wire))
            for field in fields_of_part(part)
            if field.wire in wire
        }

    def _packages(self, uris: Sequence[str]) -> Any:
        """Return ``package_uris``: existing packages, and the output of the packaging task."""
        if self._job.package_path:
            return [*self.template(uris), Code("package.output")] if uris else Code("package.output")
        local = []
        for number, name in enumerate(self._job.packages, 1):
            shown = self._shell.as_written(name)
            self.decide(
                "package_uris", f"gcloud uploaded {shown}: copy it into a bucket, and say where it is"
            )
            local.append(self.param(f"package_{number}", f"gs:// address of {shown}"))
        return [*self.template(uris), *local]

    def template(self, value: Any) -> Any:
        """
        Return ``value`` as the operators' templates render it.

        Shell parts are params, Jinja's marks are text.
        """
        if isinstance(value, Mapping):
            return {key: self.template(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.template(item) for item in value]
        if not isinstance(value, str):
            return value
        return "".join(self._piece(piece) for piece in literal_pieces(value))

    def _piece(self, piece: str) -> str:
        if parts := self._shell.parts_of(piece):
            return self._params.of_part(parts[0])
        if self._job.task is not None or not _JINJA.search(piece):
            return piece
        escaped = piece.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'{{{{ "{escaped}" }}}}'

    def decide(self, about: str, what: str) -> None:
        """Remember what a person has to decide."""
        self.decisions.append(Decision(about=about, text=what))
