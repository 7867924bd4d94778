"""Translate botocore's errors to KafkeepErrors, and check responses. Sends no request.

A faulty proxy or load balancer may respond with status 200 and an empty or unrelated body. botocore
parses that as an empty listing or an empty object. A response without the fields that S3 always
sends is therefore an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, unquote_plus, urlsplit

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    InvalidEndpointConfigurationError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    SSLError,
)

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
from kafkeep.options.storage import CUSTOMER_KEY_VARIABLE
from kafkeep.redact import redact

# Code → cause and hint.
_DENIED = {
    "SignatureDoesNotMatch": ("the secret key is wrong", "Check AWS_SECRET_ACCESS_KEY."),
    "InvalidAccessKeyId": ("the access key is unknown there", "Check AWS_ACCESS_KEY_ID."),
    "ExpiredToken": ("the session token has expired", "Get new temporary credentials."),
    "InvalidToken": ("the session token is not valid", "Check AWS_SESSION_TOKEN."),
    "RequestTimeTooSkewed": ("this machine's clock is wrong", "Set the clock (NTP)."),
    "RequestExpired": ("this machine's clock is wrong", "Set the clock (NTP)."),
    "AccountProblem": ("the account has a problem", "Ask who runs the account."),
}
_TRANSIENT = {
    "RequestTimeout",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequests",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "ServiceUnavailable",
    "BadDigest",
    "XAmzContentChecksumMismatch",
    "IncompleteBody",
}
_FULL = re.compile(r"(?i)quota|storage_?(?:full|cap)|insufficientstorage|disk_?full|nospace")
"""Error codes of a full store or an exhausted quota. Each vendor has its own codes."""
_THROTTLED = {"SlowDown", "TooManyRequests", "Throttling", "ThrottlingException"}
_SLOWER = "The store asks for fewer requests: try again later, or with fewer tasks at once."
_URL = re.compile(r"(https?)://[^\s\"']+")
_GRANT = "Grant s3:GetObject, s3:PutObject and s3:ListBucket on the bucket and its objects."
_ENCRYPTED = "Server Side Encryption"
"""Part of the error message when an object needs the customer's key (SSE-C)."""
_COLD = "The object is in cold storage: restore it there first, for some days, then run it again."
_NEEDS_KEY = f"Give the key it was encrypted with, in Base64, in {CUSTOMER_KEY_VARIABLE}."

# Errors before a request is sent: botocore's class, kafkeep's class, hint.
_UNSENT: tuple[tuple[tuple[type[Exception], ...], type[KafkeepError], str], ...] = (
    (
        (NoCredentialsError, PartialCredentialsError),
        AccessDeniedError,
        "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.",
    ),
    ((ProfileNotFound,), UsageError, "Check AWS_PROFILE and ~/.aws/config."),
    ((SSLError,), EnvironmentFault, "Name the maker's certificate in AWS_CA_BUNDLE."),
    (
        (EndpointConnectionError, ConnectTimeoutError),
        TransientError,
        "Check the endpoint's address and that the store is up.",
    ),
    (
        (ParamValidationError, NoRegionError, InvalidEndpointConfigurationError),
        UsageError,
        "Check the S3 settings.",
    ),
)


def translate(error: Exception, what: str, bucket: str, *, writes: bool) -> KafkeepError:
    """Return kafkeep's error for botocore's. With ``writes``, the request may have taken effect."""
    if isinstance(error, ClientError):
        return _from_answer(error, what, bucket, writes)
    message = redact(f"{what}: {_without_paths(' '.join(str(error).split()))[:300]}")
    if isinstance(error, EndpointConnectionError | ConnectTimeoutError):
        message = f"{what}: nothing answers at {_endpoint(error)}, where bucket {bucket} should be"
    if isinstance(error, SSLError) and "CERTIFICATE" not in str(error):
        return _unanswered(writes)(message)
    for kinds, ours, hint in _UNSENT:
        if isinstance(error, kinds):
            return ours(message, hint=hint)
    return _unanswered(writes)(message)


