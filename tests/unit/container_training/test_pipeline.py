"""The chain's one description of the job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, Asset

from container_training.operators.burst import Burst
from container_training.pipeline import RoleImage, TrainingPipeline, training_pipeline
from container_training.runtime.job_description import JobDescriptionOperator


def make_pipeline(**fields: Any) -> TrainingPipeline:
    with DAG("chain", schedule=None):
        return training_pipeline(context_dir="/trainer", image="HOST/demo/mine", **fields)


def test_a_job_file_is_handed_on_and_its_job_folder_is_left_to_it() -> None:
    submit = make_pipeline(config_file="config.yaml", priority=3).submit

    assert (submit.config_file, submit.priority, submit.job_dir) == ("config.yaml", 3, None)
    assert submit.default_job_dir == (
        "{{ conn.get('training_default').extra_dejson.get('job_bucket', '') }}/{job_id}"
    )


def test_a_job_folder_and_its_default_can_be_given() -> None:
    submit = make_pipeline(job_dir="gs://a/b", default_job_dir="gs://c/d").submit

    assert (submit.job_dir, submit.default_job_dir) == ("gs://a/b", "gs://c/d")


def make_distributed(**fields: Any) -> TrainingPipeline:
    return make_pipeline(
        dockerfile="Dockerfile-master",
        build_args={"BASE_IMAGE": "base:1"},
        test_args=["--epochs", "1"],
        images={
            "worker": RoleImage(dockerfile="Dockerfile-worker"),
            "parameter_server": RoleImage(
                dockerfile="Dockerfile-ps",
                context_dir="/ps",
                image="HOST/demo/ps",
                build_args={},
                test_args=[],
            ),
        },
        **fields,
    )


def test_one_image_has_the_tasks_that_it_always_had() -> None:
    pipeline = make_pipeline()

    assert set(pipeline.group.children) == {
        f"train.{name}"
        for name in (
            "build",
            "test",
            "preflight",
            "push",
            "grant",
            "submit",
            "wait_until_scheduled",
            "wait_until_running",
            "wait_until_finished",
            "collect",
        )
    }
    assert not pipeline.roles


def test_the_image_of_each_role_is_made_beside_the_masters() -> None:
    pipeline = make_distributed()

    for role, suffix in (("worker", "_worker"), ("parameter_server", "_parameter_server")):
        tasks = pipeline.roles[role]
        chain = [tasks.build, tasks.test, tasks.push, tasks.grant]
        assert [task.task_id for task in chain] == [
            f"train.{name}{suffix}" for name in ("build", "test", "push", "grant")
        ]
        assert not tasks.build.upstream_task_ids
        assert tasks.test.upstream_task_ids == {tasks.build.task_id}
        assert tasks.grant.task_id in pipeline.submit.upstream_task_ids
    assert pipeline.grant.task_id in pipeline.submit.upstream_task_ids


def test_a_role_has_the_masters_values_unless_it_has_its_own() -> None:
    roles = make_distributed().roles

    worker, server = roles["worker"], roles["parameter_server"]
    assert (worker.build.context_dir, worker.build.dockerfile) == ("/trainer", "Dockerfile-worker")
    assert (worker.build.image, worker.build.build_args) == ("HOST/demo/mine", {"BASE_IMAGE": "base:1"})
    assert worker.test.args == ["--epochs", "1"]
    assert (server.build.context_dir, server.build.dockerfile) == ("/ps", "Dockerfile-ps")
    assert (server.build.image, server.build.build_args, server.test.args) == ("HOST/demo/ps", {}, [])


def test_the_job_runs_what_was_pushed_for_each_role() -> None:
    pipeline = make_distributed(worker_count=2, worker_config={"container_args": ["--fast"]})

    submit = pipeline.submit
    assert submit.worker_config == {
        "container_args": ["--fast"],
        "image_uri": pipeline.roles["worker"].push.output,
    }
    assert submit.parameter_server_config == {"image_uri": pipeline.roles["parameter_server"].push.output}
    assert submit.evaluator_config is None
    assert submit.worker_count == 2


def test_the_image_of_an_unknown_role_is_refused() -> None:
    with pytest.raises(ValueError, match=r"images must name roles of worker, .*; got ps"):
        make_pipeline(images={"ps": RoleImage(dockerfile="Dockerfile-ps")})


def test_the_preflight_describes_the_same_job_with_the_arguments_of_one_step() -> None:
    chain = make_pipeline(
        config_file="config.yaml", priority=3, args=["--epochs", "9"], test_args=["--epochs", "1"]
    )

    preflight = chain.preflight
    assert preflight is not None
    assert preflight.preflight_args == ["--epochs", "1"]
    for name in set(JobDescriptionOperator.template_fields) - {"image", "args"}:
        assert getattr(preflight, name) == getattr(chain.submit, name)
    assert preflight.upstream_task_ids == {"train.build"}
    assert preflight.downstream_task_ids == {"train.submit"}


def test_the_preflight_runs_what_was_built_for_each_role() -> None:
    chain = make_distributed(worker_count=2, worker_config={"container_args": ["--fast"]})

    preflight = chain.preflight
    assert preflight is not None
    assert preflight.worker_config == {
        "container_args": ["--fast"],
        "image_uri": chain.roles["worker"].build.output,
    }
    assert preflight.parameter_server_config == {"image_uri": chain.roles["parameter_server"].build.output}
    assert preflight.upstream_task_ids == {
        f"train.build{suffix}" for suffix in ("", "_worker", "_parameter_server")
    }


def test_without_arguments_for_one_step_the_preflight_takes_those_of_the_job() -> None:
    preflight = make_pipeline(args=["--epochs", "9"]).preflight

    assert preflight is not None
    assert (preflight.args, preflight.preflight_args) == (["--epochs", "9"], [])


def test_the_preflight_can_be_left_out() -> None:
    chain = make_pipeline(preflight=False)

    assert chain.preflight is None
    assert "train.preflight" not in chain.submit.upstream_task_ids


SEARCH = {"maxTrials": 4, "params": [{"parameterName": "lr", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]}


@pytest.mark.parametrize(
    "fields",
    [
        {"hyperparameters": SEARCH},
        {"job": {"trainingInput": {"hyperparameters": SEARCH}}},
        {"config_file": "config.yaml", "tuning": True},
    ],
)
def test_the_trials_of_a_tuning_job_are_drawn_beside_its_collection(fields: dict[str, Any]) -> None:
    chain = make_pipeline(**fields)

    assert chain.plot is not None
    assert chain.plot.upstream_task_ids == {"train.submit", "train.wait_until_finished"}
    assert chain.plot.job_id == chain.submit.output


@pytest.mark.parametrize("fields", [{}, {"job": "{}"}, {"hyperparameters": SEARCH, "tuning": False}])
def test_without_a_search_nothing_is_drawn(fields: dict[str, Any]) -> None:
    assert make_pipeline(**fields).plot is None


def test_a_limit_of_cost_is_checked_before_the_job_and_kept_by_the_last_wait() -> None:
    chain = make_pipeline(max_cost=2.5)

    assert chain.submit.max_cost == chain.wait_until_finished.max_cost == 2.5
    assert chain.wait_until_scheduled.max_cost is None


def test_a_later_task_gets_the_arguments_of_the_best_trial() -> None:
    chain = make_pipeline(hyperparameters=SEARCH)

    assert chain.best_trial_args.key == "best_trial_args"
    assert chain.best_trial_args.operator is chain.collect


def test_bills_of_materials_are_made_of_what_was_pushed_and_before_the_results_are_collected() -> None:
    pipeline = make_distributed(bill_of_materials=True)

    bills = {bill.task_id: bill for bill in pipeline.bills_of_materials}
    assert {task_id: bill.file_name for task_id, bill in bills.items()} == {
        "train.bill_of_materials": "sbom.cdx.json",
        "train.bill_of_materials_worker": "sbom-worker.cdx.json",
        "train.bill_of_materials_parameter_server": "sbom-parameter_server.cdx.json",
    }
    assert pipeline.collect.upstream_task_ids >= set(bills)
    worker = bills["train.bill_of_materials_worker"]
    assert worker.upstream_task_ids == {pipeline.submit.task_id, pipeline.roles["worker"].push.task_id}
    assert worker.keep_in.endswith("}}/bills-of-materials")


def test_no_bill_is_made_unless_it_is_asked_for() -> None:
    assert not make_distributed().bills_of_materials


def test_secrets_and_the_builder_are_those_of_every_image() -> None:
    pipeline = make_distributed(secrets={"token": "variable:t"}, ssh={"default": ""}, builder="buildkit")

    for build in (pipeline.build, pipeline.roles["worker"].build):
        assert (build.secrets, build.ssh, build.builder) == (
            {"token": "variable:t"},
            {"default": ""},
            "buildkit",
        )


def test_states_in_one_task_leave_the_image_the_submission_and_the_plot() -> None:
    model = Asset("model")
    pipeline = make_pipeline(
        states="one", outlets=[model], wait_timeout=timedelta(hours=1), hyperparameters={"goal": "MAXIMIZE"}
    )

    assert set(pipeline.group.children) == {
        f"train.{name}" for name in ("build", "test", "preflight", "push", "grant", "submit", "plot")
    }
    submit = pipeline.submit
    assert pipeline.collect is submit
    assert (submit.wait_for_completion, submit.wait_timeout) == (True, 3600)
    assert submit.outlets == [model]
    assert submit.downstream_task_ids == {"train.plot"}
    assert pipeline.plot is not None
    assert pipeline.plot.job_id == submit.output["job_id"]
    assert pipeline.best_trial_args == submit.output["best_trial_args"]


def test_bills_of_materials_come_after_a_task_that_also_collects() -> None:
    pipeline = make_pipeline(states="one", bill_of_materials=True)

    assert [bill.upstream_task_ids for bill in pipeline.bills_of_materials] == [
        {"train.push", "train.submit"}
    ]


def test_states_are_of_two_kinds() -> None:
    with pytest.raises(ValueError, match=r"states must be 'tasks' .* or 'one' .*; got 'two'"):
        make_pipeline(states="two")


def test_a_service_is_chosen_first_and_all_tasks_keep_to_it() -> None:
    chain = make_pipeline(
        backends=["local", "cloud"],
        when=Burst(queue_minutes=5),
        master_type="n1-standard-8",
        vertex_options={"strategy": "SPOT"},
        detached=True,
    )

    assert chain.choose is not None
    assert chain.choose.downstream_task_ids >= {"train.build"}
    assert (chain.choose.training_conn_ids, chain.choose.queue_minutes) == (["local", "cloud"], 5)
    assert (chain.choose.master_type, chain.choose.vertex_options) == ("n1-standard-8", {"strategy": "SPOT"})
    of_choice = (
        "ti.xcom_pull(task_ids='train.choose_service', key='training_conn_id', map_indexes=ti.map_index)"
    )
    others = [task for task in chain.group.children.values() if task is not chain.choose]
    assert {task.training_conn_id for task in others} == {f"{{{{ {of_choice} }}}}"}  # type: ignore[attr-defined]
    assert chain.submit.default_job_dir == (
        f"{{{{ conn.get({of_choice}).extra_dejson.get('job_bucket', '') }}}}/{{job_id}}"
    )
    assert chain.submit.vertex_options.key == "vertex_options"  # type: ignore[union-attr]


def test_without_other_services_nothing_is_chosen_and_options_are_the_authors() -> None:
    chain = make_pipeline(vertex_options={"strategy": "SPOT"})

    assert chain.choose is None
    assert chain.submit.vertex_options == {"strategy": "SPOT"}
    assert chain.submit.training_conn_id == "training_default"


def test_a_folder_that_the_author_gives_stays_whichever_service_is_chosen() -> None:
    chain = make_pipeline(backends=["local", "cloud"], default_job_dir="gs://mine/{job_id}")

    assert chain.submit.default_job_dir == "gs://mine/{job_id}"
