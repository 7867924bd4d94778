"""The plan of a restore as one document: ``restore --dry-run --output json``, and REST. Pure."""

from __future__ import annotations

from typing import Any

from kafkeep.restore.preflight import Preflight
from kafkeep.restore.routing.plan import target_shares


def plan_json(preflight: Preflight) -> dict[str, Any]:
    """Return a plan and its preflight as one document."""
    plan = preflight.plan
    return {
        "message_type": "plan",
        "id": plan.id,
        "log": plan.log,
        "commit": plan.commit,
        "records": plan.records,
        "bytes": plan.raw_bytes,
        "read_bytes": plan.read_bytes,
        "lost": sorted(preflight.lost),
        "topics": [
            {
                "source": t.source.topic,
                "incarnation": t.source.incarnation,
                "target": t.target,
                "partitions": t.target_count,
                "objects": len(t.entries),
                "records": t.records,
                "bytes": t.raw_bytes,
                "read_bytes": t.read_bytes,
                "shares": list(target_shares(t)),
            }
            for t in plan.topics
        ],
        "groups": [move.to_json() for move in preflight.groups.moves],
        "schemas": None if preflight.schemas is None else preflight.schemas.to_json(),
        "preflight": [check.to_json() for check in preflight.checks],
    }
