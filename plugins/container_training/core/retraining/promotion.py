"""The old home of what decides a promotion: DAGs of version 0.1 import from here. It is in ``work/models/promotion.py``."""

from __future__ import annotations

from container_training.work.models.promotion import Decision, PromotionRule

__all__ = ["Decision", "PromotionRule"]
