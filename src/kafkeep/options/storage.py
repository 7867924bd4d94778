"""The address of an archive, and how to reach its store."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from kafkeep.errors import UsageError
from kafkeep.options.clouds import AzureOptions, GoogleOptions
from kafkeep.options.config_files import check_path

MIB = 1024 * 1024
SINGLE_PUT_BYTES = 4096 * MIB  # S3 accepts up to 5 GiB in one PUT
MIN_PART_BYTES = 5 * MIB
MAX_PART_BYTES = 2**31 - 1
CUSTOMER_KEY_VARIABLE = "KAFKEEP_S3_SSE_CUSTOMER_KEY"
_AMAZON = re.compile(r"(?:.+\.)?amazonaws\.com(?:\.cn)?", re.ASCII)
_KMS = ("aws:kms", "aws:kms:dsse")
_BUCKET = re.compile(r"[a-z0-9A-Z][a-zA-Z0-9._-]{1,62}", re.ASCII)
_GOOGLE_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{2,221}", re.ASCII)
_AZURE_CONTAINER = re.compile(r"[a-z0-9][a-z0-9-]{2,62}", re.ASCII)
_CLOUD = re.compile(r"(gs|az)://(?!/)")
_CLOUD_NEAR_MISS = re.compile(
    r"(?P<gs>gs|gcs)(?::/{0,3})(?=[^/]|$)|(?P<az>az|azure|azblob|wasbs?|abfss?)(?::/{0,3})(?=[^/]|$)",
    re.IGNORECASE,
)
_S3_NEAR_MISS = re.compile(r"(?:s3[an]?:/?|s3[an]://|S3:/{0,2}|s3:/{3,})(?=[^/]|$)")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


@dataclass(frozen=True, kw_only=True)
class StorageOptions:
    """How to reach the store. ``google`` and ``azure`` are for those clouds, all others for S3.

    Without keys, boto3 searches its credential chain (profile, role, instance).

    ``multipart_bytes``: objects of at least this size are uploaded in parts. The default on AWS is
    32 MiB. With another endpoint, everything up to 4 GiB is one PUT: some stores let several
    racing conditional completions win (SeaweedFS 4.48 does), but only one conditional PUT.
    ``part_bytes`` is the maximum size of a part.

    A failed request is retried ``part_retries`` times, first after ``retry_backoff_ms``, then after
    twice as long each time. After ``round_backoff_ms`` the retries start again, until
    ``retry_deadline_ms`` has passed. Without ``part_retries`` there is one long round. A request
    that times out uses up all of that time: it is retried once.

    ``customer_key`` (SSE-C) is sent with every request that writes or reads an object; nobody can
    read the archive without it. ``expect_continue`` asks the store before sending a body of 1 MiB
    or more, so that it can refuse early.
    """

    endpoint: str | None = None
    region: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None
    path_style: bool | None = None
    verify_tls: bool = True
    ca_file: str | None = None
    multipart_bytes: int | None = None
    retry_deadline_ms: int = 60_000
    part_bytes: int | None = None
    part_retries: int | None = None
    retry_backoff_ms: int = 100
    round_backoff_ms: int = 5_000
    accelerate: bool = False
    proxy_url: str | None = field(default=None, repr=False)
    proxy_user: str | None = None
    proxy_password: str | None = field(default=None, repr=False)
    acl: str | None = None
    encryption: str | None = None
    kms_key_id: str | None = None
    customer_key: bytes | None = field(default=None, repr=False)
    expect_continue: bool = True
    send_digest: bool = False
    fail_on_tagging_error: bool = False
    google: GoogleOptions = field(default_factory=GoogleOptions)
    azure: AzureOptions = field(default_factory=AzureOptions)

    def __post_init__(self) -> None:
        if self.endpoint is not None and not self.endpoint.startswith(("http://", "https://")):
            raise UsageError(
                f"{self.endpoint!r} is not an endpoint address",
                hint="Write it with its scheme: http://host:port or https://host.",
            )
        if (self.access_key is None) != (self.secret_key is None):
            raise UsageError(
                "only one half of the S3 credentials is set",
                hint="Set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or neither.",
            )
        self._check_parts_and_ways()
        self._check_encryption()

    def _check_parts_and_ways(self) -> None:
        if self.part_bytes is not None and not MIN_PART_BYTES <= self.part_bytes <= MAX_PART_BYTES:
            raise UsageError(
                f"a part of {self.part_bytes} bytes is not between {MIN_PART_BYTES} and "
                f"{MAX_PART_BYTES}"
            )
        if self.accelerate and self.path_style:
            raise UsageError(
                "an accelerated endpoint does not accept the bucket in the path",
                hint="Set s3.wan.mode or s3.path.style.access.enabled to false.",
            )
        if self.accelerate and self.endpoint is not None:
            raise UsageError("an endpoint is set, so Amazon's accelerated one cannot be used")
        if (self.proxy_user or self.proxy_password) and not self.proxy_url:
            raise UsageError("there are credentials for a proxy, but no proxy")

    def _check_encryption(self) -> None:
        if self.kms_key_id is not None and self.encryption not in _KMS:
            raise UsageError(f"a KMS key needs encryption by {' or '.join(_KMS)}")
        if self.customer_key is None:
            return
        if len(self.customer_key) != 32:
            raise UsageError("a customer's encryption key must have 32 bytes")
        if self.encryption not in (None, "AES256"):
            raise UsageError(
                f"a customer's encryption key is for AES256, not for {self.encryption}"
            )

    @property
    def uses_path_style(self) -> bool:
        """True if the bucket is in the path: by default if an endpoint is set."""
        return self.endpoint is not None if self.path_style is None else self.path_style

    @property
    def is_amazon(self) -> bool:
        """True if requests go to AWS itself."""
        host = urlsplit(self.endpoint or "").hostname or ""
        return self.endpoint is None or _AMAZON.fullmatch(host) is not None

    @property
    def multipart_from_bytes(self) -> int:
        """The size from which an object is uploaded in parts."""
        if self.multipart_bytes is not None:
            return self.multipart_bytes
        if not self.is_amazon:
            return SINGLE_PUT_BYTES
        return 32 * MIB if self.part_bytes is None else self.part_bytes

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **flags: Any) -> StorageOptions:
        """Read the clouds' standard variables; a flag that is not None overrides its variable.

        A profile given as a flag also overrides keys from the environment. The key of SSE-C has its
        own variable, in Base64, so that every command can read such an archive.
        """
        env = os.environ if environ is None else environ
        found: dict[str, Any] = {
            "endpoint": env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL"),
            "region": env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION"),
            "profile": env.get("AWS_PROFILE"),
            "ca_file": env.get("AWS_CA_BUNDLE"),
            "google": GoogleOptions.from_env(env),
            "azure": AzureOptions.from_env(env),
        }
        if customer_key := env.get(CUSTOMER_KEY_VARIABLE):
            found["customer_key"] = parse_customer_key(customer_key)
        given = {name: value for name, value in flags.items() if value is not None}
        if not given.keys() & {"profile", "access_key", "secret_key"}:
            found["access_key"] = env.get("AWS_ACCESS_KEY_ID")
            found["secret_key"] = env.get("AWS_SECRET_ACCESS_KEY")
            found["session_token"] = env.get("AWS_SESSION_TOKEN")
        if flags.get("accelerate"):
            found["endpoint"] = None
        found = {name: value or None for name, value in found.items()}
        return cls(**{**found, **given})


def parse_customer_key(text: str) -> bytes:
    """Parse the key of SSE-C: 32 bytes in Base64. The error does not repeat the text."""
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != 32:
        raise UsageError(
            "the customer's encryption key is not 32 bytes in Base64",
            hint="Make one with: openssl rand -base64 32",
        )
    return key


@dataclass(frozen=True, slots=True)
class ArchiveAddress:
    """The address of an archive: a bucket and prefix, a folder, or (for tests) memory.

    ``bucket`` is a container for az. ``path`` is the prefix for s3, gs and az (no slash at either
    end), the absolute folder for file, and the name for memory.
    """

    kind: Literal["s3", "gs", "az", "file", "memory"]
    bucket: str
    path: str

    def __str__(self) -> str:
        match self.kind:
            case "s3" | "gs" | "az":
                return f"{self.kind}://{self.bucket}/{self.path}".rstrip("/")
            case "file":
                return self.path
            case "memory":
                return f"memory:{self.path}"

    @classmethod
    def parse(cls, text: str) -> ArchiveAddress:
        """Parse ``s3://``, ``gs://`` or ``az://`` with a bucket and prefix, a folder, or memory."""
        if text.startswith("s3://") and not text.startswith("s3:///"):
            return _parse_s3(text)
        if cloud := _CLOUD.match(text):
            return _parse_gs(text) if cloud[1] == "gs" else _parse_az(text)
        _check_near_misses(text)
        if text.startswith("memory:"):
            return cls("memory", "", text.removeprefix("memory:"))
        if text.startswith("file:"):
            return cls("file", "", _parse_file(text))
        if (scheme := _SCHEME.match(text)) and (text[scheme.end() :].startswith("/")):
            raise UsageError(
                f"{scheme[1]}: addresses are not supported",
                hint="Use s3://bucket/prefix (with --s3-endpoint for other stores), "
                "gs://bucket/prefix, az://container/prefix, or a folder.",
            )
        if not text.strip():
            raise UsageError(
                "the archive address is empty", hint="Write s3://bucket/prefix or a folder."
            )
        return cls("file", "", str(_home_of(check_path(text)).absolute()))


