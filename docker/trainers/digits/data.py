"""
The data: images of 8 x 8 pixels, each 0 to 16, and the digit that each shows.

A data set is a CSV file with 65 columns (64 pixels row by row, then the digit; a header line is skipped), or
an NPZ file with the arrays ``data`` (N x 64) and ``target`` (N).
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from zipfile import BadZipFile

import numpy as np
import storage
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

PIXELS = 64
BRIGHTEST = 16.0
DIGITS = np.arange(10)
#: Name of the rule of ``is_held_out``; another way to choose rows needs another name.
BY_CONTENT = "content"


class DataError(Exception):
    """The data set cannot be used; the message says what is wrong with it."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """
    Rows to learn from, and rows held back.

    Images are N x 64 of float64 in [0, 1]; labels are N of int64 in [0, 9].
    """

    train_images: NDArray[np.float64]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.float64]
    test_labels: NDArray[np.int64]


def load(location: str | None) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """
    Return images (N x 64, scaled to [0, 1]) and labels (N).

    :param location: a local path or ``gs://BUCKET/NAME``; None is scikit-learn's own copy of 1,797 images.
    :raises storage.StorageError: the file cannot be read.
    :raises DataError: it is not such a data set.
    """
    if location is None:
        digits = load_digits()
        return checked(digits.data, digits.target)
    contents = storage.read(location)
    try:
        return (
            parse_npz(contents)
            if storage.split_generation(location)[0].endswith(".npz")
            else parse_csv(contents)
        )
    except DataError as error:
        raise DataError(f"{location}: {error}") from error


def load_all(
    locations: Sequence[str] | None,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """
    Return the images and labels of several files as one data set.

    It raises what ``load`` raises.
    """
    if not locations:
        return load(None)
    parts = [load(location) for location in locations]
    return np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])


def parse_csv(contents: bytes) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the images and labels of a CSV file; pure. Raises ``DataError``."""
    if not contents.strip():
        raise DataError("the file is empty")
    first_line = contents.split(b"\n", 1)[0]
    has_header = any(character.isalpha() for character in first_line.decode(errors="replace"))
    try:
        rows = np.loadtxt(io.BytesIO(contents), delimiter=",", skiprows=int(has_header), ndmin=2)
    except ValueError as error:
        raise DataError(f"not a CSV file of numbers: {error}") from error
    if rows.shape[1] != PIXELS + 1:
        raise DataError(f"a row must have {PIXELS} pixels and a digit, got {rows.shape[1]} columns")
    return checked(rows[:, :PIXELS], rows[:, PIXELS])


def parse_npz(contents: bytes) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the images and labels of an NPZ file; pure. Raises ``DataError``."""
    try:
        with np.load(io.BytesIO(contents), allow_pickle=False) as arrays:
            return checked(arrays["data"], arrays["target"])
    except (BadZipFile, ValueError, KeyError, EOFError) as error:
        raise DataError(f"not an NPZ file with 'data' and 'target': {error}") from error


def checked(
    pixels: NDArray[np.float64], labels: NDArray[np.float64] | NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return ``pixels`` scaled to [0, 1] and ``labels`` as integers; pure. Raises ``DataError``."""
    if pixels.ndim != 2 or pixels.shape[1] != PIXELS or pixels.shape[0] != labels.shape[0]:
        raise DataError(f"expected N x {PIXELS} pixels and N labels, got {pixels.shape} and {labels.shape}")
    if not np.isin(labels, DIGITS).all():
        raise DataError("every label must be a digit from 0 to 9")
    if not ((pixels >= 0) & (pixels <= BRIGHTEST)).all():
        raise DataError(f"every pixel must lie between 0 and {BRIGHTEST:g}")
    return pixels.astype(np.float64) / BRIGHTEST, labels.astype(np.int64)


def split(
    images: NDArray[np.float64], labels: NDArray[np.int64], *, test_fraction: float, seed: int
) -> Split:
    """
    Return the rows shuffled by ``seed`` and split. Pure.

    Each digit has the same proportion on both sides.

    :raises DataError: too few rows for that.
    """
    try:
        train_images, test_images, train_labels, test_labels = train_test_split(
            images, labels, test_size=test_fraction, random_state=seed, stratify=labels
        )
    except ValueError as error:
        raise DataError(f"{len(labels)} rows cannot be split by {test_fraction}: {error}") from error
    return Split(
        train_images=train_images,
        train_labels=train_labels,
        test_images=test_images,
        test_labels=test_labels,
    )


def is_held_out(images: NDArray[np.float64], fraction: float) -> NDArray[np.bool_]:
    """
    Return which rows are held out, by their own content. Pure.

    The same image is held out in every version of the data.

    Who trains on the others never sees these, however the data grow; a copy of an image is on the same side.

    :param images: N x 64.
    :param fraction: share of the rows, on average.
    """
    limit = int(fraction * 2**64)
    digests = (hashlib.sha256(image.tobytes()).digest() for image in np.ascontiguousarray(images))
    return np.array([int.from_bytes(digest[:8], "big") < limit for digest in digests], dtype=bool)


def hold_out(rule: str, fraction: float, seed: int | None = None) -> dict[str, str | float | None]:
    """Return how rows were held out: ``hold_out`` of metrics and evaluation. Pure."""
    return {"rule": rule, "fraction": fraction, "seed": seed}


def split_by_content(
    images: NDArray[np.float64], labels: NDArray[np.int64], *, test_fraction: float
) -> Split:
    """
    Return the rows split by ``is_held_out``, in their order; pure.

    :raises DataError: one side is empty.
    """
    test = is_held_out(images, test_fraction)
    if test.all() or not test.any():
        raise DataError(f"{len(labels)} rows cannot be split by {test_fraction}: one side is empty")
    return Split(
        train_images=images[~test],
        train_labels=labels[~test],
        test_images=images[test],
        test_labels=labels[test],
    )
