"""Format the error of a failed connector for its status: message, hint, place, causes. Pure."""

from __future__ import annotations

import re
import traceback

from kafkeep.connect.connectors.source_keys import RESTORE, restore_options
from kafkeep.errors import KafkeepError

LONGEST_TRACE = 8_000
_LONGEST_CHAIN = 5
_FLAG = re.compile(r"--([a-z]+(?:-[a-z]+)*)")


def format_trace(error: BaseException) -> str:
    """Return an error with its hint, its place in the code and its causes, without variables."""
    lines: list[str] = []
    seen: BaseException | None = error
    for depth in range(_LONGEST_CHAIN):
        if seen is None:
            break
        kind = f"{type(seen).__module__}.{type(seen).__qualname__}"
        lines.append(("Caused by: " if depth else "") + f"{kind}: {_message(seen)}")
        if isinstance(seen, KafkeepError) and seen.hint:
            lines.append(in_keys(seen.hint))
        for frame in reversed(traceback.extract_tb(seen.__traceback__)):
            lines.append(f"\tat {frame.name} ({_short(frame.filename)}:{frame.lineno})")
        seen = seen.__cause__
    return "\n".join(lines)[:LONGEST_TRACE]


def _message(error: BaseException) -> str:
    return in_keys(error.message) if isinstance(error, KafkeepError) else str(error)


def in_keys(text: str) -> str:
    """Replace flags of ``restore`` in a sentence by the keys of a connector.

    A sentence with a whole command stays as it is.
    """
    if "kafkeep " in text:
        return text
    keys = {one.name: RESTORE + one.name for one in restore_options()} | {"topics": "topics"}

    def key_of(flag: re.Match[str]) -> str:
        return keys.get(flag[1].replace("-", "."), flag[0])

    return _FLAG.sub(key_of, text)


def _short(filename: str) -> str:
    """Return the path from the package on, without the folder it is installed in."""
    for package in ("/kafkeep/", "/site-packages/"):
        _, found, rest = filename.rpartition(package)
        if found:
            return package.strip("/") + "/" + rest if package == "/kafkeep/" else rest
    return filename.rpartition("/")[2]
