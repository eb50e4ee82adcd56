"""How the project's errors end a task."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from container_training.hooks.failures import final_unless_transient
from training_api.errors import EngineUnavailable, ImageNotFound, InvalidArgument, TransportError


@pytest.mark.parametrize("error", [TransportError("no answer"), EngineUnavailable("gone")])
def test_what_may_pass_goes_through_for_airflow_to_try_again(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, final_unless_transient():
        raise error

    assert caught.value is error


@pytest.mark.parametrize("error", [InvalidArgument("must be a number"), ImageNotFound("no such image")])
def test_what_somebody_must_mend_is_final_and_keeps_its_name_and_cause(error: Exception) -> None:
    told = f"^{type(error).__name__}: {error}$"

    with pytest.raises(AirflowFailException, match=told) as caught, final_unless_transient():
        raise error

    assert caught.value.__cause__ is error


def test_an_error_of_somebody_else_is_left_as_it_is() -> None:
    with pytest.raises(KeyError), final_unless_transient():
        raise KeyError("lost")
