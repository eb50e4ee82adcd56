"""``.ci/audit`` with the real pip-audit, and a played database of advisories."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.support.loopback_server import serving

ROOT = Path(__file__).parents[2]
HASH = f"--hash=sha256:{'0' * 64}"
JINJA = {
    "id": "GHSA-1",
    "aliases": ["CVE-2026-1"],
    "summary": "It runs what it should show.",
    "affected": [
        {
            "package": {"name": "jinja2", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.5"}]}],
        }
    ],
}


@dataclass
class Osv:
    """A database of advisories; ``body``: what it answers instead."""

    url: str = ""
    advisories: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    body: bytes | None = None
    asked: list[str] = field(default_factory=list)

    def answer(self, question: dict[str, Any]) -> bytes:
        """Return the answer to a question."""
        name = question["package"]["name"]
        self.asked.append(name)
        if self.body is not None:
            return self.body
        found = self.advisories.get(name)
        return json.dumps({"vulns": found} if found else {}).encode()


@pytest.fixture
def osv() -> Iterator[Osv]:
    played = Osv()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = played.answer(json.loads(self.rfile.read(length)))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving(Handler) as url:
        played.url = f"{url}/v1/query"
        yield played


@dataclass
class Audit:
    """The program in a folder of the test."""

    folder: Path
    url: str

    def __post_init__(self) -> None:
        self.requirements = self.folder / "requirements.txt"
        self.requirements.write_text(f"jinja2==2.4.1 {HASH}\nclick==8.0.0 {HASH}\n", encoding="utf-8")
        self.accepted = self.folder / "accepted.txt"
        self.accepted.write_text("# none\n", encoding="utf-8")

    def run(self, *files: Path) -> tuple[int, str]:
        """Return status and output."""
        command = [sys.executable, ROOT / ".ci" / "audit", "--accepted", self.accepted]
        command += ["--done", self.folder / "done" / "audit.json", *(files or [self.requirements])]
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            env={"OSV_URL": self.url, "HOME": str(self.folder), "NO_PROXY": "*"},
        )
        assert done.stdout == ""
        return done.returncode, done.stderr


@pytest.fixture
def audit(osv: Osv, tmp_path: Path) -> Audit:
    return Audit(tmp_path, osv.url)


def test_an_advisory_that_has_a_fix_fails_the_check(audit: Audit, osv: Osv) -> None:
    osv.advisories["jinja2"] = [JINJA]

    status, said = audit.run()

    assert status == 1
    assert "jinja2 2.4.1: CVE-2026-1, fixed in 2.5: It runs what it should show." in said
    assert "accepted-advisories.txt" in said
    assert audit.run()[0] == 1


@pytest.mark.parametrize("name", ["GHSA-1", "CVE-2026-1"])
def test_an_accepted_advisory_does_not(audit: Audit, osv: Osv, name: str) -> None:
    osv.advisories["jinja2"] = [JINJA]
    audit.accepted.write_text(f"{name} templates are ours alone\n", encoding="utf-8")

    status, said = audit.run()

    assert (status, "CVE-2026-1" in said) == (0, False)
    assert "2 packages" in said


def test_an_advisory_without_a_fix_is_only_said(audit: Audit, osv: Osv) -> None:
    osv.advisories["jinja2"] = [{**JINJA, "affected": []}]

    status, said = audit.run()

    assert status == 0
    assert "CVE-2026-1, no fix yet" in said


def test_an_accepted_advisory_that_concerns_nothing_any_more_is_said(audit: Audit) -> None:
    audit.accepted.write_text("GHSA-9 was about something else\n", encoding="utf-8")

    status, said = audit.run()

    assert status == 0
    assert "GHSA-9 is accepted and concerns no package any more" in said


def test_it_is_done_once_a_day_and_again_when_a_list_has_changed(audit: Audit, osv: Osv) -> None:
    audit.run()
    asked = len(osv.asked)

    status, said = audit.run()

    assert (status, len(osv.asked)) == (0, asked)
    assert "done within the last day" in said
    audit.requirements.write_text(f"jinja2==2.4.2 {HASH}\n", encoding="utf-8")
    audit.run()
    assert len(osv.asked) > asked


@pytest.mark.parametrize("body", [b"<html>Please log in</html>", b""])
def test_where_something_else_answers_nothing_fails(audit: Audit, osv: Osv, body: bytes) -> None:
    osv.body = body

    status, said = audit.run()

    assert status == 0
    assert said.startswith("audit: not done: ")
    assert osv.asked == ["pip"]


def test_without_a_network_nothing_fails_and_it_is_tried_again(audit: Audit, osv: Osv) -> None:
    audit.url = "http://127.0.0.1:9/v1/query"

    status, said = audit.run()

    assert (status, said.count("\n")) == (0, 1)
    assert "audit: not done: http://127.0.0.1:9/v1/query does not answer" in said
    audit.url = osv.url
    assert "2 packages" in audit.run()[1]


def test_a_database_that_breaks_off_fails_nothing(audit: Audit, osv: Osv) -> None:
    osv.advisories["click"] = [{"id": "no advisory"}] * 2
    osv.advisories["jinja2"] = [{"schema_version": "nonsense"}]

    status, said = audit.run()

    assert status == 0
    assert "audit: not done: pip-audit ended with 1" in said


@pytest.mark.extended
def test_pip_audit_reads_all_committed_lists(audit: Audit, osv: Osv) -> None:
    lists = [ROOT / "requirements.txt", *ROOT.glob("docker/*/*/requirements.txt")]

    status, said = audit.run(*lists)

    assert (status, len(lists)) == (0, 8)
    assert {"apache-airflow", "tensorflow-cpu", "xgboost-cpu", "pip-audit"} <= set(osv.asked)
    assert "packages, no advisory" in said
