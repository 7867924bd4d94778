"""The client of Google Cloud Storage, and the translation of its errors. Needs ``kafkeep[gcs]``.

The client has no retries of its own: RetryingStore and the writer need to know each outcome.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import google.auth
import requests
from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError
from google.auth.transport.requests import AuthorizedSession
from google.cloud.storage import Client
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
from requests.adapters import HTTPAdapter

from kafkeep.errors import (
    AccessDeniedError,
    EnvironmentFault,
    KafkeepError,
    KeyExistsError,
    KeyMissingError,
    TransientError,
    UnknownOutcomeError,
)
from kafkeep.options.clouds import GoogleOptions
from kafkeep.redact import redact
from kafkeep.retry import STORE
from kafkeep.store.cloud_store import SLOWER, error_of_status, unanswered
from kafkeep.store.per_process import PerProcess
from kafkeep.store.request_times import RequestTimes

TIMEOUT_S = (10.0, STORE.answer_s)
"""To connect, and for each answer."""
_SCOPES = ["https://www.googleapis.com/auth/devstorage.read_write"]
_LOGIN = (
    "Name a file of credentials in GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth "
    "application-default login."
)
_GRANT = "Grant roles/storage.objectUser on the bucket."
_LIMITS = ("rateLimitExceeded", "userRateLimitExceeded")


# For traces that nobody collects, the library would read the bucket's settings in a thread. That
# needs another permission, and a fork must not copy the thread's locks.
_NO_BUCKET_READS = "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"


class GoogleClient:
    """The library's client, with the HTTP session that it uses."""

    def __init__(self, options: GoogleOptions) -> None:
        os.environ.setdefault(_NO_BUCKET_READS, "true")
        self.http = AuthorizedSession(_credentials(options))
        adapter = HTTPAdapter(pool_maxsize=32)
        for scheme in ("http://", "https://"):
            self.http.mount(scheme, adapter)
        self._answered = threading.local()
        self.http.hooks["response"].append(self._note)
        endpoint = {"api_endpoint": options.emulator} if options.emulator else None
        self.storage = Client(
            project=None,
            credentials=self.http.credentials,
            _http=self.http,
            client_options=endpoint,
        )

    @property
    def date(self) -> str | None:
        """The time in the last answer to this thread."""
        return getattr(self._answered, "date", None)

    def _note(self, answer: requests.Response, *_: Any, **_named: Any) -> None:
        self._answered.date = answer.headers.get("Date")


def _credentials(options: GoogleOptions) -> Credentials:
    if options.emulator is not None:
        return AnonymousCredentials()
    if options.credentials_file is not None:
        os.environ["GOOGLE_APPLICATION_CREDENTIALS"] = options.credentials_file  # also on executors
    try:
        found = google.auth.default(_SCOPES)
    except DefaultCredentialsError as error:
        why = redact(str(error).split(". ")[0])
        raise AccessDeniedError(f"no Google credentials: {why}", hint=_LOGIN) from error
    credentials: Credentials = found[0]
    return credentials


client_of = PerProcess(GoogleClient)
"""Returns the client of this process for its options."""


@contextmanager
def google_request(
    operation: str, what: str, times: RequestTimes | None, *, writes: bool = False
) -> Iterator[None]:
    """Record the time of a request, and turn the library's errors into KafkeepErrors."""
    began, fault = perf_counter(), None
    try:
        yield
    except (GoogleAPICallError, InvalidResponse, DataCorruption) as error:
        translated = _from_answer(error, what, writes)
        expected = isinstance(translated, KeyMissingError | KeyExistsError)
        fault = None if expected else str(_status(error))
        raise translated from error
    except (GoogleAuthError, requests.RequestException, OSError) as error:
        fault = "connection"
        raise _without_answer(error, what, writes) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # An answer with status 200 that is not the JSON that Google sends.
        message = f"{what}: the answer does not come from Google Cloud Storage"
        raise unanswered(message, writes=writes) from error
    finally:
        if times is not None:
            times.note(operation, perf_counter() - began, fault)


def check_session(answer: requests.Response, what: str) -> None:
    """Raise the error of an answer from an upload's session; status 308 asks for more bytes."""
    status, said = answer.status_code, f"{what}: {redact(answer.text[:300])}"
    if status in (404, 410):
        # The session has ended: its object was created, or it was cancelled.
        raise UnknownOutcomeError(said)
    if status != 308 and not answer.ok:
        raise _by_status(status, "", said, what, writes=True)


def _status(error: Exception) -> int:
    response = getattr(error, "response", None)
    return int(getattr(error, "code", None) or getattr(response, "status_code", 0) or 0)


def _from_answer(error: Exception, what: str, writes: bool) -> KafkeepError:
    if isinstance(error, DataCorruption):
        return TransientError(f"{what}: the bytes that came differ from their checksum")
    said, reason = _explanation(error)
    return _by_status(_status(error), reason, f"{what}: {said}"[:500], what, writes=writes)


def _explanation(error: Exception) -> tuple[str, str]:
    """Return the store's message and its reason."""
    response = getattr(error, "response", None)
    try:
        found = response.json()["error"]  # type: ignore[union-attr]
        reasons = [str(one.get("reason", "")) for one in found.get("errors", [])]
        return redact(str(found["message"])), next(iter(reasons), "")
    except (AttributeError, KeyError, TypeError, ValueError):
        return redact(" ".join(str(error).split())), ""


def _by_status(status: int, reason: str, message: str, what: str, *, writes: bool) -> KafkeepError:
    if status == 412:
        return KeyExistsError(f"{what}: the key is taken")
    if reason in _LIMITS:
        return TransientError(message, hint=SLOWER)
    if status == 409:
        return TransientError(message)
    return error_of_status(status, message, grant=_GRANT, writes=writes)


def _without_answer(error: Exception, what: str, writes: bool) -> KafkeepError:
    refused = isinstance(error, GoogleAuthError) and not isinstance(error, TransportError)
    if refused and not getattr(error, "retryable", False):
        why = redact(str(error.args[0] if error.args else error))
        return AccessDeniedError(f"{what}: Google refuses the credentials: {why}", hint=_LOGIN)
    if isinstance(error, requests.exceptions.SSLError) and "CERTIFICATE" in str(error):
        hint = "Name the maker's certificate in REQUESTS_CA_BUNDLE."
        return EnvironmentFault(f"{what}: {redact(str(error))[:300]}", hint=hint)
    if isinstance(error, requests.exceptions.ConnectTimeout) or "NewConnection" in str(error):
        return TransientError(
            f"{what}: nothing answers", hint="Check the network and STORAGE_EMULATOR_HOST."
        )
    message = f"{what}: {redact(' '.join(str(error).split()))[:300]}"
    return unanswered(message, writes=writes)
