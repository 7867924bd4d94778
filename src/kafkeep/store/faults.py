"""What S3's answers mean: botocore's errors as ours."""

from __future__ import annotations

from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    InvalidEndpointConfigurationError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    SSLError,
)

from kafkeep.config.storage import CUSTOMER_KEY_VARIABLE
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

# code → what is wrong, and what to do about it.
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
    "BadDigest",
    "XAmzContentChecksumMismatch",
    "IncompleteBody",
}
_GRANT = "Grant s3:GetObject, s3:PutObject and s3:ListBucket on the bucket and its objects."
_ENCRYPTED = "Server Side Encryption"
"""What stores say when an object cannot be read without its customer's key (SSE-C)."""
_NEEDS_KEY = f"Give the key it was encrypted with, in Base64, in {CUSTOMER_KEY_VARIABLE}."

# Nothing was sent: botocore's class, ours, and what to do.
_UNSENT: tuple[tuple[tuple[type[Exception], ...], type[KafkeepError], str], ...] = (
    (
        (NoCredentialsError, PartialCredentialsError),
        AccessDeniedError,
        "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.",
    ),
    ((ProfileNotFound,), UsageError, "Check AWS_PROFILE and ~/.aws/config."),
    ((SSLError,), EnvironmentFault, "Name the maker's certificate in AWS_CA_BUNDLE."),
    (
        (EndpointConnectionError,),
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
    """Return our error for botocore's; ``writes``: an unanswered request may have taken effect."""
    if isinstance(error, ClientError):
        return _from_answer(error, what, bucket, writes)
    said = f"{what}: {' '.join(str(error).split())[:300]}"
    if isinstance(error, SSLError) and "CERTIFICATE" not in str(error):
        return _unanswered(writes)(said)
    for kinds, ours, hint in _UNSENT:
        if isinstance(error, kinds):
            return ours(said, hint=hint)
    return _unanswered(writes)(said)


def _from_answer(error: ClientError, what: str, bucket: str, writes: bool) -> KafkeepError:
    answer = error.response.get("Error", {})
    code = str(answer.get("Code", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    said = f"{what}: {code or status} {answer.get('Message', '')}".strip()
    if code == "NoSuchBucket":
        hint = "Check the name, or make the bucket first."
        return NoSuchArchiveError(f"there is no bucket {bucket}", hint=hint)
    if code in _DENIED:
        cause, hint = _DENIED[code]
        return AccessDeniedError(f"{what}: {cause} ({code})", hint=hint)
    if not writes and _ENCRYPTED in said:
        return AccessDeniedError(said, hint=_NEEDS_KEY)
    if status in (401, 403):
        return AccessDeniedError(said, hint=_GRANT)
    if status == 412:
        return KeyExistsError(f"{what}: the key is taken")
    return _class_of(status, code, writes)(said)


def _class_of(status: int, code: str, writes: bool) -> type[KafkeepError]:
    if code == "NoSuchUpload":
        # Completed before, with the answer lost, or ended by somebody: a look at the key tells.
        return UnknownOutcomeError
    if status == 404:
        return KeyMissingError
    if status in (409, 429, 503) or code in _TRANSIENT:
        return TransientError
    if status == 501:
        return EnvironmentFault  # the store does not know this part of the language
    # A success with an <Error> in its body, and a server's fault, leave it open what was done.
    if status >= 500 or 200 <= status < 300:
        return _unanswered(writes)
    return EnvironmentFault


def _unanswered(writes: bool) -> type[TransientError]:
    return UnknownOutcomeError if writes else TransientError
