"""A resumable upload to Google Cloud Storage.

Google's library begins the upload, with the condition that there is no object. The condition holds
when the upload is completed. The bytes are sent here, because the library's writer cannot continue
after a failed request.
"""

from __future__ import annotations

import base64
from contextlib import suppress

import requests
from google.cloud.storage import Blob
from google_crc32c import extend

from kafkeep.errors import EnvironmentFault, KafkeepError, TransientError
from kafkeep.store.google.client import TIMEOUT_S, GoogleClient, check_session, google_request
from kafkeep.store.request_times import RequestTimes

CHUNK_BYTES = 256 * 1024
"""All requests but the last send a multiple of this size."""


class Crc32c:
    """The CRC32C of the added bytes, in the form that Google verifies."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes | memoryview) -> None:
        """Add bytes."""
        self._value = extend(self._value, data if isinstance(data, bytes) else bytes(data))

    def encode(self) -> str:
        """Return it in Base64."""
        return base64.b64encode(self._value.to_bytes(4, "big")).decode()


class GoogleParts:
    """One session of a resumable upload. Its parts are ranges of bytes, sent in order."""

    def __init__(
        self, blob: Blob, client: GoogleClient, key: str, times: RequestTimes | None
    ) -> None:
        self._blob = blob
        self._client = client
        self._key = key
        self._times = times
        self._crc = Crc32c()
        self._stored = 0
        self._last = b""
        self._failed = False
        with google_request("CreateMultipartUpload", f"beginning {key}", times):
            self._session = blob.create_resumable_upload_session(
                content_type="application/octet-stream",
                if_generation_match=0,
                checksum=None,
                timeout=TIMEOUT_S,
                retry=None,
            )

    def put(self, body: bytes, *, last: bool) -> None:
        """Send the next bytes. The last ones are kept for ``complete``."""
        if last:
            self._last = body
        else:
            self._send(body, None)
            self._stored += len(body)
        self._crc.update(body)

    def complete(self) -> None:
        """Send the last bytes and the size, which creates the object conditionally."""
        answer = self._send(self._last, self._stored + len(self._last))
        wanted = self._crc.encode()
        found = answer.json().get("crc32c", wanted)
        if found != wanted:
            raise EnvironmentFault(
                f"{self._key} differs from what was sent: its CRC32C is {found}, not {wanted}"
            )

    def abort(self) -> None:
        """End the session. If that fails, Google discards it after a week."""
        with suppress(KafkeepError, requests.RequestException):
            self._client.http.delete(self._session, timeout=TIMEOUT_S)

    def _send(self, body: bytes, total: int | None) -> requests.Response:
        """Send bytes until the store has them all; with ``total``, until it has the object.

        After a failure the store may have some of the bytes, or the object, so it is asked first.
        """
        end = self._stored + len(body)
        if self._failed:
            answer = self._request(b"", "bytes */*")
        else:
            self._failed = True
            answer = self._put(body, self._stored, total)
        while answer.status_code == 308 and ((has := _received(answer)) < end or total is not None):
            if has < self._stored:
                raise EnvironmentFault(f"the store lost bytes of {self._key} that it had confirmed")
            answer = self._put(body[has - self._stored :], has, total)
            if answer.status_code == 308 and _received(answer) <= has:
                raise TransientError(f"creating {self._key}: the store takes no bytes after {has}")
        self._failed = False
        return answer

    def _put(self, data: bytes, start: int, total: int | None) -> requests.Response:
        extent = f"{start}-{start + len(data) - 1}" if data else "*"
        return self._request(data, f"bytes {extent}/{'*' if total is None else total}")

    def _request(self, data: bytes, content_range: str) -> requests.Response:
        what = f"creating {self._key}"
        headers = {"Content-Range": content_range, "Content-Length": str(len(data))}
        with google_request("UploadPart", what, self._times, writes=True):
            answer = self._client.http.put(
                self._session, data=data, headers=headers, timeout=TIMEOUT_S
            )
        check_session(answer, what)
        return answer


def _received(answer: requests.Response) -> int:
    """Return how many bytes of the object the store has."""
    return int(answer.headers.get("Range", "bytes=0--1").partition("-")[2]) + 1
