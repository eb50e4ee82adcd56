"""The model, the order in which replicas take rows, and how good it is."""

from __future__ import annotations

from collections.abc import Iterator

import order
import torch
from data import DIGITS, PIXELS, Split
from torch import nn

#: Of one replica; a step takes so many from each.
BATCH_ROWS = 16


def make_network(*, hidden_units: int, seed: int) -> nn.Module:
    """
    Return an untrained network, 64 pixels to 10 scores.

    The same arguments lead to the same weights.
    """
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(PIXELS, hidden_units), nn.ReLU(), nn.Linear(hidden_units, len(DIGITS)))


def batches(rows: Split, *, world_size: int, seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """
    Yield the batches of one pass over the training rows, in an order that ``seed`` decides.

    Rows that do not fill a batch are left out.

    Each is the batch of all replicas together: ``world_size * BATCH_ROWS`` images and labels.
    """
    for batch in order.batches(len(rows.train_labels), size=world_size * BATCH_ROWS, seed=seed):
        images = torch.from_numpy(rows.train_images[batch]).float()
        yield images, torch.from_numpy(rows.train_labels[batch])


def loss_of(network: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy."""
    return nn.functional.cross_entropy(network(images), labels)


@torch.no_grad()
def evaluate(network: nn.Module, rows: Split) -> tuple[float, float]:
    """Return accuracy (0 to 1) and mean cross-entropy on the held-out rows."""
    images = torch.from_numpy(rows.test_images).float()
    labels = torch.from_numpy(rows.test_labels)
    accuracy = (network(images).argmax(dim=1) == labels).float().mean()
    return float(accuracy), float(loss_of(network, images, labels))
