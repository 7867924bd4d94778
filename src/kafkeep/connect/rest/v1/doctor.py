"""The call under ``/kafkeep/v1/doctor`` that checks what the worker needs."""

from __future__ import annotations

from starlette.responses import Response

from kafkeep.connect.rest.answers import json_answer
from kafkeep.connect.rest.call import Call, Endpoint
from kafkeep.connect.rest.json_schemas import MAYBE_TEXT, NUMBER, TEXT, list_schema, object_schema
from kafkeep.connect.rest.v1.root import ROOT
from kafkeep.connect.service.service import ConnectService
from kafkeep.connect.worker.rest_security import Role


def examine(service: ConnectService, call: Call) -> Response:
    """Run the checks and answer with their results."""
    parts = service.catalog.doctor.examine()
    return json_answer(
        {
            "parts": [
                {
                    "title": one.title,
                    "place": one.place,
                    "verdict": one.verdict.value,
                    "checks": [check.to_json() for check in one.checks],
                }
                for one in parts
            ]
        }
    )


_VERDICT = {"type": "string", "enum": ["pass", "warn", "fail"]}
CHECK = object_schema(
    {
        "verdict": _VERDICT,
        "subject": TEXT,
        "what": TEXT,
        "hint": MAYBE_TEXT,
        "exit_code": NUMBER,
    }
)
ENDPOINTS = (
    Endpoint(
        method="POST",
        path=f"{ROOT}/doctor",
        role=Role.OPERATE,
        run=examine,
        help="Check the worker's machine, Kafka, state and archives, as kafkeep doctor does.",
        answers={200: "Examination"},
    ),
)
SCHEMAS = {
    "Examination": object_schema(
        {
            "parts": list_schema(
                object_schema(
                    {
                        "title": TEXT,
                        "place": TEXT,
                        "verdict": _VERDICT,
                        "checks": list_schema(CHECK),
                    }
                )
            )
        }
    )
}
