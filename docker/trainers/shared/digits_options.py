"""The options that the trainers of handwritten digits share."""

from __future__ import annotations

import argparse

import arguments
import results


def digits_parser(program: str, *, learning_rate: float) -> argparse.ArgumentParser:
    """
    Return the parser of a trainer's options.

    On a wrong one it prints what is wrong and exits with 2.

    :param program: the name in the usage line.
    :param learning_rate: the default.
    """
    parser = argparse.ArgumentParser(
        prog=program, description="Train a classifier of handwritten digits.", allow_abbrev=False
    )
    results.add_job_dir(parser)
    parser.add_argument("--epochs", type=arguments.count, default=10)
    parser.add_argument("--learning-rate", type=arguments.rate, default=learning_rate)
    parser.add_argument("--hidden-units", type=arguments.count, default=64)
    parser.add_argument("--seed", type=arguments.seed, default=0)
    return parser
