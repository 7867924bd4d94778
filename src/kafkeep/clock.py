"""The name under which reports and traces say what made them.

The clock and the name of this process: passed in everywhere else.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from importlib.metadata import version


def now_ms() -> int:
    """Return milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000


def writer_id() -> str:
    """Return a name no other process has: for people to recognise, for the log to tell apart."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


TOOL = f"kafkeep {version('kafkeep')}"
