"""
Shows that replicas with a part of a batch each learn what one process learns.

That process sees the whole batch.
"""

from __future__ import annotations

import copy

import torch
from model import loss_of
from replica import Replica
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel


def compare_gradients(
    network: DistributedDataParallel, replica: Replica, images: torch.Tensor, labels: torch.Tensor
) -> dict[str, float]:
    """
    Return the differences between gradients and those of one process on the whole batch.

    Each is the largest over all replicas and parameters.

    ``gradient_difference`` is that of the gradient which all replicas share after their exchange;
    ``gradient_difference_unshared`` that of the part which a replica computes alone, so that the first is not
    small for want of difference. Every replica must call this, with the same batch.
    """
    own = slice(replica.rank, None, replica.world_size)
    whole = _gradient(copy.deepcopy(network.module), images, labels)
    with network.no_sync():
        unshared = _gradient(network, images[own], labels[own])
    shared = _gradient(network, images[own], labels[own])
    differences = torch.tensor([_distance(shared, whole), _distance(unshared, whole)], dtype=torch.float64)
    distributed.all_reduce(differences, op=distributed.ReduceOp.MAX)
    return dict(
        zip(("gradient_difference", "gradient_difference_unshared"), differences.tolist(), strict=True)
    )


def _gradient(network: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    network.zero_grad()
    loss_of(network, images, labels).backward()
    return [parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None]


def _distance(left: list[torch.Tensor], right: list[torch.Tensor]) -> float:
    return max(float((one - other).abs().max()) for one, other in zip(left, right, strict=True))
