"""Which objects a command names as files."""

from __future__ import annotations

import pytest

from training_api.job.packages.bucket_paths import named_objects, names_no_object

#: As the SDK's ``CustomJob.from_local_script`` writes it for an image that is not prebuilt.
OF_THE_SDK = (
    "pip install --upgrade pip && pip3 install -q --user "
    "/gcs/bkt/aiplatform-2026-11-23-19:38:09.123-aiplatform_custom_trainer_script-0.1.tar.gz && "
    "python3 -m aiplatform_custom_trainer_script.task --data /gcs/bkt/data.csv"
)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            ["sh", "-c", OF_THE_SDK],
            (
                "bkt/aiplatform-2026-11-23-19:38:09.123-aiplatform_custom_trainer_script-0.1.tar.gz",
                "bkt/data.csv",
            ),
        ),
        (["--data=/gcs/bkt/a/b.csv", "/gcs/bkt/a/b.csv"], ("bkt/a/b.csv",)),
        (["/gcs/bkt/a,/gcs/other/b", "'/gcs/bkt/c'"], ("bkt/a", "other/b", "bkt/c")),
        (["(cat /gcs/bkt/a); cat </gcs/bkt/b"], ("bkt/a", "bkt/b")),
        (["gs://bkt/a", "/data/gcs/bkt/a", "/gcs-fuse/bkt/a", "x/gcs/bkt/a"], ()),
        (["/gcs", "/gcs/", "/gcs/bkt", "/gcs/bkt/", "/gcs/bkt/folder/"], ()),
        (["/gcs/bkt/../../etc/passwd", "/gcs/bkt/a/./b", "/gcs/bkt/a/.."], ()),
        (["/gcs/bkt/.hidden/..a/b..", "/gcs/bkt/..."], ("bkt/.hidden/..a/b..", "bkt/...")),
    ],
)
def test_the_objects_that_words_name(words: list[str], named: tuple[str, ...]) -> None:
    assert named_objects("/gcs", words) == named


@pytest.mark.parametrize(
    "word",
    [
        *("/gcs", "/gcs/", "ls /gcs/bkt", "--out=/gcs/bkt/out/", "cat /gcs/bkt/a; ls /gcs/bkt/*"),
        *("/gcs/bkt/../../etc/passwd", "cat /gcs/bkt/./a", "/gcs/bkt/a/.."),
    ],
)
def test_a_folder_is_no_object(word: str) -> None:
    assert names_no_object("/gcs", word)


@pytest.mark.parametrize("word", ["", "/gcs/bkt/a", OF_THE_SDK, "/gcsfuse", "gs://gcs/bkt/"])
def test_other_words_name_objects_or_nothing(word: str) -> None:
    assert not names_no_object("/gcs", word)
