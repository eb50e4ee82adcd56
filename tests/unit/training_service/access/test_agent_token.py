"""The tokens of agents follow from the key and the machine, and open for nothing else."""

from __future__ import annotations

import pytest

from training_service.access.agent_token import AgentTokens
from training_service.access.signing_key import SigningKey

KEY = SigningKey.generate()
TOKENS = AgentTokens(KEY)


def test_each_machine_has_one_token_of_256_bits_for_each_key() -> None:
    token = TOKENS.of("n1")

    assert token == AgentTokens(KEY).of("n1")
    assert token.startswith("n1.")
    assert len(token) == len("n1.") + 43
    codes = {
        tokens.of(node)[3:]
        for tokens in (TOKENS, AgentTokens(SigningKey.generate()))
        for node in ("n1", "n2")
    }
    assert len(codes) == 4


def test_a_token_says_whose_it_is() -> None:
    assert TOKENS.machine_of(f"Bearer {TOKENS.of('n1')}") == "n1"
    assert TOKENS.machine_of(f"Bearer {TOKENS.of('a.b')}") == "a.b"


CODE = TOKENS.of("n1").removeprefix("n1.")


@pytest.mark.parametrize(
    "header",
    [
        *(None, "", "Bearer ", "Bearer n1", "Bearer n1.", f"Bearer n1.{CODE[:-1]}", f"Bearer n1.{CODE}x"),
        *(f"n1.{CODE}", f"Basic n1.{CODE}", f"bearer n1.{CODE}", f"Bearer  n1.{CODE}", f"Bearer n1.{CODE} "),
        *(
            f"Bearer n2.{CODE}",
            f"Bearer n1.n1.{CODE}",
            f"Bearer .{CODE}",
            f"Bearer {CODE}",
            "Bearer n1.tökén",
        ),
    ],
)
def test_only_the_whole_token_of_the_machine_that_it_names_is_taken(header: str | None) -> None:
    assert TOKENS.machine_of(header) is None
