"""Documents that are named by a number, such as ``000000000007.json``, in a folder of their own.

A stray file beside them (an editor's backup, a desktop's index file) is not one of them: it is
ignored with one warning, so that it cannot stop whoever reads the folder.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from functools import lru_cache

from kafkeep.archive.object_store import ObjectInfo, ObjectStore

_DIGITS = re.compile(r"[0-9]{1,20}")
_COUNTED_DOWN_DIGITS = 20
"""Folders whose numbers begin at the last one of so many digits, and go down."""
_END = 2**63
"""Numbers that go up are below it: a larger one does not fit into the document after it."""
_REMEMBERED_WARNINGS = 1000
logger = logging.getLogger(__name__)


def iter_numbered(
    store: ObjectStore, folder: str, *, digits: int = 12, suffix: str = ".json", after: str = ""
) -> Iterator[ObjectInfo]:
    """Yield the numbered documents right in ``folder``, in key order, past the key ``after``.

    Lazy, as ``list`` is. Numbers are padded to ``digits``. A key with any other name is left out;
    the log names it once.
    """
    for info in store.list(folder, after=after):
        if _is_numbered(info.key.removeprefix(folder), digits, suffix):
            yield info
        else:
            _warn_once(store.describe(), info.key)


def number_of(key: str) -> int:
    """Return the number in the name of a document that ``iter_numbered`` yields."""
    return int(key.rpartition("/")[2].partition(".")[0])


def _is_numbered(name: str, digits: int, suffix: str) -> bool:
    number = name.removesuffix(suffix)
    if not name.endswith(suffix) or not _DIGITS.fullmatch(number):
        return False
    if digits < _COUNTED_DOWN_DIGITS and int(number) >= _END:
        return False
    return number == f"{int(number):0{digits}d}"


@lru_cache(maxsize=_REMEMBERED_WARNINGS)
def _warn_once(where: str, key: str) -> None:
    logger.warning("%s: %s is no document of kafkeep's and is ignored", where, key)
