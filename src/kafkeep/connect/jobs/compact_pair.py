"""The document that a pair share, in their archive: one object per revision, created once.

``_kafkeep/.pairs/<id>/<10^20-1-revision>.json``, so that the newest comes first in a listing; the
id is a digest of the topics. The dot keeps it apart from logs, whose names cannot begin with one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from kafkeep.archive.document import (
    FIRST_VERSION,
    as_dict,
    as_int,
    as_str,
    dump_document,
    parse_document,
    reading,
)
from kafkeep.archive.keys import LAST_NUMBER, ROOT
from kafkeep.archive.numbered import iter_numbered
from kafkeep.archive.seal import check_seal, check_whole, read_sound, seal
from kafkeep.archive.store import ObjectStore
from kafkeep.connect.jobs.compact_roles import Member, Pair, Phase
from kafkeep.errors import KeyExistsError, UnknownOutcomeError

FOLDER = f"{ROOT}.pairs/"
MAX_BYTES = 1 << 20


def pair_id(topics: Sequence[str], topics_regex: str | None) -> str:
    """Return what names the pair: connectors of the same topics, in one archive, are one."""
    told = dump_document({"topics": sorted(set(topics)), "topics.regex": topics_regex or ""})
    return hashlib.sha256(told).hexdigest()[:32]


class PairDocument:
    """The document of one pair."""

    def __init__(self, store: ObjectStore, id: str) -> None:
        self._store = store
        self._prefix = f"{FOLDER}{id}/"

    def load(self) -> Pair:
        """Return its newest revision."""
        found = next(iter_numbered(self._store, self._prefix, digits=20), None)
        if found is None:
            return Pair()
        return _decode(read_sound(self._store, found.key, max_bytes=MAX_BYTES), found.key)

    def put(self, pair: Pair) -> bool:
        """Create a revision; False when another came first, or nobody can tell.

        Whoever is told False loads it again: what was written is in it then.
        """
        try:
            self._store.put_new(self._key(pair.revision), _encode(pair))
        except (KeyExistsError, UnknownOutcomeError):
            return False
        return True

    def _key(self, revision: int) -> str:
        return f"{self._prefix}{LAST_NUMBER - revision:020d}.json"


def _encode(pair: Pair) -> bytes:
    members = {
        name: {"phase": str(m.phase), "since_ms": m.since_ms, "order": m.order}
        for name, m in pair.members.items()
    }
    return seal(
        {
            "version": FIRST_VERSION,
            "revision": pair.revision,
            "begun_ms": pair.begun_ms,
            "members": members,
        }
    )


def _decode(body: bytes, key: str) -> Pair:
    check_whole(body, key)
    document = parse_document(body, key)
    check_seal(body, document, key, ("version", "revision", "begun_ms", "members"))
    with reading(key):
        members = {
            name: Member(
                Phase(as_str(member["phase"])),
                as_int(member["since_ms"]),
                as_int(member["order"]),
            )
            for name, member in as_dict(document["members"]).items()
        }
        return Pair(as_int(document["revision"]), as_int(document["begun_ms"]), members)
