"""The wall clock, and the names of this process and of this program."""

from __future__ import annotations

import os
import socket
import time
import uuid


def now_ms() -> int:
    """Return milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000


def writer_id() -> str:
    """Return a unique name for this process: host, process id and a random part."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def tool_name() -> str:
    """Return the name and version that reports record as their author."""
    from importlib.metadata import version  # noqa: PLC0415 - keeps --help fast

    return f"kafkeep {version('kafkeep')}"
