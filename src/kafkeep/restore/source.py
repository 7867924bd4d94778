"""What a restore reads: the log it chooses, and which of its objects are sound. On the driver."""

from __future__ import annotations

import hashlib

from kafkeep.archive.reader import ArchiveView, load_views
from kafkeep.archive.store import ObjectStore
from kafkeep.config.restore import RestoreOptions
from kafkeep.contents.choice import choose_logs, choose_view
from kafkeep.contents.options import NO_OPTIONS, ReadOptions, load_read_options
from kafkeep.contents.windows import SEGMENT
from kafkeep.errors import KeyMissingError, NoSuchArchiveError
from kafkeep.restore.plan import RestorePlan


def no_archive(store: ObjectStore) -> NoSuchArchiveError:
    """Return the error for an address where nothing is."""
    return NoSuchArchiveError(
        f"there is no archive at {store.describe()}",
        hint="Check the address; kafkeep backup makes one.",
    )


def choose_log(store: ObjectStore, options: RestoreOptions) -> str:
    """Return the log to read: the one named, the only one, or the one that loses least."""
    logs = choose_logs(store, options.name, commit=options.commit)
    if len(logs) == 1:
        return logs[0]
    views = load_views(store, logs, options.at_ms)
    topics = {source for source, _ in options.topics}
    if options.topics_regex is not None:
        topics = {name for view in views for name, _ in view.topics if options.wants(name)}
    return choose_view(views, topics or None).name


def read_options(store: ObjectStore, view: ArchiveView, plan: RestorePlan) -> ReadOptions:
    """Return how the log's objects were made; segments need not be told."""
    formats = {entry.format for topic in plan.topics for entry in topic.entries}
    return load_read_options(store, view) if formats - {SEGMENT} else NO_OPTIONS


def damaged_objects(
    store: ObjectStore, plan: RestorePlan, missing: frozenset[str]
) -> frozenset[str]:
    """Read every object and compare digests: only asked for with ``--allow-missing``."""
    bad = set()
    for topic in plan.topics:
        for entry in topic.entries:
            if entry.key in missing:
                continue
            try:
                digest = hashlib.sha256(store.get(entry.key)).hexdigest()
            except KeyMissingError:
                digest = ""
            if digest != entry.sha256:
                bad.add(entry.key)
    return frozenset(bad)
