"""Checksums sent with bytes, so that the store finds what the network changed."""

from __future__ import annotations

import base64
import hashlib

from isal import isal_zlib


class Digests:
    """The CRC32 of what was added, and its MD5 where that is wanted too."""

    def __init__(self, *, md5: bool) -> None:
        self._crc = 0
        self._md5 = hashlib.md5(usedforsecurity=False) if md5 else None

    def update(self, data: memoryview) -> None:
        """Add bytes."""
        self._crc = isal_zlib.crc32(data, self._crc)
        if self._md5 is not None:
            self._md5.update(data)

    def arguments(self) -> dict[str, str]:
        """Return what a request that sends these bytes says of them."""
        said = {"ChecksumCRC32": _base64(self._crc.to_bytes(4, "big"))}
        if self._md5 is not None:
            said["ContentMD5"] = _base64(self._md5.digest())
        return said


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
