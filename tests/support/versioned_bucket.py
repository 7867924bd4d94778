"""A bucket that keeps every version of an object, to see what was replaced or deleted."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass
from typing import Any

import boto3


@dataclass(frozen=True)
class VersionedBucket:
    """A bucket with versions, and boto's own client on it."""

    name: str
    client: Any

    @classmethod
    def create(cls, endpoint: str) -> VersionedBucket:
        """Create a bucket of a new name; credentials come from the environment."""
        made = cls(
            f"every-version-{uuid.uuid4().hex[:8]}", boto3.client("s3", endpoint_url=endpoint)
        )
        made.client.create_bucket(Bucket=made.name)
        made.client.put_bucket_versioning(
            Bucket=made.name, VersioningConfiguration={"Status": "Enabled"}
        )
        return made

    def count_versions(self) -> Counter[str]:
        """Return how many versions each key has, also one that was deleted."""
        return Counter(version["Key"] for version in self._list()["Versions"])

    def deleted_keys(self) -> set[str]:
        """Return the keys of which an object was deleted."""
        return {marker["Key"] for marker in self._list().get("DeleteMarkers", [])}

    def _list(self) -> dict[str, Any]:
        told: dict[str, Any] = self.client.list_object_versions(Bucket=self.name)
        assert not told["IsTruncated"]
        return told
