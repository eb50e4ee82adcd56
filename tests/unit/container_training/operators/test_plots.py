"""Plots as files, drawn by the real renderer."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from container_training.operators.plots import PlotTrialsOperator
from container_training.work.results.plots.trial_plots import best_so_far, parallel_coordinates
from tests.support.fakes.fake_bucket import FakeBucket
from tests.support.fakes.fake_service import EPOCH, FakeService, make_job
from tests.support.fakes.tuning_jobs import make_trial, make_tuning_job
from tests.support.speed import scaled
from training_api.dialects.ml_v1.trials import study_of, trial_rows

JOB = make_tuning_job(
    make_trial(1, 0.9),
    make_trial(2, 0.97, isTrialStoppedEarly=True),
    make_trial(3, None, state="FAILED"),
    make_trial(4, None, state="RUNNING", seconds=None),
)
FOLDER = "gs://bucket/jobs/digits_1/plots"


def plot(context: Any) -> dict[str, dict[str, str]]:
    return PlotTrialsOperator(task_id="plot", job_id="digits_1").execute(context)


def test_nothing_is_written_to_a_bucket_of_another_project(
    service: FakeService, bucket: FakeBucket, context: Any
) -> None:
    service.add(JOB)
    bucket.project = "another"

    with pytest.raises(AirflowFailException, match="BucketRefused: bucket 'bucket' is not one of project"):
        plot(context)

    assert bucket.objects == {}


@pytest.mark.extended
def test_both_plots_are_written_as_html_and_png(
    service: FakeService, bucket: FakeBucket, context: Any
) -> None:
    service.add(JOB)

    written = plot(context)

    assert written == {
        name: {"html": f"{FOLDER}/{name}.html", "png": f"{FOLDER}/{name}.png"}
        for name in ("parallel-coordinates", "best-so-far")
    }
    for files in written.values():
        png = bucket.objects[files["png"].removeprefix("gs://bucket/")]
        width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
        assert png.startswith(b"\x89PNG")
        assert (width > 1000, height > 700) == (True, True)


def test_the_html_has_all_that_draws_it(service: FakeService, bucket: FakeBucket, context: Any) -> None:
    service.add(JOB)

    files = plot(context)["parallel-coordinates"]

    html = bucket.objects[files["html"].removeprefix("gs://bucket/")].decode()
    # The specification, and the libraries, are in the file; no tag of the page loads anything.
    assert '"lr"' in html
    assert len(html) > 500_000
    assert tags_with_addresses(html) == []


def test_no_name_ends_the_pages_script(service: FakeService, bucket: FakeBucket, context: Any) -> None:
    hostile = "</script><img src=x onerror=alert(1)>"
    service.add(JOB.model_copy(update={"job_id": "digits_1", "training_input": _named(hostile)}))

    files = plot(context)

    for each in files.values():
        html = bucket.objects[each["html"].removeprefix("gs://bucket/")].decode()
        assert hostile not in html
        assert tags_with_addresses(html) == []
        assert r"\u003c/script>\u003cimg src=x" in html


def _named(tag: str) -> Any:
    """Return the job's input with another name of the metric."""
    assert JOB.training_input is not None
    search = JOB.training_input.hyperparameters
    assert search is not None
    return JOB.training_input.model_copy(
        update={"hyperparameters": search.model_copy(update={"hyperparameter_metric_tag": tag})}
    )


def tags_with_addresses(html: str) -> list[str]:
    """Return the tags of a page that make a browser load something."""
    found: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if {name for name, _ in attrs} & {"src", "href"}:
                found.append(tag)

    Tags().feed(html)
    return found


@pytest.mark.extended
def test_plots_are_drawn_without_a_network() -> None:
    study = study_of(JOB)
    assert study is not None
    specs = [draw("digits_1", study, trial_rows(JOB, EPOCH)) for draw in (parallel_coordinates, best_so_far)]
    code = """
import json, socket, sys, vl_convert
for spec in json.load(sys.stdin):
    print(len(vl_convert.vegalite_to_png(spec)), len(vl_convert.vegalite_to_html(spec, bundle=True)))
"""

    # A network namespace of its own, in which there is not even loopback.
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", code],
        input=json.dumps(specs),
        capture_output=True,
        text=True,
        check=True,
        timeout=scaled(120),
    )

    sizes = [int(size) for size in done.stdout.split()]
    assert len(sizes) == 4
    assert min(sizes) > 5_000
    assert "WARN" not in done.stderr


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        (
            "http://127.0.0.1:9023",
            "http://127.0.0.1:9023/storage/v1/b/bucket/o/jobs%2Fdigits_1%2Fplots%2Fbest-so-far.html?alt=media",
        ),
        (
            "https://storage.googleapis.com",
            "https://storage.cloud.google.com/bucket/jobs/digits_1/plots/best-so-far.html",
        ),
    ],
)
def test_the_task_has_a_button_for_each_plot(
    service: FakeService, bucket: FakeBucket, context: Any, endpoint: str, address: str
) -> None:
    service.add(JOB)
    bucket.api_endpoint = endpoint
    task = PlotTrialsOperator(task_id="plot", job_id="digits_1")
    links = {link.name: link for link in task.operator_extra_links}

    before = links["Best so far"].get_link(task, ti_key=None)
    task.execute(context)

    assert set(links) == {"Parallel coordinates", "Best so far", "Job", "Job log", "Model folder"}
    assert before == ""
    assert links["Best so far"].get_link(task, ti_key=None) == address


def test_the_same_trials_are_not_written_twice(
    service: FakeService, bucket: FakeBucket, context: Any
) -> None:
    service.add(make_tuning_job(make_trial(1, 0.9)))
    plot(context)

    plot(context)

    assert bucket.writes == 4


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (make_job(), "ResultsMissing: job 'digits_1' has no trials to plot"),
        (
            make_job(training_input={"hyperparameters": {"maxTrials": 1}}),
            "ResultsMissing: job 'digits_1' has no jobDir to write plots to",
        ),
    ],
)
def test_a_job_that_cannot_be_plotted_says_why(
    service: FakeService, bucket: FakeBucket, context: Any, job: Any, message: str
) -> None:
    service.add(job)

    with pytest.raises(AirflowFailException, match=message):
        plot(context)


def test_without_the_extra_the_task_fails_with_what_to_install(
    service: FakeService, bucket: FakeBucket, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.add(JOB)
    monkeypatch.setitem(sys.modules, "vl_convert", None)

    with pytest.raises(AirflowFailException, match=r"pip install 'airflow-container-training\[plots\]'"):
        plot(context)

    assert not bucket.objects
