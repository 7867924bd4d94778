"""kafka-python's connections, with each response read directly into one buffer.

kafka-python reads 4 KiB at a time, and joins, slices and copies each response about five times.
Here a response is received into a buffer of its own size, and the record batches of a Fetch are
views of that buffer. Requests are sent in slices, without a copy. Everything else (SASL, versions,
timeouts) stays kafka-python's. No other module uses kafka-python's private attributes;
tests/contract/test_kafka_client.py pins those that are used here.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np
from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.consumer import FetchResponse

MAX_FRAME_BYTES = 256 << 20  # less than the first bytes of a TLS alert, read as a size
_WOULD_BLOCK = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_VIEW_FROM_BYTES = 1024


class SpeaksTlsError(KafkaConnectionError):  # type: ignore[misc]
    """A plaintext connection was answered with a TLS alert."""


class NotKafkaError(KafkaConnectionError):  # type: ignore[misc]
    """The first bytes of an answer are not a length that Kafka would send."""


class RequestSlices(list[bytes | bytearray | memoryview]):
    """The slices of a request, to be sent in order without copying."""


class ResponseBuffer:
    """One answer in the interface of kafka-python's parser: a cursor that returns views."""

    def __init__(self, data: bytearray | memoryview) -> None:
        self._view = memoryview(data)
        self._at = 0

    def __len__(self) -> int:
        return len(self._view)

    def read(self, count: int | None = None) -> memoryview:
        """Return the next ``count`` bytes, or all remaining bytes."""
        start = self._at
        self._at = len(self._view) if count is None else min(start + count, len(self._view))
        return self._view[start : self._at]

    def seek(self, position: int) -> None:
        self._at = position

    def tell(self) -> int:
        """Return the position of the next read."""
        return self._at


class _Framed:
    """Replace the reading half of a kafka-python transport, and accept requests in slices."""

    _sock: Any
    _net: Any
    _protocol: Any
    _closed: bool
    _read: bool
    last_read: float
    abort: Callable[..., None]
    writelines: Callable[..., None]
    _size = memoryview(bytearray(4))
    _target: memoryview
    _filled = 0

    def write(self, data: bytes | bytearray | RequestSlices) -> None:
        """Queue ``data`` as views: TLS sends 16 KiB at a time and slices the rest."""
        pieces = data if isinstance(data, RequestSlices) else [data]
        self.writelines([memoryview(piece) for piece in pieces])

    async def _read_from_sock(self) -> None:
        self._size = self._target = memoryview(bytearray(4))
        parser = self._protocol.parser
        parser.receive_bytes = lambda frame: [parser._process_response(frame)]
        parser.send_bytes = lambda: take_requests(parser)
        while self._read and not self._closed:
            await self._net.wait_read(self._sock)
            # One frame per call, so that other connections are served. TLS may hold decrypted
            # bytes that select() does not report, so read until it would block.
            while not self._closed and self._receive():
                await self._net.sleep(0)

    def _receive(self) -> bool:
        """Read until a frame is complete (True) or the socket is empty or lost (False)."""
        try:
            while True:
                count = self._sock.recv_into(self._target[self._filled :])
                if count == 0:
                    raise KafkaConnectionError("socket disconnected")
                self._filled += count
                if self._filled == len(self._target) and self._advance():
                    return True
        except _WOULD_BLOCK:
            return False
        except KafkaConnectionError as error:
            self.abort(error=error)
        except OSError as error:
            lost = KafkaConnectionError(str(error))
            lost.__cause__ = error
            self.abort(error=lost)
        return False

    def _advance(self) -> bool:
        self.last_read = time.monotonic()
        self._filled = 0
        if self._target is self._size:
            # A bytearray would first be filled with zeros, which takes a tenth of the time.
            self._target = np.empty(_frame_size(bytes(self._size)), dtype=np.uint8).data
            return False
        body, self._target = self._target, self._size
        try:
            self._protocol.data_received(ResponseBuffer(body))
        except Exception as error:
            lost = KafkaConnectionError(str(error))
            lost.__cause__ = error
            raise lost from error
        return True


