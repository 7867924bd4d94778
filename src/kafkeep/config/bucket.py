"""Where a connector's archive is, read from its keys: an address, or a bucket and its settings."""

from __future__ import annotations

from collections.abc import Mapping

from kafkeep.config.s3 import S3Options
from kafkeep.config.storage import ArchiveAddress, StorageOptions
from kafkeep.errors import UsageError


def read_address(
    archive: str | None, s3: S3Options | None, prefix: str, wrong: dict[str, str]
) -> str:
    """Return the address that ``archive`` names, or that of the bucket; what is wrong is noted.

    Without ``s3`` it was said already what is wrong with the bucket's keys.
    """
    if archive is not None:
        return archive
    bucket = s3.s3_bucket_name if s3 is not None else None
    if not bucket:
        if s3 is not None:
            wrong.setdefault("s3.bucket.name", "missing: it says where the archive is")
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
    """Return how the bucket is reached; None when that cannot be told, which is noted."""
    try:
        return s3.to_storage(environ, default_region=region) if s3 is not None else None
    except UsageError as error:
        wrong["store.url"] = error.message
        return None
