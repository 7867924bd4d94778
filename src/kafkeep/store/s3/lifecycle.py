"""Read, set and remove kafkeep's lifecycle rules of a bucket, and keep all other rules.

S3 replaces all rules of a bucket at once, so a concurrent change by another client may be lost. To
make that unlikely, the rules are read directly before they are written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from kafkeep.errors import AccessDeniedError, UsageError
from kafkeep.options.storage import ArchiveAddress, StorageOptions
from kafkeep.store.s3.store import S3Store

MARK = "kafkeep:"
MAX_ID = 255
_NONE = "NoSuchLifecycleConfiguration"
_UNSUPPORTED = frozenset({"NotImplemented", "MethodNotAllowed", "XNotImplemented"})
_GRANT = (
    "Grant s3:GetLifecycleConfiguration and s3:PutLifecycleConfiguration on the bucket, or set the "
    "rule by hand."
)
RawRule = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that deletes objects by age. ``prefix`` is relative to the archive's prefix."""

    id: str
    prefix: str
    days: int


def rule_id(log: str, topic: str) -> str:
    """Return the id of a topic's rule, ``kafkeep:<log>:<topic>``, shortened to S3's limit."""
    whole = f"{MARK}{log}:{topic}"
    if len(whole) <= MAX_ID:
        return whole
    return f"{whole[: MAX_ID - 17]}~{hashlib.sha256(whole.encode()).hexdigest()[:16]}"


class Lifecycle:
    """The rules of an archive's bucket."""

    def __init__(self, address: str, options: StorageOptions) -> None:
        where = ArchiveAddress.parse(address)
        if where.kind != "s3":
            raise UsageError(
                f"{address} has no lifecycle rules: only a bucket of S3 deletes old objects itself"
            )
        self._bucket, self._path = where.bucket, where.path
        self._store = S3Store(where.bucket, where.path, options)

    def load(self) -> list[RawRule]:
        """Return all rules of the bucket in S3's form."""
        try:
            with self._faults("reading"):
                answer = self._store.client.get_bucket_lifecycle_configuration(Bucket=self._bucket)
        except _NoRules:
            return []
        rules: list[RawRule] = answer.get("Rules", [])
        return rules

    def ours(self) -> dict[str, Rule]:
        """Return kafkeep's rules under the archive's prefix, by id."""
        found = {}
        for raw in self.load():
            prefix = str(raw.get("Filter", {}).get("Prefix", raw.get("Prefix", "")))
            days = raw.get("Expiration", {}).get("Days")
            if raw.get("ID", "").startswith(MARK) and days and prefix.startswith(self._folder):
                relative = prefix.removeprefix(self._folder)
                found[raw["ID"]] = Rule(raw["ID"], relative, int(days))
        return found

    def set(self, rules: Collection[Rule]) -> None:
        """Add these rules, or replace rules with the same ids. Send nothing if all exist."""
        wanted = {rule.id: self._raw(rule) for rule in rules}
        self._change(lambda raw: [r for r in raw if r.get("ID") not in wanted] + [*wanted.values()])

    def remove(self, ids: Collection[str]) -> None:
        """Remove rules of kafkeep. Ignore ids that do not exist."""
        gone = {one for one in ids if one.startswith(MARK)}
        self._change(lambda raw: [r for r in raw if r.get("ID") not in gone])

    @property
    def _folder(self) -> str:
        return f"{self._path}/" if self._path else ""

    def _raw(self, rule: Rule) -> RawRule:
        return {
            "ID": rule.id,
            "Status": "Enabled",
            "Filter": {"Prefix": self._folder + rule.prefix},
            "Expiration": {"Days": rule.days},
        }

    def _change(self, change: Callable[[Sequence[RawRule]], list[RawRule]]) -> None:
        before = self.load()
        after = change(before)
        if sorted(map(repr, map(_sorted, before))) == sorted(map(repr, map(_sorted, after))):
            return
        client = self._store.client
        with self._faults("setting"):
            if after:
                client.put_bucket_lifecycle_configuration(
                    Bucket=self._bucket, LifecycleConfiguration={"Rules": after}
                )
            else:
                client.delete_bucket_lifecycle(Bucket=self._bucket)

    @contextmanager
    def _faults(self, doing: str) -> Iterator[None]:
        what = f"{doing} the lifecycle rules of bucket {self._bucket}"
        try:
            with self._store.faults(what, writes=True):
                try:
                    yield
                except ClientError as error:
                    code = error.response.get("Error", {}).get("Code", "")
                    if code == _NONE:
                        raise _NoRules from error
                    if code in _UNSUPPORTED:
                        raise UsageError(
                            f"the store of bucket {self._bucket} has no lifecycle rules: it cannot "
                            "delete old objects by itself"
                        ) from error
                    raise
        except AccessDeniedError as error:
            raise AccessDeniedError(error.message, hint=_GRANT) from error


class _NoRules(Exception):
    """The bucket has no lifecycle rules."""


def _sorted(raw: RawRule) -> Any:
    """Return a rule with sorted keys, so that equal rules have equal texts."""
    return {key: raw[key] for key in sorted(raw)}
