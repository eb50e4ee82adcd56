"""
Commands as people have them in their scripts, and the request that gcloud makes of each.

``tests/conformance/test_gcloud_migrate.py`` runs them through the gcloud that is installed, and compares what
it sends; the tests of ``migrate`` compare what the DAG sends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

IMAGE = "gcr.io/demo/mnist:v1"
HEAD = "gcloud ai-platform jobs submit training mnist_1 --region us-central1"
WITH_IMAGE = f"{HEAD} --master-image-uri {IMAGE}"
CONFIG = """\
jobId: from_file
labels: {team: vision, from: file}
trainingInput:
  scaleTier: CUSTOM
  masterType: n1-standard-4
  masterConfig:
    imageUri: gcr.io/demo/from-file
    acceleratorConfig: {type: NVIDIA_TESLA_K80, count: 1}
  workerCount: '1'
  workerType: n1-standard-4
  args: ['--from', file]
  region: europe-west1
  jobDir: gs://from-file/jobs
  scheduling: {maxRunningTime: 3600s, priority: 7}
"""
TUNING = """\
trainingInput:
  scaleTier: STANDARD_1
  hyperparameters:
    goal: MAXIMIZE
    hyperparameterMetricTag: accuracy
    maxTrials: 4
    maxParallelTrials: 2
    params:
    - parameterName: lr
      type: DOUBLE
      minValue: 0.0001
      maxValue: 0.1
      scaleType: UNIT_LOG_SCALE
    - parameterName: optimizer
      type: CATEGORICAL
      categoricalValues: [adam, sgd]
"""
FILE_MACHINES = {
    "scaleTier": "CUSTOM",
    "masterType": "n1-standard-4",
    "workerCount": "1",
    "workerType": "n1-standard-4",
    "scheduling": {"maxRunningTime": "3600s", "priority": 7},
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """
    One command.

    :param training: the ``trainingInput`` that gcloud sends.
    :param config: contents of ``config.yaml``, which lies beside it.
    :param environment: variables of the shell; where the DAG has params, their values.
    :param params: values of the DAG's params, if it has others.
    :param adds: what the DAG sends beside that, as the API refuses the request without.
    """

    name: str
    command: str
    training: dict[str, Any]
    labels: dict[str, str] = field(default_factory=dict)
    job: str = "mnist_1"
    config: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    adds: dict[str, Any] = field(default_factory=dict)


def image(uri: str = IMAGE, region: str = "us-central1", **fields: Any) -> dict[str, Any]:
    return {"region": region, "masterConfig": {"imageUri": uri}, **fields}


def types(type_: str, count: str) -> dict[str, str]:
    return {"type": type_, "count": count}


CASES = [
    Case(name="least", command=WITH_IMAGE, training=image()),
    Case(
        name="as-in-the-guide",
        command=f"""
gcloud ai-platform jobs submit training mnist_1 \\
  --region us-central1 \\
  --master-image-uri {IMAGE} \\
  -- \\
  --model-dir=gs://demo/models \\
  --epochs=10
