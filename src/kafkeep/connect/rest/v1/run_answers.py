"""How runs are answered, whatever their kind. Pure."""

from __future__ import annotations

from kafkeep.connect.model import Json
from kafkeep.connect.rest.answers import format_time
from kafkeep.connect.rest.call import Call
from kafkeep.connect.rest.json_schemas import (
    MAYBE_NUMBER,
    MAYBE_TIME,
    NUMBER,
    TEXT,
    TIME,
    Schema,
    map_schema,
    object_schema,
)
from kafkeep.connect.rest.v1.root import maybe_time
from kafkeep.connect.runs.run import Run, RunStage


def run_json(run: Run, call: Call) -> Json:
    """Return a run; secrets in what it asks for are masked unless the caller may see them."""
    progress = run.progress
    return {
        "id": run.id,
        "state": run.stage.value,
        "is_stopping": run.is_stopping,
        "config": call.shown(run.asked),
        "created": format_time(run.created_ms),
        "created_by": run.created_by,
        "started": maybe_time(run.started_ms),
        "started_by": run.started_by,
        "ended": maybe_time(run.ended_ms),
        "worker_id": run.worker_id,
        "progress": None
        if progress is None
        else {
            "phase": progress.phase,
            "done": progress.done,
            "total": progress.total,
            "unit": progress.unit,
            "bytes": progress.bytes,
            "per_second": progress.per_second,
            "seconds_left": progress.seconds_left,
            "note": progress.note,
        },
        "verdict": run.verdict,
        "result": dict(run.result),
        "has_report": bool(run.report),
        "error": run.error,
        "hint": run.hint,
    }


_PROGRESS: Schema = {
    **object_schema(
        {
            "phase": TEXT,
            "done": NUMBER,
            "total": {"type": ["integer", "null"]},
            "unit": TEXT,
            "bytes": NUMBER,
            "per_second": MAYBE_NUMBER,
            "seconds_left": MAYBE_NUMBER,
            "note": {"type": "string", "description": "Why it waits and tries again, if it does."},
        }
    ),
    "type": ["object", "null"],
}
RUN: Schema = object_schema(
    {
        "id": TEXT,
        "state": {"type": "string", "enum": [stage.value for stage in RunStage]},
        "is_stopping": {"type": "boolean"},
        "config": map_schema(TEXT),
        "created": TIME,
        "created_by": TEXT,
        "started": MAYBE_TIME,
        "started_by": TEXT,
        "ended": MAYBE_TIME,
        "worker_id": TEXT,
        "progress": _PROGRESS,
        "verdict": {"type": "string", "enum": ["", "good", "warn", "bad"]},
        "result": {"type": "object"},
        "has_report": {"type": "boolean"},
        "error": TEXT,
        "hint": TEXT,
    }
)
