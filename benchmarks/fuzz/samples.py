"""Good requests to service and object store: what the odd ones are made from."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.fuzz.requests import Sample, Vocabulary
from benchmarks.support.memory_service import IMAGE, TAG

_METHODS = frozenset({"get", "post", "put", "patch", "delete"})
_JOB_IDS = [f"fuzz_{number}" for number in range(40)]
_POLICY = {
    "bindings": [{"role": "roles/viewer", "members": ["user:a@example.com"]}],
    "etag": "",
    "version": 1,
}
_WORKER = {
    "imageUri": IMAGE,
    "containerCommand": ["python"],
    "containerArgs": ["-m", "task"],
    "tpuTfVersion": "",
}
_TRAINING = {
    "masterConfig": {**_WORKER, "diskConfig": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100}},
    "scaleTier": "CUSTOM",
    "masterType": "n1-standard-4",
    "args": ["--steps=1"],
    "region": "us-central1",
    "jobDir": "gs://bucket/job",
    "serviceAccount": "",
    "scheduling": {"maxRunningTime": "60s", "maxWaitTime": "60s", "priority": 1},
    "enableWebAccess": False,
}
_TUNING = {
    "goal": "MAXIMIZE",
    "hyperparameterMetricTag": TAG,
    "maxTrials": 2,
    "maxParallelTrials": 2,
    "params": [
        {
            "parameterName": "x",
            "type": "DOUBLE",
            "minValue": 0,
            "maxValue": 1,
            "scaleType": "UNIT_LINEAR_SCALE",
        }
    ],
}
_ENTRIES = {
    "resourceNames": ["projects/{project}"],
    "filter": 'resource.labels.job_id="{job_id}" AND severity>=INFO AND timestamp>="2026-01-31T12:00:00Z"',
    "orderBy": "timestamp desc",
    "pageSize": 5,
    "pageToken": "",
}
#: Bodies of the service's routes by the end of their path; the page of its API says which routes there are.
_BODIES: Mapping[tuple[str, str], Sequence[Any]] = {
    ("post", "/jobs"): (
        {"jobId": "{job_id}", "trainingInput": _TRAINING, "labels": {"team": "a"}},
        {
            "jobId": "{job_id}",
            "trainingInput": {
                **_TRAINING,
                "workerCount": "1",
                "workerType": "n1-standard-4",
                "workerConfig": _WORKER,
            },
        },
        {"jobId": "{job_id}", "trainingInput": {**_TRAINING, "hyperparameters": _TUNING}},
        {"jobId": "{job_id}", "predictionInput": {"dataFormat": "TEXT", "inputPaths": ["gs://bucket/in"]}},
    ),
    ("patch", "/jobs/{job_id}"): ({"labels": {"team": "b"}, "etag": ""},),
    ("post", ":cancel"): ({},),
    ("post", ":setIamPolicy"): ({"policy": _POLICY, "updateMask": "bindings,etag"},),
    ("put", "/iam"): ({**_POLICY, "kind": "storage#policy", "resourceId": "x"},),
    ("post", ":testIamPermissions"): ({"permissions": ["ml.jobs.get", "ml.jobs.cancel"]},),
    ("post", ":getIamPolicy"): ({"options": {"requestedPolicyVersion": 1}},),
    ("post", "/entries:list"): (_ENTRIES, {**_ENTRIES, "filter": 'textPayload:"hello" OR NOT labels.team=a'}),
    ("post", "/jobs:search"): ({"filter": "state=RUNNING", "pageSize": 5, "jobIds": ["{job_id}"]},),
    ("post", "/objects:checkAccess"): (
        {"address": "127.0.0.1", "permission": "storage.objects.get", "bucket": "{bucket}", "object": "a"},
    ),
    ("post", "/registry/token"): (
        b"grant_type=password&service=registry&scope=repository:p/r:pull&username=u",
    ),
}


def service_samples(page: Mapping[str, Any]) -> list[Sample]:
    """Return the requests of each operation of the service's OpenAPI ``page``."""
    found: list[Sample] = []
    for path, operations in page["paths"].items():
        for method in _METHODS & operations.keys():
            bodies: Sequence[Any] = next(
                (bodies for (verb, end), bodies in _BODIES.items() if verb == method and path.endswith(end)),
                ({},) if "requestBody" in operations[method] else (None,),
            )
            found += [Sample(method.upper(), path, body=body) for body in bodies]
    return sorted(found, key=str)


def service_words(page: Mapping[str, Any]) -> Vocabulary:
    """Return what the names in the service's paths stand for, and the parameters that it takes."""
    queries = {
        parameter["name"]
        for operations in page["paths"].values()
        for operation in operations.values()
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query"
    }
    names = {
        "project": ["demo-project", "demo-project", "other-project"],
        "job_id": _JOB_IDS,
        "location": ["us-central1", "local"],
        "repository": ["images"],
        "bucket": ["bucket"],
    }
    return Vocabulary(names, sorted(queries))