""",
        training=image(args=["--model-dir=gs://demo/models", "--epochs=10"]),
    ),
    Case(
        name="values-after-equals-signs",
        command=f"gcloud ai-platform jobs submit training mnist_1 --region=us-central1 --master-image-uri={IMAGE}",
        training=image(),
    ),
    Case(
        name="old-name-of-the-command",
        command=WITH_IMAGE.replace("ai-platform", "ml-engine"),
        training=image(),
    ),
    Case(
        name="beta-flags",
        command=WITH_IMAGE.replace("gcloud", "gcloud beta")
        + " --network projects/123/global/networks/vpc --tpu-tf-version 2.1",
        training=image(network="projects/123/global/networks/vpc", workerConfig={"tpuTfVersion": "2.1"}),
    ),
    Case(
        name="flags-before-the-command",
        command=WITH_IMAGE.replace("gcloud", "gcloud --project other --verbosity error -q"),
        training=image(),
    ),
    Case(
        name="prompt-and-comments",
        command=f"# train it\n$ {WITH_IMAGE}  # on one machine\n".replace("# train it\n", ""),
        training=image(),
    ),
    Case(
        name="flags-of-gcloud-itself",
        command=f"{WITH_IMAGE} --async --format json --flatten labels --log-http --no-user-output-enabled --quiet "
        "--billing-project other --trace-token t",
        training=image(),
    ),
    Case(
        name="quotes-and-backslashes",
        command=f"""{WITH_IMAGE} -- --name 'it'"'"'s' --say "a \\"b\\" c" --cost=5\\$ --path a\\ b --empty "" --all "$$ not 1" """.replace(
            '"$$ not 1"', "'$not ${a} `var`'"
        ),
        training=image(
            args=[
                *("--name", "it's", "--say", 'a "b" c', "--cost=5$", "--path", "a b", "--empty", ""),
                *("--all", "$not ${a} `var`"),
            ]
        ),
    ),
    Case(
        name="arguments-that-look-like-templates",
        command=f"{WITH_IMAGE} -- --format '{{{{ x }}}}' --block '{{% if \"a\" %}}' 'it is \\n {{# no #}}'",
        training=image(args=["--format", "{{ x }}", "--block", '{% if "a" %}', "it is \\n {# no #}"]),
    ),
    Case(
        name="other-languages-and-long-arguments",
        command=f"{WITH_IMAGE} -- --név 'köszönöm 数' --long {'x' * 120} --tab '\t' --lines 'a\nb'",
        training=image(args=["--név", "köszönöm 数", "--long", "x" * 120, "--tab", "\t", "--lines", "a\nb"]),
    ),
    Case(
        name="user-arguments-like-gcloud-flags",
        command=f"{WITH_IMAGE} -- --region mars -- --labels=x",
        training=image(args=["--region", "mars", "--", "--labels=x"]),
    ),
    Case(
        name="job-directory-with-the-jobs-name",
        command=f"{WITH_IMAGE} --job-dir gs://demo-jobs/jobs/mnist_1",
        training=image(jobDir="gs://demo-jobs/jobs/mnist_1"),
    ),
    Case(
        name="job-directory-of-all-runs",
        command=f"{WITH_IMAGE} --job-dir=gs://demo-jobs/model/",
        training=image(jobDir="gs://demo-jobs/model/"),
    ),
    Case(
        name="labels",
        command=f"{WITH_IMAGE} --labels team=vision,owner=alice --labels=stage=test",
        training=image(),
        labels={"team": "vision", "owner": "alice", "stage": "test"},
    ),
    Case(
        name="labels-with-a-delimiter-of-their-own",
        command=f"{WITH_IMAGE} --labels ^:^team=vision:owner=alice",
        training=image(),
        labels={"team": "vision", "owner": "alice"},
    ),
    Case(
        name="a-tier",
        command=f"{WITH_IMAGE} --scale-tier standard-1",
        training=image(scaleTier="STANDARD_1"),
    ),
    Case(
        name="a-gpu",
        command=f"{WITH_IMAGE} --scale-tier basic-gpu",
        training=image(scaleTier="BASIC_GPU"),
    ),
    Case(
        name="every-role",
        command=f"""{WITH_IMAGE} --scale-tier custom --use-chief-in-tf-config=True \\
            --master-machine-type n1-highmem-8 --master-accelerator count=2,type=nvidia-tesla-t4 \\
            --worker-count 3 --worker-machine-type n1-standard-8 --worker-image-uri gcr.io/demo/worker \\
            --worker-accelerator type=nvidia-tesla-p100,count=1 \\
            --parameter-server-count 2 --parameter-server-machine-type n1-standard-4 \\
            --parameter-server-image-uri gcr.io/demo/ps --parameter-server-accelerator type=nvidia-tesla-k80,count=4""",
        training={
            "region": "us-central1",
            "scaleTier": "CUSTOM",
            "useChiefInTfConfig": True,
            "masterType": "n1-highmem-8",
            "masterConfig": {"imageUri": IMAGE, "acceleratorConfig": types("NVIDIA_TESLA_T4", "2")},
            "workerCount": "3",
            "workerType": "n1-standard-8",
            "workerConfig": {
                "imageUri": "gcr.io/demo/worker",
                "acceleratorConfig": types("NVIDIA_TESLA_P100", "1"),
            },
            "parameterServerCount": "2",
            "parameterServerType": "n1-standard-4",
            "parameterServerConfig": {
                "imageUri": "gcr.io/demo/ps",
                "acceleratorConfig": types("NVIDIA_TESLA_K80", "4"),
            },
        },
    ),
    Case(
        name="a-machine-type-without-a-tier",
        command=f"{WITH_IMAGE} --master-machine-type n1-standard-8",
        training=image(masterType="n1-standard-8"),
        adds={"scaleTier": "CUSTOM"},
    ),
    Case(
        name="chief-no",
        command=f"{WITH_IMAGE} --use-chief-in-tf-config no",
        training=image(useChiefInTfConfig=False),
    ),
    Case(
        name="a-service-account-and-web-access",
        command=f"{WITH_IMAGE} --service-account trainer@demo.iam.gserviceaccount.com --enable-web-access",
        training=image(serviceAccount="trainer@demo.iam.gserviceaccount.com", enableWebAccess=True),
    ),
    Case(
        name="no-web-access",
        command=f"{WITH_IMAGE} --no-enable-web-access",
        training=image(),
    ),
    Case(
        name="a-key-by-its-parts",
        command=f"{WITH_IMAGE} --kms-key k --kms-keyring r --kms-location us-central1 --kms-project keys",
        training=image(
            encryptionConfig={"kmsKeyName": "projects/keys/locations/us-central1/keyRings/r/cryptoKeys/k"}
        ),
    ),
    Case(
        name="a-key-by-its-name",
        command=f"{WITH_IMAGE} --kms-key projects/keys/locations/us-central1/keyRings/r/cryptoKeys/k",
        training=image(
            encryptionConfig={"kmsKeyName": "projects/keys/locations/us-central1/keyRings/r/cryptoKeys/k"}
        ),
    ),
    Case(
        name="a-file-alone",
        command=f"{HEAD} --config config.yaml",
        config=CONFIG,
        training={
            **FILE_MACHINES,
            "region": "us-central1",
            "masterConfig": {
                "imageUri": "gcr.io/demo/from-file",
                "acceleratorConfig": types("NVIDIA_TESLA_K80", "1"),
            },
            "args": ["--from", "file"],
            "jobDir": "gs://from-file/jobs",
        },
        labels={"team": "vision", "from": "file"},
    ),
    Case(
        name="flags-over-a-file",
        command=f"{WITH_IMAGE} --config=config.yaml --worker-count 4 --worker-machine-type n1-standard-8 --labels a=b "
        "--job-dir gs://flags/jobs -- --from flags",
        config=CONFIG,
        training={
            **FILE_MACHINES,
            "region": "us-central1",
            "masterConfig": {"imageUri": IMAGE, "acceleratorConfig": types("NVIDIA_TESLA_K80", "1")},
            "workerCount": "4",
            "workerType": "n1-standard-8",
            "args": ["--from", "flags"],
            "jobDir": "gs://flags/jobs",
        },
        labels={"a": "b"},
    ),
    Case(
        name="no-arguments-over-those-of-a-file",
        command=f"{HEAD} --config config.yaml --",
        config=CONFIG,
        training={
            **FILE_MACHINES,
            "region": "us-central1",
            "masterConfig": {
                "imageUri": "gcr.io/demo/from-file",
                "acceleratorConfig": types("NVIDIA_TESLA_K80", "1"),
            },
            "jobDir": "gs://from-file/jobs",
        },
        labels={"team": "vision", "from": "file"},
    ),
    Case(
        name="a-search",
        command=f"{WITH_IMAGE} --config config.yaml",
        config=TUNING,
        training=image(
            scaleTier="STANDARD_1",
            hyperparameters={
                "goal": "MAXIMIZE",
                "hyperparameterMetricTag": "accuracy",
                "maxTrials": 4,
                "maxParallelTrials": 2,
                "params": [
                    {
                        "parameterName": "lr",
                        "type": "DOUBLE",
                        "minValue": 0.0001,
                        "maxValue": 0.1,
                        "scaleType": "UNIT_LOG_SCALE",
                    },
                    {
                        "parameterName": "optimizer",
                        "type": "CATEGORICAL",
                        "categoricalValues": ["adam", "sgd"],
                    },
                ],
            },
        ),
    ),
    Case(
        name="packages-in-a-bucket",
        command=f"{HEAD} --packages gs://code/trainer-1.tar.gz,gs://code/dep.whl --module-name trainer.task "
        "--runtime-version 2.11 --python-version 3.7 --job-dir gs://demo-jobs/x --staging-bucket gs://unused",
        training={
            "region": "us-central1",
            "packageUris": ["gs://code/trainer-1.tar.gz", "gs://code/dep.whl"],
            "pythonModule": "trainer.task",
            "runtimeVersion": "2.11",
            "pythonVersion": "3.7",
            "jobDir": "gs://demo-jobs/x",
        },
    ),
    Case(
        name="variables-of-the-same-text",
        command=f"""
export BUCKET=gs://demo-jobs
JOB_NAME="mnist_1"
IMAGE_URI={IMAGE}
gcloud ai-platform jobs submit training ${{JOB_NAME}} --region us-central1 \\
    --master-image-uri "$IMAGE_URI" --job-dir $BUCKET/$JOB_NAME -- --out "${{BUCKET}}/out"
""",
        training=image(jobDir="gs://demo-jobs/mnist_1", args=["--out", "gs://demo-jobs/out"]),
    ),
    Case(
        name="variables-of-the-shell",
        command=f'{WITH_IMAGE} --labels owner=$OWNER -- --data="${{DATA}}/x" --again $DATA',
        training=image(args=["--data=gs://data/x", "--again", "gs://data"]),
        labels={"owner": "alice"},
        environment={"OWNER": "alice", "DATA": "gs://data"},
    ),
    Case(
        name="commands-of-the-shell",
        command=f"{WITH_IMAGE} -- --day $(echo '20 26' | tr -d ' ') --tick `echo 7` > log.txt 2>&1 && echo \"done\"",
        training=image(args=["--day", "2026", "--tick", "7"]),
        params={"shell_1": "2026", "shell_2": "7"},
    ),
]
