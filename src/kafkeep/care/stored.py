"""What lies in the store where data belongs: objects that logs name, and left-overs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from kafkeep.archive.entry import Entry
from kafkeep.archive.keys import DATA_FOLDER, ROOT
from kafkeep.archive.reader import ArchiveView
from kafkeep.archive.store import ObjectStore


def list_data(store: ObjectStore, entries: Iterable[Entry]) -> dict[str, int]:
    """Return the sizes of all objects in ``topics/``, and where else these entries have theirs.

    Other folders may be anybody's: they are not looked at.
    """
    folders = sorted({f"{DATA_FOLDER}/", *map(_folder, entries)})
    outermost = [f for f in folders if not any(f != g and f.startswith(g) for g in folders)]
    return {
        info.key: info.size_bytes
        for folder in outermost
        for info in store.list(folder)
        if not info.key.startswith(ROOT)
    }


def find_left_overs(
    listed: Mapping[str, int],
    named: Collection[str],
    reload: Callable[[], Iterable[ArchiveView]],
) -> dict[str, int]:
    """Return the objects that no log names, with their sizes.

    ``reload`` loads all logs anew: a running backup may have committed what was listed since.
    """
    unknown = {key: size for key, size in listed.items() if key not in named}
    if unknown:
        for view in reload():
            for entry in (*view.entries(), *view.retired()):
                unknown.pop(entry.key, None)
    return unknown


def _folder(entry: Entry) -> str:
    """Return the folder above the topic's, or the topic's where there is none above."""
    parts = entry.key.split("/")
    topic = entry.partition_id.topic
    for number, part in enumerate(parts[:-1]):
        if part.partition("~")[0] == topic:
            return "/".join(parts[: number or 1]) + "/"
    return parts[0] + "/" if len(parts) > 1 else entry.key
