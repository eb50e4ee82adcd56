"""The messages of Vertex AI: those of Google's library, in a pool of their own."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

from docs.tools.vertex_messages import TARGET, message_set
from training_service.api.vertex_v1.messages import OPERATION, message_class, message_pool


def test_the_descriptors_are_those_of_the_installed_library() -> None:
    # In the test environment of the newest releases, it is the newest one of PyPI.
    of = f"google-cloud-aiplatform {version('google-cloud-aiplatform')}"
    way_out = "run `make docs`, after `make lock` if requirements.txt has an older one"
    assert TARGET.read_bytes() == message_set(), f"{TARGET.name} is not what {of} has; {way_out}"


def test_the_pool_is_private_so_that_both_fit_into_one_process() -> None:
    from google.cloud.aiplatform_v1 import CustomJob

    theirs = CustomJob.pb().DESCRIPTOR
    ours = message_class("CustomJob").DESCRIPTOR

    assert ours.full_name == theirs.full_name
    assert [field.name for field in ours.fields] == [field.name for field in theirs.fields]
    assert ours.file.pool is message_pool() is not theirs.file.pool


def test_a_message_of_ours_is_read_by_the_library() -> None:
    from google.cloud.aiplatform_v1 import CustomJob

    sent = message_class("CustomJob")(display_name="job", labels={"team": "a"})

    assert CustomJob.deserialize(sent.SerializeToString()).labels == {"team": "a"}


def test_operations_are_among_the_messages() -> None:
    assert message_class(OPERATION)(name="o", done=True).done


def test_the_service_does_not_import_the_library() -> None:
    program = (
        "import sys, training_service.api.vertex_v1.canonical as c; c.canonical('CustomJob', {});"
        "sys.exit(any(name.startswith('google.cloud.aiplatform') for name in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
