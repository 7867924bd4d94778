"""A proxy before one Kafka broker that can keep what a client writes, and deliver it late.

::

    with HoldingProxy("127.0.0.1:9092") as proxy:
        ...  # use proxy.address as the bootstrap server
        proxy.hold()            # from now on, requests that write are kept
        driver.kill()           # their sender dies; the broker does not know
        proxy.release()         # now they arrive, and the broker answers nobody

Answers that name the broker are changed to name the proxy, so every connection goes through it.
What follows a kept request on its connection is kept too: a connection has an order.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from tests.support.faults.on_thread import OnThread

PRODUCE, DELETE_RECORDS, ADD_PARTITIONS, END_TXN = 0, 21, 24, 26
WRITES = frozenset({PRODUCE, DELETE_RECORDS, ADD_PARTITIONS, END_TXN})
METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER = 3, 10, 60
NAMING = frozenset({METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER})
WAIT = 20.0


@dataclass(eq=False)
class _Connection:
    """One client's connection, and the one to the broker that stands for it."""

    broker_reader: asyncio.StreamReader
    broker: asyncio.StreamWriter
    client: asyncio.StreamWriter
    kept: list[bytes] = field(default_factory=list)
    asked: dict[int, int] = field(default_factory=dict)
    """Correlation id to API key of requests the broker has not answered."""
    client_gone: bool = False

    def send(self, frame: bytes) -> None:
        api, _, correlation = struct.unpack_from(">hhi", frame)
        self.asked[correlation] = api
        self.broker.write(struct.pack(">i", len(frame)) + frame)


class HoldingProxy(OnThread):
    """Runs on a thread of its own while the ``with`` block lasts."""

    def __init__(self, broker: str) -> None:
        host, _, port = broker.rpartition(":")
        self.host, self._broker_port = host, int(port)
        self._holding = False
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"{self.host}:{self.port}"

    @property
    def kept(self) -> int:
        """How many requests that write are kept."""
        frames = [frame for one in tuple(self._connections) for frame in tuple(one.kept)]
        return sum(struct.unpack_from(">h", frame)[0] in WRITES for frame in frames)

    def hold(self) -> None:
        """Keep requests that write, from now on."""
        self._holding = True

    def pass_on(self) -> None:
        """Let new requests through again; those that are kept stay kept."""
        self._holding = False

    def release(self) -> int:
        """Deliver what is kept of senders that are gone; return how many requests wrote.

        The broker has answered them then.
        """
        return int(self._call(self._release()))

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(2 * WAIT)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker = await asyncio.open_connection(self.host, self._broker_port)
        one = _Connection(broker_reader, broker, writer)
        self._connections.add(one)
        answers = asyncio.ensure_future(self._answer(one))
        self._tasks.add(answers)
        answers.add_done_callback(self._tasks.discard)
        try:
            while True:
                frame = await _read_frame(reader)
                api = struct.unpack_from(">h", frame)[0]
                if one.kept or (self._holding and api in WRITES):
                    one.kept.append(frame)
                else:
                    one.send(frame)
                    await broker.drain()
        except (OSError, asyncio.IncompleteReadError):
            one.client_gone = True
            writer.close()
            if not one.kept:
                self._close(one)

    async def _answer(self, one: _Connection) -> None:
        """Hand the broker's answers on, as long as there is somebody to take them."""
        try:
            while True:
                frame = await _read_frame(one.broker_reader)
                api = one.asked.pop(struct.unpack_from(">i", frame)[0], -1)
                if one.client_gone:
                    continue
                frame = self._renamed(frame) if api in NAMING else frame
                one.client.write(struct.pack(">i", len(frame)) + frame)
                await one.client.drain()
        except (OSError, asyncio.IncompleteReadError):
            one.client.close()
            self._close(one)

    def _renamed(self, frame: bytes) -> bytes:
        """Name the proxy where the broker names itself: as long, so nothing moves."""
        host = self.host.encode()
        real = host + struct.pack(">i", self._broker_port)
        return frame.replace(real, host + struct.pack(">i", self.port))

    async def _release(self) -> int:
        count, deadline = 0, self.loop.time() + WAIT
        for one in [one for one in self._connections if one.kept and one.client_gone]:
            frames, one.kept = one.kept, []
            for frame in frames:
                one.send(frame)
                count += struct.unpack_from(">h", frame)[0] in WRITES
            while one.asked and self.loop.time() < deadline and one in self._connections:
                await asyncio.sleep(0.01)
            self._close(one)
        return count

    def _close(self, one: _Connection) -> None:
        self._connections.discard(one)
        one.broker.close()


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    size = struct.unpack(">i", await reader.readexactly(4))[0]
    return await reader.readexactly(size)