def _from_answer(error: ClientError, what: str, bucket: str, writes: bool) -> KafkeepError:
    answer = error.response.get("Error", {})
    code = str(answer.get("Code", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    # Stores repeat parts of the request, and errors appear in Spark's log and REST responses.
    message = redact(f"{what}: {code or status} {answer.get('Message', '')}".strip())
    if _FULL.search(code) or status == 507:
        return _full(what, bucket, code or str(status), status, writes)
    if code == "NoSuchBucket":
        hint = "Check the name, or make the bucket first."
        return NoSuchArchiveError(f"there is no bucket {bucket}", hint=hint)
    if not writes and _ENCRYPTED in message:
        return AccessDeniedError(message, hint=_NEEDS_KEY)
    return _by_code(code, what, message) or _by_status(status, code, what, message, writes)


def _by_code(code: str, what: str, message: str) -> KafkeepError | None:
    """Return the error of a code whose meaning does not depend on the status, or None."""
    if code in _DENIED:
        cause, hint = _DENIED[code]
        return AccessDeniedError(f"{what}: {cause} ({code})", hint=hint)
    if code in _TRANSIENT:
        return TransientError(message, hint=_SLOWER if code in _THROTTLED else None)
    return EnvironmentFault(message, hint=_COLD) if code == "InvalidObjectState" else None


def _by_status(status: int, code: str, what: str, message: str, writes: bool) -> KafkeepError:
    if status in (401, 403):
        return AccessDeniedError(message, hint=_GRANT)
    if status == 412:
        return KeyExistsError(f"{what}: the key is taken")
    return _class_of(status, code, writes)(message)


def _full(what: str, bucket: str, code: str, status: int, writes: bool) -> KafkeepError:
    """Return the error of a full store. It is transient only with a 5xx status."""
    kind = _unanswered(writes) if status >= 500 else EnvironmentFault
    hint = f"Make room in the store, or raise the quota of bucket {bucket}; then run it again."
    return kind(f"{what}: the store is full, or a quota is used up ({code})", hint=hint)


def _endpoint(error: BotoCoreError) -> str:
    return _without_paths(str(error.kwargs.get("endpoint_url") or "the endpoint"))


def _without_paths(text: str) -> str:
    """Reduce each URL to scheme and host, without login, path and query."""

    def shortened(url: re.Match[str]) -> str:
        return f"{url[1]}://{urlsplit(url[0]).netloc.rpartition('@')[2]}"

    return _URL.sub(shortened, text)


def _class_of(status: int, code: str, writes: bool) -> type[KafkeepError]:
    if code == "NoSuchUpload":
        # The upload was completed and its response lost, or it was aborted. A HEAD of the key
        # shows which.
        return UnknownOutcomeError
    if status == 404:
        return KeyMissingError
    if status in (409, 429, 503):
        return TransientError
    if status == 501:
        return EnvironmentFault  # the store does not implement this
    # After a 5xx status, or a success with an <Error> in its body, the outcome is unknown.
    if status >= 500 or 200 <= status < 300:
        return _unanswered(writes)
    return EnvironmentFault


def _unanswered(writes: bool) -> type[TransientError]:
    return UnknownOutcomeError if writes else TransientError


_HINT = "Check for a proxy or a load balancer that answers in place of the store."


def field(answer: Mapping[str, Any], name: str, what: str, *, writes: bool = False) -> Any:
    """Return a field that S3 always sends. Raise TransientError when it is missing.

    With ``writes``, raise UnknownOutcomeError, because the request may have taken effect.
    """
    if name in answer:
        return answer[name]
    kind = UnknownOutcomeError if writes else TransientError
    raise kind(f"{what}: the answer does not come from S3: it has no {name}", hint=_HINT)


def check_page(page: Mapping[str, Any], asked: Mapping[str, Any], *, bucket: str | None) -> None:
    """Raise TransientError unless a page of a listing matches its request.

    ``bucket`` is None when the response may have another bucket name, as for an access point.
    """
    what = f"listing {asked['Prefix'] or asked['Bucket']}"
    field(page, "IsTruncated", what)
    for name, wanted in (("Name", bucket), ("Prefix", asked["Prefix"])):
        found = page.get(name)
        # Some stores encode the prefix without declaring it.
        if wanted and found and wanted not in (found, unquote(found), unquote_plus(found)):
            raise TransientError(
                f"{what}: the answer is of {name.lower()} {found!r}, not {wanted!r}", hint=_HINT
            )
    if page["IsTruncated"] and field(page, "NextContinuationToken", what) == asked.get(
        "ContinuationToken"
    ):
        raise TransientError(f"{what}: the answer repeats its last page", hint=_HINT)


def read_body(answer: Mapping[str, Any], what: str) -> bytes:
    """Return the bytes of an object. Raise TransientError when the response is incomplete."""
    body: bytes = answer["Body"].read()
    if len(body) != answer["ContentLength"]:
        raise TransientError(f"{what}: {len(body)} of {answer['ContentLength']} bytes came")
    field(answer, "ETag" if "ETag" in answer else "LastModified", what)
    return body


def read_range(answer: Mapping[str, Any], start: int, end: int, what: str) -> bytes:
    """Return bytes ``[start, end)``, even if the store sends the whole object."""
    body = read_body(answer, what)
    came = answer.get("ContentRange")
    if came is None:
        return body[start:end]
    if not came.startswith(f"bytes {start}-"):
        raise TransientError(f"{what}: the answer is of {came}", hint=_HINT)
    return body[: end - start]
