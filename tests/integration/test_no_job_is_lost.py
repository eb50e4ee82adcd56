"""
Jobs of every kind, valid and invalid, several at a time.

Each is refused in the API's form, or kept, listed and brought to an end.

The service is whole, over HTTP, with its loop running; what its containers do is up to the image.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from container_engines.memory.engine import Behaviour
from tests.integration.live_service import LiveService, run_service
from tests.support import web
from tests.support.waiting import wait_until
from training_api.job.image_ref import parse_image_ref

JOBS = "projects/demo-project/jobs"
RUN_SECONDS = 5.0
#: What the images do, and how a job that nobody cancels must end.
IMAGES = {
    "registry.test/p/good:1": (Behaviour(run_seconds=RUN_SECONDS, lines=("a line",)), "SUCCEEDED"),
    "registry.test/p/failing:1": (Behaviour(run_seconds=RUN_SECONDS, exit_code=3), "FAILED"),
    "registry.test/p/greedy:1": (Behaviour(run_seconds=1, exit_code=137, out_of_memory=True), "FAILED"),
    "registry.test/p/broken:1": (Behaviour(start_error="exec format error"), "FAILED"),
    "registry.test/p/stubborn:1": (Behaviour(run_seconds=RUN_SECONDS, ignores_sigterm=True), "SUCCEEDED"),
    "registry.test/p/absent:1": (None, "FAILED"),
}

_WORDS = st.text(st.sampled_from("abcdefghij_0123456789"), min_size=1, max_size=8).map(
    lambda word: f"a{word}"
)
_VALID = st.fixed_dictionaries(
    {
        "jobId": _WORDS,
        "trainingInput": st.fixed_dictionaries(
            {"masterConfig": st.fixed_dictionaries({"imageUri": st.sampled_from(sorted(IMAGES))})},
            optional={
                "region": st.sampled_from(["us-central1", "europe-west1"]),
                "scaleTier": st.just("BASIC"),
                "args": st.lists(
                    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=5), max_size=3
                ),
                "jobDir": st.just("gs://bucket/folder"),
                "scheduling": st.fixed_dictionaries(
                    {},
                    optional={
                        "maxRunningTime": st.sampled_from(["3600s", "604800s"]),
                        "maxWaitTime": st.sampled_from(["1800s", "7200.5s"]),
                        "priority": st.integers(0, 1000),
                    },
                ),
            },
        ),
    },
    optional={"labels": st.dictionaries(_WORDS, _WORDS, max_size=3)},
)
#: What takes the place of a field of a valid job; mostly, the job is no longer valid then.
_JUNK = st.sampled_from(
    [None, True, -1, 2**63, 1.5, "", "x y", "\x00", [], {}, ["x"], {"x": 1}, float("nan"), "\ud800"]
)


@st.composite
def _jobs(draw: st.DrawFn) -> dict[str, Any]:
    """A valid job, or one in which a field at any depth is replaced or has an unknown neighbour."""
    job = draw(_VALID)
    if draw(st.integers(0, 2)):
        return job
    job = deepcopy(job)
    place: dict[str, Any] = job
    while True:
        key = draw(st.sampled_from([*sorted(place), "unknown"]))
        if isinstance(place.get(key), dict) and place[key] and draw(st.booleans()):
            place = place[key]
        else:
            place[key] = draw(_JUNK)
            return job


@dataclass
class Project:
    """A project of one example's own, and what was accepted in it: job id -> image."""

    http: httpx.Client
    jobs: str
    accepted: dict[str, str] = field(default_factory=dict)

    def submit(self, job: dict[str, Any]) -> None:
        """Send ``job`` as the bytes that a hostile client could send."""
        answer = self.http.post(
            self.jobs, content=json.dumps(job), headers={"content-type": "application/json"}
        )
        assert answer.status_code in (200, 400, 409), answer.text
        if answer.status_code == 200:
            assert answer.json()["jobId"] not in self.accepted
            self.accepted[answer.json()["jobId"]] = job["trainingInput"]["masterConfig"]["imageUri"]
        else:
            assert answer.json()["error"]["code"] == answer.status_code
            assert answer.status_code == 400 or job["jobId"] in self.accepted, answer.text

    def state_of(self, job_id: str) -> str:
        return str(self.http.get(f"{self.jobs}/{job_id}").raise_for_status().json()["state"])

    def listed(self) -> Iterator[tuple[str, str]]:
        """Yield id and state of every job of the list, page by page."""
        token = ""
        while True:
            page = self.http.get(self.jobs, params={"pageSize": 2, "pageToken": token}).json()
            yield from ((job["jobId"], job["state"]) for job in page.get("jobs", []))
            token = page.get("nextPageToken", "")
            if not token:
                return


@dataclass
class Service:
    """One service for all examples."""

    live: LiveService
    http: httpx.Client
    projects: list[Project] = field(default_factory=list)

    def new_project(self) -> Project:
        self.projects.append(Project(self.http, f"projects/p{len(self.projects)}/jobs"))
        return self.projects[-1]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with (
        run_service(tmp_path_factory.mktemp("service")) as live,
        web.client(base_url=f"{live.endpoint}/v1/") as http,
    ):
        for image, (behaviour, _) in IMAGES.items():
            if behaviour:
                live.engine.add_image(parse_image_ref(image), behaviour)
        service = Service(live, http)
        yield service
        # The property says little if hardly any job was good enough. How many are depends on what else is
        # imported: Hypothesis tries the constants of the modules that it sees.
        assert sum(len(project.accepted) for project in service.projects) >= len(service.projects) // 3


@settings(max_examples=100)
@given(jobs=st.lists(_jobs(), min_size=1, max_size=6), cancelled=st.sets(st.integers(0, 5), max_size=2))
def test_every_accepted_job_is_kept_and_ends(
    service: Service, jobs: list[dict[str, Any]], cancelled: set[int]
) -> None:
    project = service.new_project()
    for job in jobs:
        project.submit(job)
    to_cancel = {job_id for place, job_id in enumerate(project.accepted) if place in cancelled}
    for job_id in to_cancel:
        service.http.post(f"{project.jobs}/{job_id}:cancel").raise_for_status()

    def all_ended() -> bool:
        service.live.engine.advance(RUN_SECONDS)
        return {project.state_of(job_id) for job_id in project.accepted} <= {
            "SUCCEEDED",
            "FAILED",
            "CANCELLED",
        }

    wait_until(all_ended, "all jobs have ended")
    states = dict(project.listed())
    assert states.keys() == project.accepted.keys()
    for job_id, image in project.accepted.items():
        expected = IMAGES[image][1]
        # A cancel may come when the job has ended already.
        assert states[job_id] in ({expected, "CANCELLED"} if job_id in to_cancel else {expected}), job_id
