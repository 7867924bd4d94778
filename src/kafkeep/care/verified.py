"""The trace that a clean verify leaves beside the log: when it was, and what it looked at.

``_kafkeep/<log>/verified/<ms>.json``, created once. Only the newest matters; older ones are small.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from kafkeep.archive.keys import ROOT, check_log_name
from kafkeep.archive.store import ObjectStore
from kafkeep.care.tool import TOOL
from kafkeep.errors import AccessDeniedError, KeyExistsError

VERSION = 1
_DAY_MS = 86_400_000
_LOOK_BACK_MS = (7 * _DAY_MS, 90 * _DAY_MS)
_NAME = re.compile(r"([0-9]{15})\.json")


def verified_prefix(log: str) -> str:
    """Return where a log's traces lie."""
    return f"{ROOT}{check_log_name(log)}/verified/"


def save_verified(store: ObjectStore, log: str, at_ms: int, document: dict[str, Any]) -> bool:
    """Leave a trace; False when the archive may not be written to."""
    body = {"version": VERSION, "tool": TOOL, "at_ms": at_ms, **document}
    try:
        store.put_new(f"{verified_prefix(log)}{at_ms:015d}.json", orjson.dumps(body))
    except KeyExistsError:
        return True  # another one ended in the same millisecond
    except AccessDeniedError:
        return False
    return True


def last_verified_ms(store: ObjectStore, log: str, now_ms: int) -> int | None:
    """Return when the log was last found sound, or None; asks for the newest names first."""
    prefix = verified_prefix(log)
    for back in (*_LOOK_BACK_MS, now_ms):
        after = f"{prefix}{max(0, now_ms - back):015d}.json"
        times = [
            int(match[1])
            for info in store.list(prefix, after=after)
            if (match := _NAME.fullmatch(info.key.removeprefix(prefix)))
        ]
        if times:
            return max(times)
    return None
