"""Access tokens of a Google connection, as httpx wants them."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Any

import httpx
from asgiref.sync import sync_to_async

from container_training.hooks.importing import importing
from training_api.errors import AccessDenied, TransportError
from training_api.loopback import is_loopback


class GoogleToken(httpx.Auth):
    """
    Adds the token of a Google connection to each request; an anonymous connection has none.

    :meth:`value` returns it for other uses. The provider's ``GoogleBaseHook`` finds the credentials: a key
    file, its JSON, a secret, workload identity, what the environment has. A token is refreshed when it is
    about to expire, and once when it is refused.

    :param impersonation_chain: service accounts to act as, the last one at the end.
    """

    def __init__(self, gcp_conn_id: str, impersonation_chain: Sequence[str] = ()) -> None:
        self._gcp_conn_id = gcp_conn_id
        self._chain = tuple(impersonation_chain)
        self._lock = threading.Lock()
        self._credentials: Any = None

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        """Send ``request`` with a token; once more with a new one if it is refused."""
        self._apply(request, self.value())
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:
            self._apply(request, self.value(is_refused=True))
            yield request

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Do the same for asyncio; tokens are fetched in a thread."""
        token = sync_to_async(self.value, thread_sensitive=False)
        self._apply(request, await token())
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:
            self._apply(request, await token(is_refused=True))
            yield request

    def _apply(self, request: httpx.Request, token: str) -> None:
        if token and request.url.scheme != "https" and not is_loopback(request.url.netloc.decode()):
            raise AccessDenied(
                f"the access token of connection {self._gcp_conn_id!r} is sent by https or to this machine only, not "
                f"to http://{request.url.host}; choose a host with https, or set the password that it takes"
            )
        if token:
            request.headers["Authorization"] = f"Bearer {token}"

    def value(self, *, is_refused: bool = False) -> str:
        """
        Return a token that is good for a while; empty: the connection is anonymous.

        :param is_refused: the last one was refused: get a new one.
        :raises AccessDenied: the connection gives none.
        :raises TransportError: nobody answered who gives tokens.
        """
        # Imported here: it takes about a second, which no DAG parse may cost.
        with importing():
            from airflow.sdk.exceptions import AirflowException
            from google.auth.credentials import AnonymousCredentials
            from google.auth.exceptions import GoogleAuthError
            from google.auth.exceptions import TransportError as NoAnswer
            from google.auth.transport.requests import Request

        with self._lock:
            try:
                if self._credentials is None:
                    self._credentials = self._found()
                if isinstance(self._credentials, AnonymousCredentials):
                    return ""
                if is_refused or not self._credentials.valid:
                    self._credentials.refresh(Request())
            except GoogleAuthError as error:
                # Some credentials wrap what did not answer in an error of their own.
                if isinstance(error, NoAnswer) or isinstance(error.__cause__, NoAnswer) or error.retryable:
                    raise TransportError(f"access tokens cannot be had for now: {error}") from error
                raise self._denied(error) from error
            except (AirflowException, OSError, ValueError) as error:  # of the connection, or of a key file
                raise self._denied(error) from error
            return str(self._credentials.token or "")

    def _denied(self, error: Exception) -> AccessDenied:
        return AccessDenied(
            f"connection {self._gcp_conn_id!r} gives no access token: {error}; check its key, and the roles of its "
            "account in the chain of impersonation"
        )

    def _found(self) -> Any:
        with importing():
            from airflow.providers.google.common.hooks.base_google import GoogleBaseHook

        hook = GoogleBaseHook(gcp_conn_id=self._gcp_conn_id, impersonation_chain=self._chain or None)
        return hook.get_credentials()


def words(value: Any) -> tuple[str, ...]:
    """Return the parts of a list, or of text with commas."""
    parts = value.split(",") if isinstance(value, str) else value or ()
    return tuple(part for each in parts if (part := str(each).strip()))
