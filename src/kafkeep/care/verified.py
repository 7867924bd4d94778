"""The trace that a clean verify leaves beside the log: when it was, and what it looked at.

``_kafkeep/<log>/verified/<10^20-1-ms>-<ms>.json``, created once; the newest comes first,
and only it matters.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from kafkeep.archive.keys import LAST_NUMBER, ROOT, check_log_name
from kafkeep.archive.store import ObjectStore
from kafkeep.care.tool import TOOL
from kafkeep.errors import AccessDeniedError, KeyExistsError

VERSION = 1
_NAME = re.compile(r"[0-9]{20}-([0-9]+)\.json")


def verified_prefix(log: str) -> str:
    """Return where a log's traces lie."""
    return f"{ROOT}{check_log_name(log)}/verified/"


def save_verified(store: ObjectStore, log: str, at_ms: int, document: dict[str, Any]) -> bool:
    """Leave a trace; False when the archive may not be written to."""
    body = {"version": VERSION, "tool": TOOL, "at_ms": at_ms, **document}
    key = f"{verified_prefix(log)}{LAST_NUMBER - at_ms:020d}-{at_ms}.json"
    try:
        store.put_new(key, orjson.dumps(body, option=orjson.OPT_SORT_KEYS))
    except KeyExistsError:
        return True  # another one ended in the same millisecond
    except AccessDeniedError:
        return False
    return True


def last_verified_ms(store: ObjectStore, log: str) -> int | None:
    """Return when the log was last found sound, or None; costs one small listing."""
    prefix = verified_prefix(log)
    for info in store.list(prefix):
        if match := _NAME.fullmatch(info.key.removeprefix(prefix)):
            return int(match[1])
    return None