def _check_near_misses(text: str) -> None:
    """Raise UsageError with the right spelling if the scheme of a bucket is nearly right."""
    scheme, near = "s3", _S3_NEAR_MISS.match(text)
    if near is None and (near := _CLOUD_NEAR_MISS.match(text)):
        scheme = "gs" if near["gs"] else "az"
    if near is not None:
        rest = text[near.end() :].lstrip("/")
        raise UsageError(
            f"{text!r} is not an archive address",
            hint=f"Did you mean {scheme}://{rest or 'bucket/prefix'}?",
        )


def _parse_s3(text: str) -> ArchiveAddress:
    hint = "Write s3://bucket/prefix; bucket names are 3 to 63 letters, digits, dots, hyphens."
    return ArchiveAddress("s3", *_parse_bucket(text, _BUCKET, "bucket", hint))


def _parse_gs(text: str) -> ArchiveAddress:
    hint = "Write gs://bucket/prefix; bucket names are lowercase letters, digits, -, _ and dots."
    return ArchiveAddress("gs", *_parse_bucket(text, _GOOGLE_BUCKET, "bucket", hint))


def _parse_az(text: str) -> ArchiveAddress:
    hint = (
        "Write az://container/prefix, and name the account in AZURE_STORAGE_ACCOUNT; container "
        "names are 3 to 63 lowercase letters, digits and hyphens."
    )
    return ArchiveAddress("az", *_parse_bucket(text, _AZURE_CONTAINER, "container", hint))


