"""Calls about one kind of run: list, start, follow, stop and delete its runs, and read reports."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from kafkeep.connect.model import RestError
from kafkeep.connect.rest.answers import json_answer
from kafkeep.connect.rest.call import (
    Call,
    Endpoint,
    Query,
    Responder,
    get_endpoint,
    parse_config,
    without_nulls,
)
from kafkeep.connect.rest.json_schemas import NUMBER, Schema, list_schema, object_schema, ref
from kafkeep.connect.rest.v1.root import ROOT, query_number, query_text
from kafkeep.connect.rest.v1.run_answers import RUN, run_json
from kafkeep.connect.runs.asked import ARCHIVE
from kafkeep.connect.runs.run import Run
from kafkeep.connect.service import operations
from kafkeep.connect.service.operations import Operation
from kafkeep.connect.service.service import ConnectService
from kafkeep.connect.worker.rest_security import Role

_LIMIT, _MOST = 20, 200


def run_endpoints(kind: str, plural: str, title: str) -> tuple[Endpoint, ...]:
    """Return the endpoints of a kind of run under ``/kafkeep/v1/<plural>``."""
    root = f"{ROOT}/{plural}"
    one = f"{root}/{{run}}"

    def find(service: ConnectService, call: Call) -> Run:
        return service.runs.find(call.path["run"], kind)

    def list_runs(service: ConnectService, call: Call) -> Response:
        limit = query_number(call, "limit", _LIMIT, _MOST, least=1)
        archive = query_text(call, "archive")
        found = [
            run
            for run in service.runs.find_all(kind)
            if not archive or run.asked.get(ARCHIVE) == archive
        ]
        return json_answer(
            {"total": len(found), "runs": [run_json(r, call) for r in found[:limit]]}
        )

    def create(service: ConnectService, call: Call) -> Response:
        asked = without_nulls(parse_config(call.body))
        service.runs.check(kind, asked)
        draft = service.change(operations.create_run, kind, asked, call.caller)
        run = service.change(operations.start_run, draft.id, call.caller)
        answer = json_answer(run_json(run, call), 201)
        answer.headers["Location"] = f"{root}/{quote(run.id)}"
        return answer

    def get(service: ConnectService, call: Call) -> Response:
        return json_answer(run_json(find(service, call), call))

    def report(service: ConnectService, call: Call) -> Response:
        found = service.runs.report(find(service, call))
        if found is None:
            raise RestError(404, f"The {kind} {call.path['run']} has no report")
        return json_answer(found["document"])

    def restart(service: ConnectService, call: Call) -> Response:
        find(service, call)
        return json_answer(
            run_json(service.change(operations.resume_run, call.path["run"], call.caller), call),
            202,
        )

    def stops(operation: Operation[[str], Run]) -> Responder:
        def run(service: ConnectService, call: Call) -> Response:
            find(service, call)
            return json_answer(run_json(service.change(operation, call.path["run"]), call), 202)

        return run

    def delete(service: ConnectService, call: Call) -> Response:
        find(service, call)
        service.change(operations.delete_run, call.path["run"])
        return Response(status_code=204)

    return (
        get_endpoint(
            root,
            list_runs,
            "Runs",
            f"The {plural}, the newest first.",
            (
                Query(name="archive", help="Only those of this archive.", type="string"),
                Query(name="limit", help=f"How many, at most {_MOST}.", type="string"),
            ),
        ),
        Endpoint(
            method="POST",
            path=root,
            role=Role.OPERATE,
            run=create,
            help=f"{title}. The body has the options of the command as texts.",
            answers={201: "Run"},
            body="Config",
        ),
        get_endpoint(one, get, "Run", "One of them."),
        get_endpoint(f"{one}/report", report, "CheckReport", "Its report, as --report writes it."),
        Endpoint(
            method="POST",
            path=f"{one}/resume",
            role=Role.OPERATE,
            run=restart,
            help="Continue one that was paused or has failed.",
            answers={202: "Run"},
        ),
        *(
            Endpoint(
                method="POST",
                path=f"{one}/{action}",
                role=Role.OPERATE,
                run=stops(operation),
                help=text,
                answers={202: "Run"},
            )
            for action, operation, text in (
                ("pause", operations.pause_run, "Stop it; it can be started again."),
                ("cancel", operations.cancel_run, "Stop it for good."),
            )
        ),
        Endpoint(
            method="DELETE",
            path=one,
            role=Role.ADMIN,
            run=delete,
            help="Delete one that has ended, with its report.",
            answers={204: None},
        ),
    )


RUN_SCHEMAS: dict[str, Schema] = {
    "Run": RUN,
    "Runs": object_schema({"total": NUMBER, "runs": list_schema(ref("Run"))}),
    "CheckReport": {"type": "object", "description": "As the command writes it with --report."},
}