def take_requests(parser: Any) -> RequestSlices:
    """Return all requests that are queued in a parser, without joining them."""
    waiting, parser.bytes_to_send = parser.bytes_to_send, []
    pieces = RequestSlices()
    for request in waiting:
        pieces += request if isinstance(request, RequestSlices) else [request]
    return pieces


class TcpTransport(_Framed, KafkaTCPTransport):  # type: ignore[misc]
    """Plain TCP."""


class TlsTransport(_Framed, KafkaSSLTransport):  # type: ignore[misc]
    """TLS."""

    async def handshake_until(self, timeout_at: float) -> None:
        """Do the TLS handshake; kafka-python's own waits forever for a silent broker."""
        while True:
            try:
                self._sock.do_handshake()
                return
            except ssl.SSLWantReadError:
                await self._net.wait_read(self._sock, timeout_at=timeout_at)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, timeout_at=timeout_at)


class Connections(KafkaConnectionManager):  # type: ignore[misc]
    """kafka-python's connection manager over the transports above."""

    def in_flight(self, node: int | str) -> int | None:
        """Return the number of unanswered requests of a broker; None when it is not connected."""
        connection = self._conns.get(node)
        if connection is None or not connection.connected:
            return None
        return len(connection.in_flight_requests)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        timeout_at = timeout_at or time.monotonic() + 10
        sock = await _open_socket(self._net, node, self.config["socket_options"], timeout_at)
        if not self.ssl_enabled:
            return TcpTransport(self._net, sock, host=node.host)
        transport = TlsTransport(
            self._net, sock, host=node.host, ssl_context=self.config["ssl_context"]
        )
        try:
            await transport.handshake_until(timeout_at)
        except (OSError, ValueError, KafkaTimeoutError) as error:
            transport.close()
            raise KafkaConnectionError(f"Handshake failed: {error}") from error
        return transport


def call_back(
    future: Any, done: Callable[[Any], None], failed: Callable[[BaseException], None]
) -> None:
    """Call one of both with the value or the exception of a future of kafka-python."""
    future._add_cb_eb(done, failed)


def throttled_seconds(connection: Any) -> float:
    """Return how long the broker asked this connection to wait."""
    return float(connection._throttle_time - time.monotonic())


def loop_has_died(net: NetworkSelector) -> bool:
    """Return whether kafka-python's loop ended with an exception."""
    return net._exception is not None


async def _open_socket(
    net: Any, node: Any, options: Iterable[tuple[int, int, int]], timeout_at: float
) -> socket.socket:
    """Connect to the first address that answers; kafka-python leaves failed sockets open."""
    connector = KafkaNetSocket()
    failure = KafkaConnectionError("DNS Resolution failure")
    for family, kind, protocol, _, address in connector.dns_lookup(node.host, node.port):
        sock = connector.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            for option in options:
                sock.setsockopt(*option)
            return cast(
                "socket.socket",
                await connector.sock_connect(net, sock, address, timeout_at=timeout_at),
            )
        except (OSError, KafkaConnectionError) as error:
            sock.close()
            failure = KafkaConnectionError(f"unable to connect: {error}")
        except BaseException:
            sock.close()
            raise
    raise failure


def _frame_size(head: bytes) -> int:
    size = int.from_bytes(head, "big", signed=True)
    if 0 <= size <= MAX_FRAME_BYTES:
        return size
    if head[:2] == b"\x15\x03":
        raise SpeaksTlsError("answered with a TLS alert")
    raise NotKafkaError(f"answered with the bytes {head!r}")


def keep_record_views() -> None:
    """Make decoded Fetch answers hold views of the received buffer instead of copies.

    kafka-python compiles one decoder per version; each calls ``bytes`` on every field that
    holds bytes. Long fields remain views.
    """
    for version in range(4, FetchResponse.max_version + 1):
        flexible = FetchResponse.flexible_version_q(version)
        decoder = FetchResponse._struct.compiled_decode_from(
            version, compact=flexible, tagged=flexible, data_class=FetchResponse
        )
        decoder.__globals__["bytes"] = _bytes_or_view


def _bytes_or_view(view: memoryview) -> bytes | memoryview:
    return view if len(view) >= _VIEW_FROM_BYTES else bytes(view)
