"""
Setting faults, for administrators.

Only if the service was started with ``TRAINING_FAULT_INJECTION``.
"""

from __future__ import annotations

from fastapi.responses import JSONResponse

from training_api.wire import WireModel
from training_service.api.routes import Routes
from training_service.faults.board import FaultBoard
from training_service.faults.rules import Fault, SetFault


class ListFaultsResponse(WireModel):
    """All faults that were set and not removed, the oldest first."""

    faults: list[SetFault]


def faults_router(board: FaultBoard) -> Routes:
    """Return the routes over ``board``."""
    router = Routes(prefix="/faults", tags=["faults"])

    @router.post("", response_model=SetFault)
    def set_fault(fault: Fault) -> JSONResponse:
        """Let a fault happen from now on."""
        return _answer(board.set(fault))

    @router.get("", response_model=ListFaultsResponse)
    def list_faults() -> JSONResponse:
        """List the faults that are set."""
        return _answer(ListFaultsResponse(faults=board.listed()))

    @router.delete("/{fault_id}")
    def remove_fault(fault_id: str) -> JSONResponse:
        """Remove a fault."""
        board.remove(fault_id)
        return JSONResponse({})

    @router.delete("")
    def clear_faults() -> JSONResponse:
        """Remove all faults."""
        board.clear()
        return JSONResponse({})

    return router


def _answer(resource: WireModel) -> JSONResponse:
    return JSONResponse(resource.to_wire())
