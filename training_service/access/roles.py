"""
Which permissions a role has, as far as this service asks for them. Pure data.

Sources: [roles] docs.cloud.google.com/iam/docs/roles-permissions (pages ml, logging, storage,
artifactregistry, iam, resourcemanager, read 2026-11); [unverified]: recalled, no page says so in this form. A
role that is not here, a custom role among them, grants nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

JOB_CANCEL, JOB_CREATE, JOB_GET = "ml.jobs.cancel", "ml.jobs.create", "ml.jobs.get"
JOB_LIST, JOB_UPDATE = "ml.jobs.list", "ml.jobs.update"
JOB_GET_POLICY, JOB_SET_POLICY = "ml.jobs.getIamPolicy", "ml.jobs.setIamPolicy"
#: Of Vertex AI. Jobs there have no policies of their own: the project's decides.
CUSTOM_JOB_CREATE, CUSTOM_JOB_GET = "aiplatform.customJobs.create", "aiplatform.customJobs.get"
CUSTOM_JOB_LIST, CUSTOM_JOB_CANCEL = "aiplatform.customJobs.list", "aiplatform.customJobs.cancel"
CUSTOM_JOB_DELETE = "aiplatform.customJobs.delete"
PIPELINE_CREATE, PIPELINE_GET, PIPELINE_LIST, PIPELINE_CANCEL, PIPELINE_DELETE = (
    f"aiplatform.trainingPipelines.{verb}" for verb in ("create", "get", "list", "cancel", "delete")
)
MODEL_GET, MODEL_LIST, MODEL_DELETE, MODEL_UPLOAD = (
    f"aiplatform.models.{verb}" for verb in ("get", "list", "delete", "upload")
)
TUNING_JOB_CREATE, TUNING_JOB_GET, TUNING_JOB_LIST, TUNING_JOB_CANCEL, TUNING_JOB_DELETE = (
    f"aiplatform.hyperparameterTuningJobs.{verb}" for verb in ("create", "get", "list", "cancel", "delete")
)
OPERATION_LIST = "aiplatform.operations.list"
VERTEX_LOCATION_GET, VERTEX_LOCATION_LIST = "aiplatform.locations.get", "aiplatform.locations.list"
#: Who may write policies may let in everybody else.
POLICY_WRITES = frozenset(
    {
        JOB_SET_POLICY,
        "artifactregistry.repositories.setIamPolicy",
        "resourcemanager.projects.setIamPolicy",
        "storage.buckets.setIamPolicy",
    }
)
#: To name a secret in a job: its trainer sees the value [roles: secretmanager].
SECRET_ACCESS = "secretmanager.versions.access"  # noqa: S105  # a permission
LOG_LIST = "logging.logEntries.list"
ACT_AS = "iam.serviceAccounts.actAs"
#: Reading an image: from the local registry and Artifact Registry, and from a bucket of Container Registry.
DOWNLOAD, UPLOAD, DELETE = (
    f"artifactregistry.repositories.{verb}Artifacts" for verb in ("download", "upload", "delete")
)
OBJECT_GET, OBJECT_LIST = "storage.objects.get", "storage.objects.list"
OBJECT_DELETE = "storage.objects.delete"

_LOCATIONS = frozenset({"ml.locations.get", "ml.locations.list"})
_PROJECT = frozenset({"resourcemanager.projects.get"})
_JOBS = frozenset({JOB_CANCEL, JOB_CREATE, JOB_GET, JOB_LIST, JOB_UPDATE, JOB_GET_POLICY, JOB_SET_POLICY})
_ML_READ = _LOCATIONS | _PROJECT | {JOB_GET, JOB_LIST, "ml.projects.getConfig"}
_ML_DEVELOP = _ML_READ | {JOB_CREATE, JOB_GET_POLICY}
_ML_ALL = _ML_READ | _JOBS

_VERTEX_READ = _PROJECT | {
    *(CUSTOM_JOB_GET, CUSTOM_JOB_LIST, OPERATION_LIST),
    *(TUNING_JOB_GET, TUNING_JOB_LIST),
    *(VERTEX_LOCATION_GET, VERTEX_LOCATION_LIST),
    *(PIPELINE_GET, PIPELINE_LIST, MODEL_GET, MODEL_LIST),
}
_VERTEX_WRITE = frozenset(
    {
        *(CUSTOM_JOB_CREATE, CUSTOM_JOB_CANCEL, CUSTOM_JOB_DELETE),
        *(TUNING_JOB_CREATE, TUNING_JOB_CANCEL, TUNING_JOB_DELETE),
        *(PIPELINE_CREATE, PIPELINE_CANCEL, PIPELINE_DELETE, MODEL_DELETE, MODEL_UPLOAD),
    }
)

_OBJECT_READ = frozenset({OBJECT_GET, OBJECT_LIST})
_OBJECT_WRITE = frozenset({"storage.objects.create", OBJECT_DELETE, "storage.objects.update"})
_BUCKET_READ = frozenset({"storage.buckets.get", "storage.buckets.list"})
_BUCKET_POLICY = frozenset({"storage.buckets.getIamPolicy", "storage.buckets.setIamPolicy"})
_BUCKET_WRITE = frozenset({"storage.buckets.create", "storage.buckets.delete", "storage.buckets.update"})
_STORAGE_ALL = _OBJECT_READ | _OBJECT_WRITE | _BUCKET_READ | _BUCKET_WRITE | _BUCKET_POLICY

_REPOSITORY_READ = frozenset(
    {DOWNLOAD, "artifactregistry.repositories.get", "artifactregistry.repositories.list"}
)
_REPOSITORY_POLICY = frozenset(
    {"artifactregistry.repositories.getIamPolicy", "artifactregistry.repositories.setIamPolicy"}
)
_REPOSITORY_ALL = _REPOSITORY_READ | _REPOSITORY_POLICY | {UPLOAD, DELETE}

_PROJECT_POLICY = frozenset(
    {"resourcemanager.projects.getIamPolicy", "resourcemanager.projects.setIamPolicy"}
)
_VIEW = (
    _ML_READ
    | _VERTEX_READ
    | _REPOSITORY_READ
    | _BUCKET_READ
    | {LOG_LIST, "resourcemanager.projects.getIamPolicy"}
)
_EDIT = _VIEW | _VERTEX_WRITE | (_ML_ALL - {JOB_SET_POLICY}) | {UPLOAD, DELETE, ACT_AS}

ROLES: Mapping[str, frozenset[str]] = {
    # Basic roles [unverified in detail]: editors change everything but policies; nobody but owners sets
    # these.
    "roles/viewer": _VIEW,
    "roles/editor": _EDIT,
    "roles/owner": _EDIT | _JOBS | _STORAGE_ALL | _REPOSITORY_ALL | _PROJECT_POLICY | {SECRET_ACCESS},
    # Ours: what Airflow's operators, sensors and dashboard ask for. Those of Google's that may cancel the
    # jobs of others also change them, and delete images or write policies.
    "roles/training.airflow": frozenset(
        {
            *(JOB_CREATE, JOB_GET, JOB_LIST, JOB_CANCEL, "ml.projects.getConfig"),
            *(LOG_LIST, ACT_AS, DOWNLOAD, UPLOAD),
        }
    ),
    # AI Platform [roles].
    "roles/ml.admin": _ML_ALL,
    "roles/ml.developer": _ML_DEVELOP,
    "roles/ml.viewer": _ML_READ,
    "roles/ml.jobOwner": _JOBS,  # "automatically granted to the user who creates the job"
    # "log writer, Cloud Storage admin, Artifact Registry Reader ..." [roles]; of these, what this service
    # asks for.
    "roles/ml.serviceAgent": _STORAGE_ALL | _REPOSITORY_READ | {"resourcemanager.projects.get"},
    # Vertex AI [roles; unverified: that operations and locations are in each].
    "roles/aiplatform.admin": _VERTEX_READ | _VERTEX_WRITE,
    "roles/aiplatform.user": _VERTEX_READ | _VERTEX_WRITE,
    "roles/aiplatform.viewer": _VERTEX_READ,
    # Of what [roles] list, what this service asks for, but none of the API's own permissions: a trainer that
    # starts jobs has a serviceAccount of its own.
    "roles/aiplatform.customCodeServiceAgent": (
        _OBJECT_READ
        | _OBJECT_WRITE
        | _BUCKET_READ
        | _REPOSITORY_READ
        | _PROJECT
        | {"storage.buckets.create", "storage.buckets.delete"}
    ),
    # Logs, projects, service accounts [roles].
    "roles/logging.viewer": frozenset({LOG_LIST}),
    "roles/iam.serviceAccountUser": frozenset({ACT_AS}),
    "roles/iam.securityAdmin": (
        _PROJECT_POLICY | _BUCKET_POLICY | _REPOSITORY_POLICY | {JOB_GET_POLICY, JOB_SET_POLICY}
    ),
    "roles/resourcemanager.projectIamAdmin": _PROJECT | _PROJECT_POLICY,
    "roles/secretmanager.secretAccessor": frozenset({SECRET_ACCESS}),
    # Cloud Storage [roles].
    "roles/storage.objectViewer": _OBJECT_READ,
    "roles/storage.objectCreator": frozenset({"storage.objects.create"}),
    "roles/storage.objectAdmin": _OBJECT_READ | _OBJECT_WRITE,
    "roles/storage.admin": _STORAGE_ALL,
    # Artifact Registry [roles].
    "roles/artifactregistry.reader": _REPOSITORY_READ,
    "roles/artifactregistry.writer": _REPOSITORY_READ | {UPLOAD},
    "roles/artifactregistry.repoAdmin": _REPOSITORY_READ | {UPLOAD, DELETE},
    "roles/artifactregistry.admin": _REPOSITORY_ALL,
}