def _parse_bucket(text: str, names: re.Pattern[str], noun: str, hint: str) -> tuple[str, str]:
    """Return bucket and prefix of an address with a scheme."""
    bucket, _, prefix = text.partition("://")[2].partition("/")
    if not names.fullmatch(bucket):
        what = (
            f"{bucket!r} in {text!r} is not a {noun} name" if bucket else f"no {noun} in {text!r}"
        )
        raise UsageError(what, hint=hint)
    parts = [part for part in prefix.split("/") if part]
    if any(part in (".", "..") for part in parts):
        raise UsageError(
            f"the prefix in {text!r} has a '.' or '..' in it", hint="Write the prefix out in full."
        )
    return bucket, "/".join(parts)


def _parse_file(text: str) -> str:
    rest = text.removeprefix("file:")
    if rest.startswith("//"):
        host, slash, tail = rest[2:].partition("/")
        if not slash or host not in ("", "localhost"):
            raise UsageError(
                f"{text!r} names a host, not a folder",
                hint=f"Did you mean file:///{rest[2:]}? A file address has three slashes.",
            )
        rest = "/" + tail
    if not rest.startswith("/"):
        raise UsageError(
            f"{text!r} is not an absolute folder", hint="Write file:///folder, or the folder alone."
        )
    return str(check_path(unquote(rest)).absolute())


def _home_of(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise UsageError(f"{str(path)!r} is in the home of an unknown user") from error
