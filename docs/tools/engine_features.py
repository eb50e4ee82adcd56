"""
Fills the table of features by engine from the marks of the tests.

The table is in ``docs/more-machines.md``; ``make docs`` runs this. A test on real parts that shows a feature
on an engine has the mark ``@pytest.mark.proves(FEATURE, on=ENGINE)``. A cell is *yes* where a test has the
mark, the text of ``LACKS`` where the product does not have the feature, and *not run* where neither is known.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "more-machines.md"
#: What the last column names. A proof on a swarm counts for one with agents, too: these only add to it.
ONE, SWARM, AGENTS = "one machine", "swarm", "swarm with agents"
ENGINES = (ONE, SWARM, AGENTS)
_NEEDS_AGENTS = {SWARM: "no"}

#: Every feature, in the order of the table -> what an engine lacks.
LACKS: Mapping[str, Mapping[str, str]] = {
    "replicas find each other by name": {},
    "logs, whole and in order": {},
    "logs: what is written while the manager is away": {ONE: "-"},
    "lost replicas are started again": {},
    "cancel": {},
    "images that need a token": {},
    "secrets": {},
    "jobs of packages": {},
    "curves of jobs": _NEEDS_AGENTS,
    "tuning: cloudml-hypertune": _NEEDS_AGENTS,
    "tuning: early stopping": _NEEDS_AGENTS,
    "tuning: resume of an earlier study": _NEEDS_AGENTS,
    "tuning: TensorFlow's summary files": _NEEDS_AGENTS,
    "running out of memory is reported at once": {SWARM: "on the manager"},
    "use: CPU and memory of replicas": _NEEDS_AGENTS,
    "use: GPUs of replicas": {SWARM: "no", AGENTS: "with a played driver"},
    "preflight": {},
    "log search by filter": {},
    "dashboard": {},
    "example DAGs": {},
    "DAGs that tune": {},
    "DAGs whose jobs have several replicas": {},
    "metadata endpoint": _NEEDS_AGENTS,
    "limits of what jobs reach": _NEEDS_AGENTS,
    "limits of what a container writes to its disk": _NEEDS_AGENTS,
}

_BLOCK = re.compile(r"^<!-- features by engine -->\n.*?^<!-- end of features -->$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Proof:
    """
    A test that shows a feature on an engine.

    :param path: the test's file, from the checkout's root.
    """

    feature: str
    engine: str
    path: str


def proofs() -> list[Proof]:
    """
    Return the proofs of all marks, in the order of the files.

    The files are read, not imported: a mark has literals as its arguments.
    """
    found = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        found += [Proof(feature, engine, name) for feature, engine in _marks(path.read_text("utf-8"))]
    return found


def filled(page: str) -> str:
    """Return ``page`` with the table made anew."""
    return _BLOCK.sub(lambda _: _block(), page)


def _marks(source: str) -> Iterator[tuple[str, str]]:
    """Yield the feature and the engine of each mark."""
    if "mark.proves" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.proves":
            (feature,) = node.args
            (on,) = node.keywords
            yield ast.literal_eval(feature), ast.literal_eval(on.value)


def _block() -> str:
    shown: dict[tuple[str, str], list[str]] = defaultdict(list)
    for proof in proofs():
        shown[proof.feature, proof.engine].append(proof.path)
    lines = [f"| | {' | '.join(ENGINES)} | shown by, on a swarm |", "|---" * (len(ENGINES) + 2) + "|"]
    for feature, lacks in LACKS.items():
        cells = [_cell(feature, engine, lacks, shown) for engine in ENGINES]
        paths = sorted({path for engine in (SWARM, AGENTS) for path in shown[feature, engine]})
        links = ", ".join(f"[{Path(path).name}](../{path})" for path in paths)
        lines.append(f"| {feature} | {' | '.join(cells)} | {links} |")
    return "\n".join(["<!-- features by engine -->", "", *lines, "", "<!-- end of features -->"])


def _cell(
    feature: str, engine: str, lacks: Mapping[str, str], shown: Mapping[tuple[str, str], list[str]]
) -> str:
    if shown[feature, engine] or (engine == AGENTS and shown[feature, SWARM]):
        return "yes"
    return lacks.get(engine, "not run")


def main() -> int:
    """Write the page."""
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
