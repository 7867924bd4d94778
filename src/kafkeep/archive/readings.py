"""Tells damage in the store from damage on the way: bytes that are not intact are read again.

Damage in the store reads the same every time. Bytes that a network, a proxy or a memory module
changes on the way come otherwise, and some readings come intact.
"""

from __future__ import annotations

import hashlib
from collections import Counter

from kafkeep.errors import TransientError

ENOUGH = 6
"""So many equal readings show that bytes lie so in the store."""
WHOLE_READS = 4
"""Fewer of a whole object, which may be large."""
MOST = 24
"""After so many readings without an end the way to the store is at fault."""
HINT = (
    "Check network, proxies and memory on the way to the store, then run it again. "
    "Nothing shows that the archive itself is damaged."
)


class Readings:
    """The readings of one thing that did not come intact.

    Where every second answer is changed, the chance that ``MOST`` readings in a row are is below
    one in ten million.
    """

    def __init__(self, name: str, enough: int = ENOUGH) -> None:
        self._name = name
        self._enough = enough
        self._seen: Counter[bytes] = Counter()

    @property
    def differ(self) -> bool:
        """Whether not all readings so far were the same."""
        return len(self._seen) > 1

    def lies_so(self, data: bytes | memoryview, enough: int | None = None) -> bool:
        """Note a reading that is not intact; True once it is known to lie so in the store.

        False means: read it again. TransientError when the readings keep differing.
        """
        reading = hashlib.blake2b(data).digest()
        self._seen[reading] += 1
        if self._seen[reading] >= (enough or self._enough):
            return True
        if self._seen.total() >= MOST:
            raise TransientError(
                f"{self._name} came with {len(self._seen)} different contents in "
                f"{self._seen.total()} readings: its bytes change on the way",
                hint=HINT,
            )
        return False
