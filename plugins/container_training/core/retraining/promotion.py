"""Old path of ``work/models/promotion.py``, for DAGs of version 0.1."""

from __future__ import annotations

from container_training.work.models.promotion import Decision, PromotionRule

__all__ = ["Decision", "PromotionRule"]
