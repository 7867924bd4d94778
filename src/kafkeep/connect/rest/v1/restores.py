"""Calls under ``/kafkeep/v1/restores``: restores as resources that outlive their caller."""

from __future__ import annotations

from starlette.responses import Response

from kafkeep.connect.model import RestError
from kafkeep.connect.rest.answers import json_answer
from kafkeep.connect.rest.call import (
    Call,
    Endpoint,
    as_config,
    get_endpoint,
    parse_json,
    parse_object,
    without_nulls,
)
from kafkeep.connect.rest.json_schemas import list_schema, object_schema, ref
from kafkeep.connect.rest.v1.root import ROOT
from kafkeep.connect.rest.v1.run_calls import (
    RUN,
    RunCalls,
    post_endpoint,
    report_of,
    report_page_endpoint,
    report_page_of,
    run_json,
)
from kafkeep.connect.runs import proof, restore
from kafkeep.connect.runs.run import Run
from kafkeep.connect.service import operations
from kafkeep.connect.service.service import ConnectService
from kafkeep.connect.worker.rest_security import Role
from kafkeep.errors import KafkeepError
from kafkeep.restore.preflight import plan_json

_CALLS = RunCalls(restore.NAME, f"{ROOT}/restores", "Restore", "RestoreReport")
_ALL, _ONE = _CALLS.root, _CALLS.one


def newest_proof(service: ConnectService, id: str) -> Run | None:
    """Return the newest proof of a restore, None when there is none."""
    proofs = service.runs.find_all(proof.NAME)
    return next((one for one in proofs if one.asked.get("restore") == id), None)


def list_restores(service: ConnectService, call: Call) -> Response:
    """Answer with all restores, the newest first."""
    found = service.runs.find_all(restore.NAME)
    return json_answer({"restores": [run_json(run, call) for run in found]})


def create_restore(service: ConnectService, call: Call) -> Response:
    """Store a draft."""
    body = parse_object(call.body, ("config",))
    if "config" not in body:
        raise RestError(400, "A restore needs a config; it may be empty and changed later")
    asked = without_nulls(as_config(body["config"]))
    return _CALLS.created(
        service.change(operations.create_run, restore.NAME, asked, call.caller), call
    )


def change_restore(service: ConnectService, call: Call) -> Response:
    """Replace what a draft asks for."""
    id = _CALLS.find(service, call).id
    asked = without_nulls(as_config(parse_json(call.body, numbers_as_text=True)))
    return json_answer(run_json(service.change(operations.change_run, id, asked), call))


def plan(service: ConnectService, call: Call) -> Response:
    """Answer with what the restore would write, and with all checks."""
    run = _CALLS.find(service, call)
    return json_answer(plan_json(service.plan_restore(run.asked)))


def start_proof(service: ConnectService, call: Call) -> Response:
    """Start a comparison of the target with the archive."""
    run = prove(service, _CALLS.find(service, call).id, call.caller)
    return json_answer(run_json(run, call), 202)


def prove(service: ConnectService, id: str, who: str) -> Run:
    """Create and start the proof of a restore; return one that is active instead."""
    known = newest_proof(service, id)
    if known is not None and known.may("pause"):
        return known
    draft = service.change(operations.create_run, proof.NAME, {"restore": id}, who)
    try:
        return service.change(operations.start_run, draft.id, who)
    except KafkeepError:
        service.change(operations.delete_run, draft.id)
        raise


def _proof(service: ConnectService, call: Call) -> Run:
    run = _CALLS.find(service, call)
    found = newest_proof(service, run.id)
    if found is None:
        raise RestError(404, f"The restore {run.id} was not proven yet")
    return found


def get_proof(service: ConnectService, call: Call) -> Response:
    """Answer with the newest proof of a restore."""
    return json_answer(run_json(_proof(service, call), call))


def proof_report(service: ConnectService, call: Call) -> Response:
    """Answer with the report of the newest proof."""
    return report_of(service, _proof(service, call))


def proof_report_page(service: ConnectService, call: Call) -> Response:
    """Answer with the report of the newest proof as HTML."""
    return report_page_of(service, _proof(service, call))


ENDPOINTS = (
    get_endpoint(_ALL, list_restores, "Restores", "All restores, the newest first."),
    Endpoint(
        method="POST",
        path=_ALL,
        role=Role.ADMIN,
        run=create_restore,
        help="Store a restore as a draft: the keys of kafkeep.Restore, with archive.id instead of "
        "a bucket for an archive of this service.",
        answers={201: "Restore"},
        body="NewRestore",
    ),
    Endpoint(
        method="PUT",
        path=f"{_ONE}/config",
        role=Role.ADMIN,
        run=change_restore,
        help="Replace what a draft asks for; a masked value keeps its secret.",
        answers={200: "Restore"},
        body="Config",
    ),
    Endpoint(
        method="GET",
        path=f"{_ONE}/plan",
        role=Role.OPERATE,
        run=plan,
        help="What it would write, and all checks, as restore --dry-run; writes nothing.",
        answers={200: "RestorePlan"},
    ),
    post_endpoint(
        f"{_ONE}/start",
        _CALLS.change_by_caller(operations.start_run),
        Role.ADMIN,
        "Restore",
        "Start writing.",
    ),
    *_CALLS.endpoints(),
    post_endpoint(
        f"{_ONE}/proof",
        start_proof,
        Role.OPERATE,
        "Restore",
        "Read the target back and compare every record with the archive.",
    ),
    get_endpoint(f"{_ONE}/proof", get_proof, "Restore", "The newest proof of a restore."),
    get_endpoint(
        f"{_ONE}/proof/report", proof_report, "RestoreReport", "The report of the newest proof."
    ),
    report_page_endpoint(f"{_ONE}/proof/report.html", proof_report_page),
)
_DOCUMENT = {"type": "object"}
SCHEMAS = {
    "Restore": RUN,
    "Restores": object_schema({"restores": list_schema(ref("Restore"))}),
    "NewRestore": object_schema({"config": ref("Config")}),
    "RestorePlan": {**_DOCUMENT, "description": "As kafkeep restore --dry-run --output json."},
    "RestoreReport": {**_DOCUMENT, "description": "As kafkeep's reports with .json."},
}
