"""Is there a log, and if not, which objects are there? What a command without one begins with."""

from __future__ import annotations

from collections.abc import Callable

from kafkeep.archive.reader import list_logs
from kafkeep.archive.store import ObjectStore
from kafkeep.config.foreign import ForeignOptions
from kafkeep.contents.foreign.index import Index
from kafkeep.contents.foreign.listing import Listing, list_foreign
from kafkeep.contents.foreign.scan import scan
from kafkeep.errors import NoSuchArchiveError, UsageError

SHOWN = 5
"""So many keys that do not fit are named."""


def without_log(
    store: ObjectStore, name: str | None, told: ForeignOptions | None
) -> ForeignOptions | None:
    """Return how objects are read that no log names; None where there is a log, or one is meant.

    ``name`` is the log that was asked for, ``told`` what was said about objects: said in vain, it
    is refused.
    """
    if name is None and not list_logs(store):
        return told or ForeignOptions()
    if told is not None and told.texts:
        raise UsageError(
            f"{store.describe()} has a log, which says how its objects were made",
            hint="--set and --connector-config are for objects of Confluent's sink without a log.",
        )
    return None


def list_objects(
    store: ObjectStore,
    options: ForeignOptions,
    wanted: Callable[[str], bool] = lambda _topic: True,
) -> Listing:
    """List the objects of the topics that are wanted; NoSuchArchiveError when there is none.

    UsageError when there are of other topics alone.
    """
    listing = list_foreign(store, options, wanted)
    if not listing.objects and listing.others:
        raise UsageError(
            f"no object of Confluent's sink at {store.describe()} is of a topic that is asked for",
            hint=f"There are of: {', '.join(sorted(listing.others))}.",
        )
    if not listing.objects:
        odd = f"; {listing.odd[0][0]} {listing.odd[0][1]}" if listing.odd else ""
        raise NoSuchArchiveError(
            f"there is no archive at {store.describe()}: no log of kafkeep's, and no object of "
            f"Confluent's sink under {options.naming.topics_dir or 'it'}{odd}",
            hint="Check the address, and topics.dir, directory.delim and file.delim (--set).",
        )
    return listing


def find_objects(
    store: ObjectStore,
    options: ForeignOptions,
    wanted: Callable[[str], bool] = lambda _topic: True,
    *,
    number: int = 0,
) -> Index:
    """List and read the objects of the topics that are wanted."""
    listing = list_objects(store, options, wanted)
    objects = tuple(scan(store, listing.objects, options))
    return Index(number, objects, tuple(listing.odd[:SHOWN]), listing.odd_count)
