"""What the agent says of the limits of what jobs reach, whatever becomes of its engine."""

from __future__ import annotations

import pytest
import structlog

from training_api.errors import EngineError, EngineUnavailable
from training_service.agent.bridge_keeper import BridgeKeeper


class Bridge:
    error: EngineError | None = None

    def keep(self) -> str:
        if self.error:
            raise self.error
        return "digest"


@pytest.mark.parametrize("error", [EngineUnavailable("away"), EngineError("no nft")])
def test_limits_are_told_only_while_they_are_known_to_hold(error: EngineError) -> None:
    bridge = Bridge()
    keeper = BridgeKeeper(bridge)
    assert keeper.digest == ""

    assert keeper.keep()
    assert keeper.digest == "digest"

    bridge.error = error
    with structlog.testing.capture_logs() as logs:
        assert not keeper.keep()
        assert not keeper.keep()
    assert keeper.digest == ""
    assert [line["reason"] for line in logs] == [str(error)]

    bridge.error = None
    assert keeper.keep()
    assert keeper.digest == "digest"
