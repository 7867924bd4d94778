"""Commits changed on purpose, with a checksum that fits: damage that only their content shows."""

from __future__ import annotations

import hashlib

HEAD = len('{"checksum":"') + 64 + len('",')


def without_checksum(body: bytes) -> bytes:
    """Return a document as an older kafkeep wrote it."""
    return b"{" + body[HEAD:]


def forged(body: bytes, old: bytes, new: bytes) -> bytes:
    """Return the document with ``new`` in place of ``old``."""
    plain = without_checksum(body).replace(old, new)
    return b'{"checksum":"%s",%s' % (hashlib.sha256(plain).hexdigest().encode(), plain[1:])
