"""
Argparse types of a trainer's arguments.

Their errors name the rule and the value.
"""

from __future__ import annotations

import argparse


def count(text: str) -> int:
    """
    Return a whole number of at least 1.

    A tuning service may pass on the integer 30 as ``30.0``.
    """
    value = _number(text)
    if not value.is_integer() or value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number >= 1, got {text!r}")
    return int(value)


def seed(text: str) -> int:
    """Return a seed of 32 bits."""
    value = _number(text)
    if not value.is_integer() or not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 4294967295, got {text!r}")
    return int(value)


def rate(text: str) -> float:
    """Return a number above 0 and at most 1."""
    value = _number(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 1, got {text!r}")
    return value


def fraction(text: str) -> float:
    """Return a number between 0 and 1, both excluded."""
    value = _number(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must lie between 0 and 1, got {text!r}")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None
