"""The options of a restore."""

from __future__ import annotations

from dataclasses import dataclass

from kafkeep.config.choose import positive
from kafkeep.config.option import option
from kafkeep.config.units import parse_size, parse_time
from kafkeep.errors import UsageError


def parse_renames(text: str) -> tuple[tuple[str, str], ...]:
    """Turn ``a,b:new-b`` into pairs of archived name and target name."""
    pairs = []
    for part in text.split(","):
        source, _, target = part.strip().partition(":")
        if not source or (":" in part and not target):
            raise UsageError(f"{part!r} is not a topic", hint="Write --topics a,b:new-b.")
        pairs.append((source, target or source))
    targets = [target for _, target in pairs]
    if len(set(targets)) != len(targets):
        raise UsageError(f"two topics would be restored into one: {text}")
    return tuple(pairs)


@dataclass(frozen=True, kw_only=True)
class RestoreOptions:
    """What to restore, and into what."""

    topics: tuple[tuple[str, str], ...] = option(
        "topics",
        "Topics to restore, with new names if wished: a,b:new-b. Default: all.",
        default=(),
        parse=parse_renames,
        metavar="NAMES",
    )
    name: str | None = option(
        "name", "The log to restore from, where the archive has several.", default=None, parse=str
    )
    commit: int | None = option(
        "commit", "Restore what this commit held.", default=None, parse=int, metavar="N"
    )
    at_ms: int | None = option(
        "at",
        "Restore what the last commit made at or before this time held.",
        default=None,
        parse=parse_time,
        metavar="TIME",
    )
    replication_factor: int | None = option(
        "replication.factor",
        "Replicas of created topics, instead of the archived number.",
        default=None,
        parse=positive("replication factor"),
        metavar="N",
    )
    rate_bytes: int | None = option(
        "rate",
        "Write at most this many bytes a second.",
        default=None,
        parse=parse_size,
        metavar="SIZE",
    )
    apply_retention: bool = option(
        "apply.retention",
        "Put archived retention back even where it deletes restored records at once.",
        default=False,
    )
    into_non_empty: bool = option(
        "into.non.empty", "Append to target topics that already hold records.", default=False
    )
    restore_aborted: bool = option(
        "restore.aborted",
        "Also restore records of aborted transactions, where archived.",
        default=False,
    )
    allow_missing: bool = option(
        "allow.missing",
        "Leave out damaged or missing objects, and list what is lost.",
        default=False,
    )
    state: str | None = option(
        "state",
        "Folder or address for the restore's document, when the archive is read-only.",
        default=None,
        parse=str,
        metavar="ADDRESS",
    )
    dry_run: bool = option(
        "dry.run", "Print the plan and the preflight; write nothing.", default=False
    )

    def __post_init__(self) -> None:
        if self.commit is not None and self.at_ms is not None:
            raise UsageError("commit and at cannot both be given")
