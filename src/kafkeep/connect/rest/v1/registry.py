"""The resources of ``/kafkeep/v1``. A new one is a module beside this one and a line here."""

from __future__ import annotations

from kafkeep.connect.rest.call import Endpoint
from kafkeep.connect.rest.json_schemas import Schema
from kafkeep.connect.rest.v1 import (
    archive_logs,
    archives,
    checks,
    connectors,
    doctor,
    group_moves,
    groups,
    messages,
    restores,
    schemas,
    topics,
)

_RESOURCES = (
    *(connectors, topics, messages, archives, archive_logs, checks, restores),
    *(groups, group_moves, schemas, doctor),
)

ENDPOINTS: tuple[Endpoint, ...] = tuple(
    endpoint for resource in _RESOURCES for endpoint in resource.ENDPOINTS
)
SCHEMAS: dict[str, Schema] = {
    name: schema for resource in _RESOURCES for name, schema in resource.SCHEMAS.items()
}
