"""A proxy before an S3 server that does what networks and servers do on bad days.

::

    with FaultProxy("http://127.0.0.1:8333") as proxy:
        proxy.add(Rule(Lose(), method="PUT", path="/log/", times=1))
        ...  # use proxy.url as the endpoint

The Host header passes unchanged, so signatures hold. Each request is answered on a connection of
its own. Rules are tried in order; the first that matches and is not used up applies.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.support.faults.on_thread import OnThread


@dataclass(frozen=True)
class Delay:
    """Forward, and answer this much later."""

    seconds: float


@dataclass(frozen=True)
class Reset:
    """Break the connection; the server never sees the request."""


@dataclass(frozen=True)
class Answer:
    """Answer in the server's place; it never sees the request. 200 makes an error in a success."""

    status: int
    code: str = "InternalError"


@dataclass(frozen=True)
class Lose:
    """Let the server do it, then break the connection instead of answering."""


@dataclass(frozen=True)
class Replace:
    """Let the server do it, then answer something else."""

    status: int
    code: str = "InternalError"


@dataclass(frozen=True)
class Truncate:
    """Break the connection after so many bytes of the answer's body."""

    keep_bytes: int


@dataclass(frozen=True)
class Flip:
    """Change one byte of the answer's body."""

    position: int = 0


@dataclass(frozen=True)
class Hold:
    """Forward when the event is set; the server sees nothing before."""

    event: threading.Event


Fault = Delay | Hold | Reset | Answer | Lose | Replace | Truncate | Flip


@dataclass
class Rule:
    """A fault for the requests that match: after ``skip`` of them, ``times`` times (0: always)."""

    fault: Fault
    method: str = "[A-Z]+"
    path: str = ""
    times: int = 0
    skip: int = 0
    hits: int = 0
    applied: int = 0

    def take(self, method: str, path: str) -> bool:
        if not re.fullmatch(self.method, method) or not re.search(self.path, path):
            return False
        self.hits += 1
        if self.hits <= self.skip or (self.times and self.applied >= self.times):
            return False
        self.applied += 1
        return True


@dataclass
class FaultProxy(OnThread):
    """Runs on a thread of its own while the ``with`` block lasts; ``seen`` has every request."""

    target: str
    rules: list[Rule] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    def add(self, *rules: Rule) -> None:
        self.rules.extend(rules)

    def clear(self) -> None:
        self.rules.clear()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            method, path = head.split(b" ", 2)[:2]
            if re.search(rb"(?i)\r\nexpect:", head):
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            await self._answer(method.decode(), path.decode(), head, body, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, method: str, path: str, head: bytes, body: bytes, writer: asyncio.StreamWriter
    ) -> None:
        self.seen.append(f"{method} {path}")
        fault = next((rule.fault for rule in self.rules if rule.take(method, path)), None)
        if isinstance(fault, Reset):
            return _break(writer)
        while isinstance(fault, Hold) and not fault.event.is_set():
            await asyncio.sleep(0.02)
        if isinstance(fault, Answer):
            answer = _error(method, fault.status, fault.code)
        else:
            answer = await self._forward(head, body)
        if isinstance(fault, Lose):
            return _break(writer)
        if isinstance(fault, Replace):
            answer = _error(method, fault.status, fault.code)
        if isinstance(fault, Delay):
            await asyncio.sleep(fault.seconds)
        start = answer.index(b"\r\n\r\n") + 4
        if isinstance(fault, Flip):
            at = start + fault.position
            answer = answer[:at] + bytes([answer[at] ^ 1]) + answer[at + 1 :]
        if isinstance(fault, Truncate):
            answer = answer[: start + fault.keep_bytes]
        writer.write(answer)
        await writer.drain()

    async def _forward(self, head: bytes, body: bytes) -> bytes:
        where = urlsplit(self.target)
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        try:
            plain = re.sub(rb"(?i)\r\n(expect|connection):[^\r]*", b"", head)
            writer.write(plain[:-2] + b"Connection: close\r\n\r\n" + body)
            await writer.drain()
            answer = await reader.read()
        finally:
            writer.close()
        return re.sub(rb"(?i)\r\nconnection:[^\r]*", b"", answer, count=1).replace(
            b"\r\n", b"\r\nConnection: close\r\n", 1
        )


def _break(writer: asyncio.StreamWriter) -> None:
    # Linger 0 makes the close a reset, as a crashed server's would be.
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    writer.transport.abort()


def _error(method: str, status: int, code: str) -> bytes:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>on purpose</Message></Error>"
    head = f"HTTP/1.1 {status} On purpose\r\nContent-Type: application/xml\r\n"
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return (head + ("" if method == "HEAD" else body)).encode()
