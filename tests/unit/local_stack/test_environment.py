import subprocess
from pathlib import Path

from local_stack.environment import client_environment, export_lines
from local_stack.settings import StackSettings


def make_settings(**changes: object) -> StackSettings:
    return StackSettings.model_validate({"docker_host": None, "state_dir": Path("/state"), **changes})


def test_a_shell_reads_back_every_value_unchanged() -> None:
    values = {
        "PLAIN": "word",
        "SPACES": "two words",
        "QUOTES": 'it\'s "so"',
        "SHELL": "$HOME `id` \\ ; & \n!",
        "EMPTY": "",
    }
    script = "\n".join([*export_lines(values), *(f"printf '%s\\0' \"${name}\"" for name in values)])

    printed = subprocess.run(["sh", "-eu"], input=script, capture_output=True, text=True, check=True).stdout

    assert printed.split("\0")[:-1] == list(values.values())
    assert "export PLAIN='word'" in script


def test_every_client_is_pointed_at_the_local_stack() -> None:
    environment = client_environment(
        make_settings(training_port=1, object_store_port=2, registry_port=3), base_image="b:1"
    )

    assert environment["TRAINING_ENDPOINT"] == "http://127.0.0.1:1"
    assert environment["CLOUDSDK_API_ENDPOINT_OVERRIDES_ML"] == "http://127.0.0.1:1/"
    assert environment["CLOUDSDK_API_ENDPOINT_OVERRIDES_ARTIFACTREGISTRY"] == "http://127.0.0.1:1/"
    assert environment["CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"] == "http://127.0.0.1:2/storage/v1/"
    assert environment["STORAGE_EMULATOR_HOST"] == "http://127.0.0.1:2"
    assert environment["IMAGE_PREFIX"] == "127.0.0.1:3/demo-project"
    assert environment["JOB_BUCKET"] == "gs://demo-bucket/jobs"
    assert environment["BASE_IMAGE"] == "b:1"
    assert environment["CLOUDSDK_CONFIG"] == "/state/gcloud"


def test_clients_of_vertex_ai_are_told_an_endpoint_and_a_way_without_one() -> None:
    environment = client_environment(
        make_settings(training_port=1, grpc_port=4, vertex_proxy_port=5), base_image="b:1"
    )

    assert environment["CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM"] == "http://127.0.0.1:1/vertex/"
    assert environment["VERTEX_ENDPOINT"] == "http://127.0.0.1:1/vertex"
    assert environment["VERTEX_GRPC_ENDPOINT"] == "127.0.0.1:4"
    assert environment["grpc_proxy"] == "http://127.0.0.1:5"
    assert environment["no_grpc_proxy"] == "localhost,127.0.0.1"
    assert environment["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] == "/state/training/tls/bundle.pem"


def test_docker_host_is_only_set_for_another_engine() -> None:
    assert "DOCKER_HOST" not in client_environment(make_settings(), base_image="b")
    assert (
        client_environment(make_settings(docker_host="tcp://10.0.0.1:2375"), base_image="b")["DOCKER_HOST"]
        == "tcp://10.0.0.1:2375"
    )
    assert (
        client_environment(make_settings(engine_socket="/tmp/e.sock"), base_image="b")["DOCKER_HOST"]
        == "unix:///tmp/e.sock"
    )
