import json
from pathlib import Path

import pytest

from local_stack.parts.airflow import Airflow, airflow_environment, own_environment
from local_stack.settings import StackSettings
from tests.support.fakes.stack_workshop import make_workshop


@pytest.fixture
def environment() -> dict[str, str]:
    settings = StackSettings(
        state_dir=Path("/state"), airflow_port=1, training_port=2, object_store_port=3, vertex_proxy_port=4
    )
    return dict(airflow_environment(settings, base_image="base:1", token="a-token"))


def test_everything_that_airflow_writes_lies_in_the_state_folder_of_its_stack(
    environment: dict[str, str],
) -> None:
    assert environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] == "sqlite:////state/airflow/airflow.db"
    assert environment["AIRFLOW__LOGGING__BASE_LOG_FOLDER"] == "/state/airflow/logs"
    assert environment["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"].startswith("/state/airflow/")


@pytest.mark.parametrize(
    ("program", "url"),
    [
        ("airflow-scheduler", "sqlite:////state/airflow/airflow.db?timeout=60"),
        ("airflow-api-server", None),
        ("airflow-triggerer", None),
    ],
)
def test_only_the_scheduler_waits_long_for_another_writer(program: str, url: str | None) -> None:
    own = own_environment(program, StackSettings(state_dir=Path("/state")))

    assert own.get("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN") == url


def test_airflow_reads_its_own_configuration_also_where_tests_start_it(environment: dict[str, str]) -> None:
    assert environment["AIRFLOW__CORE__UNIT_TEST_MODE"] == "False"


def test_the_operators_of_googles_provider_reach_the_service(environment: dict[str, str]) -> None:
    assert environment["grpc_proxy"] == "http://127.0.0.1:4"
    assert environment["no_grpc_proxy"] == "localhost,127.0.0.1"
    assert environment["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] == "/state/training/tls/bundle.pem"
    assert json.loads(environment["AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT"])["extra"]["is_anonymous"]


def test_airflow_is_started_again_when_it_has_to_trust_another_authority(tmp_path: Path) -> None:
    part = Airflow(make_workshop(tmp_path, base_image="base:1"))
    before = part.programs()
    part.settings.certificates_dir.mkdir(parents=True)
    (part.settings.certificates_dir / "authority.pem").write_text("another")

    now = part.programs()
    assert now == part.programs()
    assert now != before


def test_tasks_reach_the_api_server_on_its_port(environment: dict[str, str]) -> None:
    assert environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:1/execution/"


def test_the_training_connection_says_all_that_a_pipeline_needs(environment: dict[str, str]) -> None:
    connection = json.loads(environment["AIRFLOW_CONN_TRAINING_DEFAULT"])

    assert (connection["conn_type"], connection["host"], connection["port"]) == (
        "container_training",
        "127.0.0.1",
        2,
    )
    assert connection["extra"] == {
        "project": "demo-project",
        "job_bucket": "gs://demo-bucket/jobs",
        "image_prefix": "127.0.0.1:5000/demo-project",
        "base_image": "base:1",
        "container_env": {
            "STORAGE_EMULATOR_HOST": "http://host.docker.internal:3",
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
            "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA": "true",
        },
    }


def test_prices_go_into_the_training_connection() -> None:
    settings = StackSettings(state_dir=Path("/state"), prices={"n1-standard-4": 0.5}, currency="EUR")

    connection = json.loads(airflow_environment(settings, base_image="b")["AIRFLOW_CONN_TRAINING_DEFAULT"])

    assert connection["extra"]["prices"] == {"n1-standard-4": 0.5}
    assert connection["extra"]["currency"] == "EUR"


def test_the_training_connection_names_a_registry_that_other_machines_reach() -> None:
    settings = StackSettings(state_dir=Path("/state"), require_auth=True, advertise_address="10.0.0.5")

    connection = json.loads(airflow_environment(settings, base_image="b")["AIRFLOW_CONN_TRAINING_DEFAULT"])

    assert connection["extra"]["registry"] == "10.0.0.5:5000"


def test_a_database_that_the_user_names_is_used_alone(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "data").mkdir(parents=True)
    (tmp_path / "airflow").mkdir()
    (tmp_path / "airflow" / "postgresql-folder").write_text(str(tmp_path / "elsewhere"))
    own = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://db/airflow"}
    settings = StackSettings(state_dir=tmp_path, airflow_environment=own)

    found = airflow_environment(settings, base_image="b")

    assert {name: value for name, value in found.items() if "SQL_ALCHEMY" in name} == own
