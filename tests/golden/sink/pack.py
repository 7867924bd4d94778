"""Packs recorded cases of the real S3 sink into one file; run by hand, when cases are recorded.

A recorded case is a folder: ``connector.json`` (as posted), ``topic.json``, ``input.jsonl``,
``objects/<key>``, ``objects.json``, ``offsets.json``, ``dlq.jsonl``, ``notes.md``::

    python tests/golden/sink/pack.py path/to/recorded/sink

``golden_cases.py`` reads what this writes. Bytes are a string when they are UTF-8, else
``{"base64": ...}``. What can be derived (sizes, digests, decoded rows) and Java's stack traces are
left out.
"""

from __future__ import annotations

import base64
import json
import lzma
import re
import sys
from pathlib import Path
from typing import Any

PACKED = Path(__file__).parent / "cases.jsonl.xz"
STACKTRACE = "__connect.errors.exception.stacktrace"


def packed_bytes(data: bytes | None) -> Any:
    """Return bytes in a form JSON can hold and a person can read where that is possible."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _unpacked(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _record(line: dict[str, Any]) -> dict[str, Any]:
    headers = [(name, _unpacked(value)) for name, value in line["headers"]]
    cut = [(n, (v or b"").split(b"\n")[0] if n == STACKTRACE else v) for n, v in headers]
    made = {
        "topic": line["topic"],
        "partition": line["partition"],
        "offset": line["offset"],
        "timestamp": line["timestamp"],
        "key": packed_bytes(_unpacked(line["key_b64"])),
        "value": packed_bytes(_unpacked(line["value_b64"])),
        "headers": [[name, packed_bytes(value)] for name, value in cut],
    }
    if line.get("txn"):
        made["transaction"] = [line["txn"]["txn"], line["txn"]["outcome"]]
    return made


def _records(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [_record(json.loads(line)) for line in path.read_text().splitlines()]


def _task(offsets: dict[str, Any]) -> str:
    """Return what became of the connector: RUNNING, FAILED, or REFUSED when it was posted."""
    if offsets["post_error"]:
        return "REFUSED"
    states = [task["state"] for task in offsets["status_before_stop"]["tasks"]]
    return "FAILED" if "FAILED" in states else "RUNNING"


def _failure(notes: str, offsets: dict[str, Any]) -> str | None:
    """Return the sentence a failed task or a refused connector ended with."""
    if offsets["post_error"]:
        return str(offsets["post_error"]["message"])
    causes = re.findall(r"^(?:Caused by: )?([\w.$]+(?:Exception|Error)(?:: .*)?)$", notes, re.M)
    return causes[-1] if causes else None


def _phases(offsets: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "config": phase["config_changes"],
            "records": phase["records_produced"],
            "tasks": [state for state, _trace in phase["task_states"]],
        }
        for phase in offsets["phases"] or []
    ]


def pack_case(folder: Path) -> dict[str, Any]:
    """Return one recorded case as a document."""
    topic, offsets, listed = (
        json.loads((folder / name).read_text())
        for name in ("topic.json", "offsets.json", "objects.json")
    )
    notes = (folder / "notes.md").read_text() if (folder / "notes.md").exists() else ""
    objects = {entry["key"]: (folder / "objects" / entry["key"]) for entry in listed["objects"]}
    return {
        "name": folder.name,
        "connector": json.loads((folder / "connector.json").read_text()),
        "topics": {
            name: {
                "partitions": told["partitions"],
                "configs": told["configs"],
                "ends": {n: span[1] for n, span in told["watermarks_low_high"].items()},
            }
            for name, told in topic["topics"].items()
        },
        "records": _records(folder / "input.jsonl"),
        "objects": {key: packed_bytes(path.read_bytes()) for key, path in objects.items()},
        "tags": {e["key"]: e["tags"] for e in listed["objects"] if e.get("tags")},
        "committed": offsets["committed"],
        "task": _task(offsets),
        "failure": _failure(notes, offsets),
        "phases": _phases(offsets),
        "dlq": _records(folder / "dlq.jsonl"),
    }


def main(source: Path) -> None:
    """Pack every case below ``source``."""
    folders = sorted(path.parent for path in source.glob("*/connector.json"))
    lines = [json.dumps(pack_case(folder), ensure_ascii=False) for folder in folders]
    text = "\n".join(lines) + "\n"
    PACKED.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
