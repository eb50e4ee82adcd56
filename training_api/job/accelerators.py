"""Accelerators by Google's names, whatever dialect a request speaks. Pure."""

from __future__ import annotations

from enum import StrEnum


class Accelerator(StrEnum):
    """
    A kind of GPU that a replica may have.

    Each dialect has a type of its own for what its requests may name: that may be fewer, or TPUs too, which
    no replica here has.
    """

    NVIDIA_TESLA_K80 = "NVIDIA_TESLA_K80"
    NVIDIA_TESLA_P100 = "NVIDIA_TESLA_P100"
    NVIDIA_TESLA_V100 = "NVIDIA_TESLA_V100"
    NVIDIA_TESLA_P4 = "NVIDIA_TESLA_P4"
    NVIDIA_TESLA_T4 = "NVIDIA_TESLA_T4"
    NVIDIA_TESLA_A100 = "NVIDIA_TESLA_A100"
    NVIDIA_A100_80GB = "NVIDIA_A100_80GB"
    NVIDIA_L4 = "NVIDIA_L4"
    NVIDIA_H100_80GB = "NVIDIA_H100_80GB"
    NVIDIA_H100_MEGA_80GB = "NVIDIA_H100_MEGA_80GB"
    NVIDIA_H200_141GB = "NVIDIA_H200_141GB"
    NVIDIA_B200 = "NVIDIA_B200"
    NVIDIA_GB200 = "NVIDIA_GB200"
    NVIDIA_RTX_PRO_6000 = "NVIDIA_RTX_PRO_6000"
