"""The token of agents follows from the key, and opens for nothing else."""

from __future__ import annotations

import pytest

from training_service.access.agent_token import agent_token, is_agent
from training_service.access.signing_key import SigningKey


def test_each_key_has_one_token_of_256_bits() -> None:
    one, other = SigningKey.generate(), SigningKey.generate()

    assert agent_token(one) == agent_token(one)
    assert agent_token(one) != agent_token(other)
    assert len(agent_token(one)) == 43


@pytest.mark.parametrize("header", [None, "", "Bearer ", "Bearer tok", "token", "Bearer tökén"])
def test_only_the_whole_token_is_taken(header: str | None) -> None:
    assert is_agent("token", "Bearer token")
    assert not is_agent("token", header)
