"""The location of a connector's archive: an address, or a bucket and its settings.

The S3 keys of Connect's configurations, and their translation into StorageOptions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from kafkeep.errors import UsageError
from kafkeep.options.option import ConfigErrors, did_you_mean, number, one_of, option, truth
from kafkeep.options.storage import (
    MAX_PART_BYTES,
    MIN_PART_BYTES,
    ArchiveAddress,
    StorageOptions,
    parse_customer_key,
)

CANNED_ACLS = (
    "private",
    "public-read",
    "public-read-write",
    "authenticated-read",
    "aws-exec-read",
    "bucket-owner-read",
    "bucket-owner-full-control",
)
DEFAULT_CHAINS = (
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
    "com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
)
SECRETS = frozenset({"aws.secret.access.key", "s3.sse.customer.key", "s3.proxy.password"})
_MAX_MS = 24 * 3_600_000


def _text(text: str) -> str | None:
    return text.strip() or None


def _bucket(text: str) -> str | None:
    bare = text.strip()
    if "/" in bare or ":" in bare:
        raise UsageError(f"{text!r} is not a bucket's name: write the name alone, without s3://")
    return bare or None


def _url(scheme: str) -> Callable[[str], str | None]:
    def parse(text: str) -> str | None:
        bare = text.strip()
        if not bare:
            return None
        url = bare if "://" in bare else f"{scheme}://{bare}"
        try:
            parts = urlsplit(url)
            is_address = parts.port != 0
        except ValueError:  # half of a bracket, or a port that is no number
            is_address = False
        if not is_address or parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError("not an http:// or https:// address")
        return url.rstrip("/")

    return parse


def _provider(text: str) -> str:
    name = text.strip()
    if name not in DEFAULT_CHAINS:
        near = did_you_mean(name, DEFAULT_CHAINS)
        raise UsageError(
            f"{name} is a Java class that cannot run here; {' and '.join(DEFAULT_CHAINS)} select "
            "AWS's default chain (variables, files, roles). To assume a role, use a profile in the "
            "AWS configuration files: s3.profile.name",
            hint=near,
        )
    return name


def _acl(text: str) -> str | None:
    return one_of("canned ACL", *CANNED_ACLS)(text.strip()) if text.strip() else None


def _encryption(text: str) -> str | None:
    names = ("AES256", "aws:kms", "aws:kms:dsse")
    return one_of("encryption", *names)(text.strip()) if text.strip() else None


def _customer_key(text: str) -> bytes | None:
    return parse_customer_key(text.strip()) if text.strip() else None


@dataclass(frozen=True, kw_only=True, repr=False)
class S3Options:
    """Where the bucket is, and how objects are sent to it."""

    s3_bucket_name: str | None = option(
        "s3.bucket.name",
        "Name of the bucket. Objects are under topics.dir, the log is under _kafkeep.",
        default=None,
        parse=_bucket,
    )
    store_url: str | None = option(
        "store.url",
        "Address of a store other than AWS; https:// is added if there is no scheme.",
        default=None,
        parse=_url("https"),
        metavar="URL",
    )
    s3_region: str | None = option(
        "s3.region",
        "Region of the bucket. Default: AWS_REGION, or the region of the profile, or us-west-2.",
        default=None,
        parse=_text,
    )
    s3_path_style_access_enabled: bool | None = option(
        "s3.path.style.access.enabled",
        "Whether requests have the bucket in the path, not in the host name. Default: true with "
        "store.url, false for AWS.",
        default=None,
        parse=truth,
        metavar="true|false",
    )
    s3_wan_mode: bool = option(
        "s3.wan.mode",
        "Use S3 Transfer Acceleration, which does not support path style. Has no effect, except a "
        "warning, if store.url is set.",
        default=False,
    )
    aws_access_key_id: str | None = option(
        "aws.access.key.id",
        "Access key. Default: AWS's credential chain.",
        default=None,
        parse=_text,
    )
    aws_secret_access_key: str | None = option(
        "aws.secret.access.key", "Secret key.", default=None, parse=_text, metavar="SECRET"
    )
    s3_credentials_provider_class: str = option(
        "s3.credentials.provider.class",
        "The Java names of AWS's default chains select the chain of AWS's tools. Other classes, "
        "and keys under s3.credentials.provider, are refused.",
        default=DEFAULT_CHAINS[0],
        parse=_provider,
    )
    s3_profile_name: str | None = option(
        "s3.profile.name", "Profile of the AWS files.", default=None, parse=_text
    )
    s3_part_size: int | None = option(
        "s3.part.size",
        "Size of the parts of an upload, 5242880 to 2147483647 bytes. Default: 16 MiB. On AWS, "
        "larger objects are uploaded in parts. On other stores one PUT uploads up to 4 GiB, "
        "because not every store lets only one of two concurrent multipart uploads win.",
        default=None,
        parse=number(MIN_PART_BYTES, MAX_PART_BYTES),
        metavar="BYTES",
    )
    s3_part_retries: int | None = option(
        "s3.part.retries",
        "Number of retries of a failed request before a wait of retry.backoff.ms. Default: retry "
        "for one minute, with growing waits.",
        default=None,
        parse=number(0, 2**31 - 1),
        metavar="COUNT",
    )
    s3_retry_backoff_ms: int = option(
        "s3.retry.backoff.ms",
        "Wait before the first retry of a request; it doubles with each retry.",
        default=200,
        parse=number(1, _MAX_MS),
        metavar="MS",
    )
    retry_backoff_ms: int = option(
        "retry.backoff.ms",
        "Wait after s3.part.retries, before the retries start again; one minute in total.",
        default=5000,
        parse=number(0, _MAX_MS),
        metavar="MS",
    )
    s3_proxy_url: str | None = option(
        "s3.proxy.url",
        "HTTP proxy for requests to the store; http:// is added if there is no scheme.",
        default=None,
        parse=_url("http"),
        metavar="URL",
    )
    s3_proxy_user: str | None = option(
        "s3.proxy.user", "User at the proxy.", default=None, parse=_text
    )
    s3_proxy_password: str | None = option(
        "s3.proxy.password",
        "Password for the proxy.",
        default=None,
        parse=lambda text: text or None,
        metavar="SECRET",
    )
    s3_acl_canned: str | None = option(
        "s3.acl.canned",
        f"Canned ACL of each object: {', '.join(CANNED_ACLS)}.",
        default=None,
        parse=_acl,
    )
    s3_ssea_name: str | None = option(
        "s3.ssea.name",
        "Server-side encryption: AES256, aws:kms or aws:kms:dsse.",
        default=None,
        parse=_encryption,
    )
    s3_sse_kms_key_id: str | None = option(
        "s3.sse.kms.key.id", "KMS key for aws:kms and aws:kms:dsse.", default=None, parse=_text
    )
    s3_sse_customer_key: bytes | None = option(
        "s3.sse.customer.key",
        "Encryption with a customer key (SSE-C, AES256): 32 bytes in Base64. Every reader needs it "
        "too, in KAFKEEP_S3_SSE_CUSTOMER_KEY.",
        default=None,
        parse=_customer_key,
        metavar="SECRET",
    )
    s3_object_behavior_on_tagging_error: str = option(
        "s3.object.behavior.on.tagging.error",
        "If the store refuses tags: ignore (store the object without them, and warn) or fail.",
        default="ignore",
        parse=lambda text: one_of("behavior", "ignore", "fail")(text.strip().lower()),
    )
    s3_http_send_expect_continue: bool = option(
        "s3.http.send.expect.continue",
        "Send Expect: 100-continue with bodies of 1 MiB or more.",
        default=True,
    )
    s3_send_digest: bool = option(
        "s3.send.digest",
        "Also send the MD5 of every body; its CRC32 is always sent.",
        default=False,
    )

    def __post_init__(self) -> None:
        wrong: dict[str, str] = {}
        if self.s3_wan_mode and self.s3_path_style_access_enabled:
            wrong["s3.path.style.access.enabled"] = "s3.wan.mode does not support path style"
        if self.aws_access_key_id and not self.aws_secret_access_key:
            wrong["aws.secret.access.key"] = "missing: aws.access.key.id is set"
        if self.aws_secret_access_key and not self.aws_access_key_id:
            wrong["aws.access.key.id"] = "missing: aws.secret.access.key is set"
        if self.s3_sse_customer_key and self.s3_ssea_name not in (None, "AES256"):
            wrong["s3.sse.customer.key"] = f"is for AES256, not for {self.s3_ssea_name}"
        if self.s3_sse_kms_key_id and not (self.s3_ssea_name or "").startswith("aws:kms"):
            wrong["s3.sse.kms.key.id"] = "needs s3.ssea.name aws:kms or aws:kms:dsse"
        if (self.s3_proxy_user or self.s3_proxy_password) and not self.s3_proxy_url:
            wrong["s3.proxy.url"] = "missing: there are credentials for a proxy"
        if wrong:
            raise ConfigErrors(wrong)

    def __repr__(self) -> str:
        return f"S3Options({self.s3_bucket_name!r}, {self.store_url!r})"

    def notes(self) -> tuple[str, ...]:
        """Return warnings about valid options."""
        if self.s3_wan_mode and self.store_url:
            return ("s3.wan.mode has no effect: store.url sets the endpoint",)
        return ()

    def to_storage(
        self, environ: Mapping[str, str] | None = None, *, default_region: str | None = None
    ) -> StorageOptions:
        """Return the storage options; AWS's variables fill in what is not set."""
        given: dict[str, Any] = {
            "endpoint": self.store_url,
            "region": self.s3_region,
            "profile": self.s3_profile_name,
            "path_style": self.s3_path_style_access_enabled,
            "access_key": self.aws_access_key_id,
            "secret_key": self.aws_secret_access_key,
            "customer_key": self.s3_sse_customer_key,
            "accelerate": (self.s3_wan_mode and self.store_url is None) or None,
        }
        storage = StorageOptions.from_env(environ, **given, **self._fixed())
        if storage.region is None and storage.profile is None and default_region:
            return StorageOptions(**{**vars(storage), "region": default_region})
        return storage

    def _fixed(self) -> dict[str, Any]:
        return {
            "part_bytes": self.s3_part_size,
            "part_retries": self.s3_part_retries,
            "retry_backoff_ms": self.s3_retry_backoff_ms,
            "round_backoff_ms": self.retry_backoff_ms,
            "proxy_url": self.s3_proxy_url,
            "proxy_user": self.s3_proxy_user,
            "proxy_password": self.s3_proxy_password,
            "acl": self.s3_acl_canned,
            "encryption": self.s3_ssea_name,
            "kms_key_id": self.s3_sse_kms_key_id,
            "expect_continue": self.s3_http_send_expect_continue,
            "send_digest": self.s3_send_digest,
            "fail_on_tagging_error": self.s3_object_behavior_on_tagging_error == "fail",
        }


def read_address(
    archive: str | None, s3: S3Options | None, prefix: str, wrong: dict[str, str]
) -> str:
    """Return ``archive``, or the address of the bucket; add errors to ``wrong``.

    ``s3`` is None if its keys are invalid and the errors are in ``wrong`` already.
    """
    if archive is not None:
        return archive
    bucket = s3.s3_bucket_name if s3 is not None else None
    if not bucket:
        if s3 is not None:
            wrong.setdefault("s3.bucket.name", "missing: it names the bucket of the archive")
        return ""
    try:
        return str(ArchiveAddress.parse(f"s3://{bucket}/{prefix}"))
    except UsageError as error:
        wrong["s3.bucket.name"] = error.message
        return ""


def read_storage(
    s3: S3Options | None,
    environ: Mapping[str, str] | None,
    region: str | None,
    wrong: dict[str, str],
) -> StorageOptions | None:
    """Return how to reach the bucket; on errors add them to ``wrong`` and return None."""
    try:
        return s3.to_storage(environ, default_region=region) if s3 is not None else None
    except UsageError as error:
        wrong["store.url"] = error.message
        return None