_B, _O = "/storage/v1/b/{bucket}", "/storage/v1/b/{bucket}/o/{object}"
_TO = "/b/{bucket}/o/{object}"
_UPLOAD = "/upload/storage/v1/b/{bucket}/o"
_MEDIA = b"some bytes of an object\n" * 20
_MEDIA_MD5 = base64.b64encode(hashlib.md5(_MEDIA, usedforsecurity=False).digest())
_RELATED = (
    b'--x\r\nContent-Type: application/json\r\n\r\n{"name":"multi","metadata":{"a":"b"}}\r\n'
    b"--x\r\nContent-Type: text/plain\r\n\r\nthe bytes\r\n--x--"
)
_COMPOSED = {
    "sourceObjects": [{"name": "{object}"}, {"name": "a"}],
    "destination": {"contentType": "text/plain"},
}
_FIELDS = {"metadata": {"a": "b"}, "contentType": "text/html", "cacheControl": "no-store", "customTime": None}
_PARTS = b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>%s</ETag></Part></CompleteMultipartUpload>"
STORE_SAMPLES = (
    Sample("GET", "/storage/v1/b", (("project", "p"), ("prefix", "b"))),
    Sample("POST", "/storage/v1/b", (("project", "p"),), {"name": "{bucket}", "labels": {"a": "b"}}),
    Sample("GET", _B),
    Sample("PATCH", _B, body={"labels": {"a": "b"}, "versioning": {"enabled": True}, "lifecycle": None}),
    Sample("DELETE", "/storage/v1/b/passing"),
    Sample("POST", "/storage/v1/b", (("project", "p"),), {"name": "passing"}),
    Sample("GET", f"{_B}/storageLayout"),
    Sample("GET", f"{_B}/iam"),
    Sample(
        "GET",
        f"{_B}/o",
        (("prefix", "a"), ("delimiter", "/"), ("maxResults", "3"), ("matchGlob", "**/*.txt")),
    ),
    Sample("GET", _O),
    Sample("GET", _O, (("alt", "media"),), headers=(("Range", b"bytes=0-9"),)),
    Sample("GET", f"/download{_O}", (("alt", "media"), ("response-content-disposition", "inline"))),
    Sample("PATCH", _O, body=_FIELDS),
    Sample("PUT", _O, body=_FIELDS),
    Sample("DELETE", _O, (("ifGenerationMatch", "1"),)),
    Sample("POST", f"{_O}/copyTo{_TO}", body=_FIELDS),
    Sample("POST", f"{_O}/rewriteTo{_TO}", (("rewriteToken", "x"),), _FIELDS),
    Sample("POST", f"{_B}/o/{{object}}/moveTo/o/a"),
    Sample("POST", f"{_O}/compose", body=_COMPOSED),
    Sample("POST", _UPLOAD, (("uploadType", "media"), ("name", "{object}")), _MEDIA),
    Sample(
        "POST",
        _UPLOAD,
        (("uploadType", "multipart"), ("fields", "name,size")),
        _RELATED,
        (("Content-Type", b"multipart/related; boundary=x"),),
    ),
    Sample("POST", _UPLOAD, (("uploadType", "resumable"), ("name", "{object}")), {"metadata": {"a": "b"}}),
    Sample("PUT", _UPLOAD, (("upload_id", "{upload}"),), _MEDIA, (("Content-Range", b"bytes 0-479/*"),)),
    Sample("PUT", _UPLOAD, (("upload_id", "{upload}"),), _MEDIA, (("Content-Range", b"bytes 0-479/480"),)),
    Sample("PUT", _UPLOAD, (("upload_id", "{upload}"),), None, (("Content-Range", b"bytes */*"),)),
    Sample("DELETE", _UPLOAD, (("upload_id", "{upload}"),)),
    Sample("POST", "/batch/storage/v1", body=_RELATED),
    Sample("GET", f"{_B}/acl"),
    Sample("GET", "/{bucket}/{object}"),
    Sample("PUT", "/{bucket}/{object}", body=_MEDIA),
    Sample("DELETE", "/{bucket}/{object}"),
    Sample("POST", "/{bucket}/{object}", (("uploads", ""),)),
    Sample("PUT", "/{bucket}/{object}", (("uploadId", "{parts}"), ("partNumber", "1")), _MEDIA),
    Sample("POST", "/{bucket}/{object}", (("uploadId", "{parts}"),), _PARTS % b"AAAAAAAAAAAAAAAAAAAAAA=="),
    Sample("POST", "/{bucket}/{object}", (("uploadId", "{parts}"),), _PARTS % _MEDIA_MD5),
    Sample("GET", "/health"),
    Sample("GET", "/metrics"),
)
_STORE_QUERIES = (
    *("alt", "fields", "generation", "ifGenerationMatch", "ifGenerationNotMatch", "ifMetagenerationMatch"),
    *("ifMetagenerationNotMatch", "ifSourceGenerationMatch", "sourceGeneration", "projection", "userProject"),
    *("prefix", "delimiter", "startOffset", "endOffset", "pageToken", "maxResults", "matchGlob", "versions"),
    *(
        "includeTrailingDelimiter",
        "includeFoldersAsPrefixes",
        "softDeleted",
        "name",
        "uploadType",
        "upload_id",
    ),
    *("uploadId", "partNumber", "uploads", "contentEncoding", "predefinedAcl", "kmsKeyName", "rewriteToken"),
    *(
        "maxBytesRewrittenPerCall",
        "response-content-disposition",
        "response-content-type",
        "enableObjectRetention",
    ),
)


def store_words() -> Vocabulary:
    """Return what the names in the store's paths stand for, and the parameters that it takes."""
    names = {
        "bucket": ["fuzz-bucket", "fuzz-bucket", "other-bucket", "passing"],
        "object": [
            "a",
            "b/c.txt",
            "b/../c",
            "deep/" * 30,
            "ü.txt",
            "a b",
            *(f"o{number}" for number in range(20)),
        ],
        "upload": ["none"],
        "parts": ["none"],
    }
    return Vocabulary(names, _STORE_QUERIES)
