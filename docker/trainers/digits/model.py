"""The model: a network with one hidden layer, trained epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from data import DIGITS, Split
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, log_loss
from sklearn.neural_network import MLPClassifier

#: Small batches: 1,437 rows make 45 steps an epoch, so that 30 epochs are enough.
BATCH_ROWS = 32
ACTIVATIONS = ("relu", "tanh", "logistic")


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """
    The result of one pass over the training rows.

    ``number`` counts from 1; ``test_*`` are on held-out rows.
    """

    number: int
    train_loss: float
    test_accuracy: float
    test_loss: float


def make_model(
    *, hidden_units: int, learning_rate: float, activation: str, train_rows: int, seed: int
) -> MLPClassifier:
    """Return an untrained model; the same arguments lead to the same training."""
    return MLPClassifier(
        hidden_layer_sizes=(hidden_units,),
        learning_rate_init=learning_rate,
        activation=activation,
        batch_size=min(BATCH_ROWS, train_rows),
        random_state=seed,
    )


def train(model: MLPClassifier, rows: Split, *, epochs: int) -> Iterator[Epoch]:
    """Train ``model`` in place; yield after every epoch."""
    for number in range(1, epochs + 1):
        model.partial_fit(rows.train_images, rows.train_labels, classes=DIGITS)
        accuracy, loss = evaluate(model, rows.test_images, rows.test_labels)
        yield Epoch(number=number, train_loss=float(model.loss_), test_accuracy=accuracy, test_loss=loss)


def evaluate(
    model: MLPClassifier, images: NDArray[np.float64], labels: NDArray[np.int64]
) -> tuple[float, float]:
    """Return accuracy (0 to 1) and mean cross-entropy of ``model`` on ``images``; pure."""
    chances = model.predict_proba(images)
    accuracy = accuracy_score(labels, DIGITS[chances.argmax(axis=1)])
    return float(accuracy), float(log_loss(labels, chances, labels=DIGITS))
