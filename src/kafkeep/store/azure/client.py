"""The client of Azure Blob Storage, and the translation of its errors. Needs ``kafkeep[azure]``.

The client has no retries of its own: RetryingStore and the writer need to know each outcome.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any
from urllib.parse import parse_qs

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
)
from azure.identity import DefaultAzureCredential
from azure.storage.blob import BlobServiceClient

from kafkeep.errors import (
    AccessDeniedError,
    EnvironmentFault,
    KafkeepError,
    KeyExistsError,
    KeyMissingError,
    NoSuchArchiveError,
    TransientError,
    UnknownOutcomeError,
    UsageError,
)
from kafkeep.options.clouds import AzureOptions
from kafkeep.redact import redact, remember
from kafkeep.retry import STORE
from kafkeep.store.cloud_store import error_of_status, unanswered
from kafkeep.store.per_process import PerProcess
from kafkeep.store.request_times import RequestTimes

_LOGIN = (
    "Set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, or give "
    "this machine an identity that may use the account."
)
_GRANT = "Assign the role Storage Blob Data Contributor on the container, or check the SAS token."
_KEY = "Check AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING."
_COLD = "The blob is archived: rehydrate it to the hot or cool tier first, then run it again."
_SETTINGS: dict[str, Any] = {
    "retry_total": 0,
    "connection_timeout": 10,
    "read_timeout": STORE.answer_s,
    # Otherwise the library splits bodies and downloads into several requests by itself.
    "max_single_put_size": 1 << 32,
    "max_single_get_size": 1 << 40,
}
_SECRET_FIELDS = ("accountkey", "sharedaccesssignature")
_TRANSIENT = {"Md5Mismatch", "OperationTimedOut", "ContainerBeingDeleted", "AccountBeingCreated"}
_TAKEN = {"BlobAlreadyExists", "ConditionNotMet", "TargetConditionNotMet"}
_COLD_CODES = {"BlobArchived", "BlobBeingRehydrated"}


def check_account(options: AzureOptions) -> None:
    """Raise UsageError when the options name no account."""
    if options.connection_string is None and options.account_url is None:
        raise UsageError(
            "an az:// address needs the name of a storage account",
            hint="Set AZURE_STORAGE_ACCOUNT, or AZURE_STORAGE_CONNECTION_STRING.",
        )


def _connect(options: AzureOptions) -> BlobServiceClient:
    logging.getLogger("azure").setLevel(logging.WARNING)  # it logs every request
    _remember_secrets(options)
    check_account(options)
    try:
        if options.connection_string is not None:
            return BlobServiceClient.from_connection_string(options.connection_string, **_SETTINGS)
        return BlobServiceClient(str(options.account_url), _credential(options), **_SETTINGS)
    except ValueError as error:
        raise UsageError(f"the Azure settings are not usable: {redact(str(error))}") from error


def _credential(options: AzureOptions) -> Any:
    if options.key is None:
        return options.sas_token or DefaultAzureCredential()
    if options.account is None:
        return options.key
    return {"account_name": options.account, "account_key": options.key}


def _remember_secrets(options: AzureOptions) -> None:
    """Register the credentials for redaction in logs and tracebacks of this process."""
    fields = [one.partition("=") for one in (options.connection_string or "").split(";")]
    values = [value for name, _, value in fields if name.strip().lower() in _SECRET_FIELDS]
    tokens = [token for token in (options.sas_token, *values) if token]
    signatures = [one for token in tokens for one in parse_qs(token.lstrip("?")).get("sig", [])]
    remember(options.connection_string, options.key, *tokens, *signatures)


client_of = PerProcess(_connect)
"""Returns the client of this process for its options."""


@contextmanager
def azure_request(
    operation: str,
    what: str,
    container: str,
    times: RequestTimes | None,
    *,
    writes: bool = False,
) -> Iterator[None]:
    """Record the time of a request, and turn the library's errors into KafkeepErrors."""
    began, fault = perf_counter(), None
    try:
        yield
    except AzureError as error:
        translated = _translate(error, what, container, writes)
        fault = str(getattr(error, "status_code", None) or "connection")
        if isinstance(translated, KeyMissingError | KeyExistsError):
            fault = None
        raise translated from error
    finally:
        if times is not None:
            times.note(operation, perf_counter() - began, fault)


def error_code(error: HttpResponseError) -> str:
    """Return the service's code of an error, empty when it sent none."""
    code = getattr(error, "error_code", None) or ""
    return str(getattr(code, "value", code))


def _translate(error: AzureError, what: str, container: str, writes: bool) -> KafkeepError:
    message = redact(f"{what}: {' '.join(str(error.message).split())}"[:400])
    if isinstance(error, HttpResponseError) and error.status_code is not None:
        return _from_answer(error, message, what, container, writes)
    if isinstance(error, ClientAuthenticationError):
        return AccessDeniedError(f"{what}: there are no credentials for Azure", hint=_LOGIN)
    if isinstance(error, ServiceRequestError):
        if "CERTIFICATE" in message:
            hint = "Name the maker's certificate in REQUESTS_CA_BUNDLE."
            return EnvironmentFault(message, hint=hint)
        hint = "Check the name of the account, and that the store is up."
        return TransientError(f"{what}: nothing answers for container {container}", hint=hint)
    return unanswered(message, writes=writes)


def _from_answer(
    error: HttpResponseError, message: str, what: str, container: str, writes: bool
) -> KafkeepError:
    code, status = error_code(error), int(error.status_code or 0)
    if code == "ContainerNotFound":
        hint = "Check the name, or make the container first."
        return NoSuchArchiveError(f"there is no container {container}", hint=hint)
    if code == "AuthenticationFailed":
        return AccessDeniedError(f"{what}: the key or the SAS token is wrong ({code})", hint=_KEY)
    if code in _TAKEN:
        return KeyExistsError(f"{what}: the key is taken")
    return _by_code(code, message) or error_of_status(status, message, grant=_GRANT, writes=writes)


def _by_code(code: str, message: str) -> KafkeepError | None:
    if code == "InvalidBlockList":
        # The upload was committed and its response lost, or another writer's commit discarded the
        # blocks. A look at the blob shows which.
        return UnknownOutcomeError(message)
    if code in _COLD_CODES:
        return EnvironmentFault(message, hint=_COLD)
    return TransientError(message) if code in _TRANSIENT else None
