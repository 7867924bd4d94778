"""What the service has to show: connectors, restores, a check, a schema, a changed group."""

from __future__ import annotations

import json
import urllib.request
import uuid
from typing import Any
from urllib.parse import quote

from bench.connectors import json_sink
from bench.large_cluster import LAKE, archive_of
from bench.service import ServeProcess, wait_for
from kafkeep.dev import DevStatus

__all__ = ["LAKE", "create"]

_API = "/kafkeep/v1"
_SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


def create(service: ServeProcess, status: DevStatus, busy: list[str]) -> None:
    """Create it, and wait until it is there."""
    run = uuid.uuid4().hex[:6]
    wait_for(lambda: service.metrics()["kafkeep_leader", ""] == 1, "the service leads")
    _register_schema(status)
    _create_connectors(service, status, busy, run)
    archive = _archive_of(service, f"{busy[0]}-json")
    _create_restores(service, archive, busy, run)
    asked = {"archive.id": archive, "name": f"{busy[0]}-json"}
    checked = _read(service.post(f"{_API}/verifications", asked))["id"]
    _wait_until_done(service, f"verifications/{checked}")
    _move_group(service, f"connect-{busy[2]}-json")
    wait_for(lambda: service.records([LAKE]) > 0, "the backup has committed")


def _register_schema(status: DevStatus) -> None:
    if status.registry is None:
        raise SystemExit("the cluster has no schema registry")
    body = json.dumps({"schema": json.dumps(_SCHEMA)}).encode()
    request = urllib.request.Request(
        f"{status.registry.url}/subjects/orders-value/versions",
        body,
        {"Content-Type": "application/vnd.schemaregistry.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        answer.read()


def _create_connectors(service: ServeProcess, status: DevStatus, busy: list[str], run: str) -> None:
    """Create the backup of all topics, three sinks of one topic each, and a restore."""
    s3 = {
        key: value
        for key, value in json_sink(status, busy[0], run).items()
        if key.startswith(("s3.", "store.url", "aws."))
    }
    lake = {
        **s3,
        "connector.class": "kafkeep.Backup",
        "archive": archive_of(status),
        "topics.regex": "shop-[0-9]+",
        "segment.age": "5s",
    }
    if status.registry is not None:
        lake["schema.registry"] = status.registry.url
    service.put(f"/connectors/{LAKE}/config", lake)
    for topic in busy[:3]:
        sink = json_sink(status, topic, run) | {"flush.size": "20"}
        service.put(f"/connectors/{topic}-json/config", sink)
    for topic in busy[:3]:
        wait_for(lambda topic=topic: service.records([f"{topic}-json"]) > 0, "a sink has committed")
    back = {
        **s3,
        "connector.class": "kafkeep.Restore",
        "topics": f"{busy[0]}:{busy[0]}-{run}",
        "restore.log": f"{busy[0]}-json",
    }
    service.put("/connectors/back/config", back)
    wait_for(lambda: service.running() == 5, "all connectors run")


def _archive_of(service: ServeProcess, connector: str) -> str:
    found = json.loads(service.get(f"{_API}/archives"))["archives"]
    return next(str(one["id"]) for one in found if connector in one["connectors"])


def _create_restores(service: ServeProcess, archive: str, busy: list[str], run: str) -> None:
    """Create a draft, and a restore that is done and proven."""
    for number, topic in enumerate(busy[1:3]):
        asked = {
            "archive.id": archive,
            "topics": f"{topic}:{topic}-{run}-once",
            "restore.log": f"{topic}-json",
        }
        if number:
            service.post(f"{_API}/restores", {"config": asked})
            continue
        done = _read(service.post(f"{_API}/restores", {"config": asked}))["id"]
        service.post(f"{_API}/restores/{done}/start", {})
        _wait_until_done(service, f"restores/{done}")
        service.post(f"{_API}/restores/{done}/proof", {})
        _wait_until_done(service, f"restores/{done}/proof")


def _wait_until_done(service: ServeProcess, path: str) -> None:
    def state() -> str:
        return str(_read(service.get(f"{_API}/{path}"))["state"])

    wait_for(lambda: state() in ("done", "failed"), f"{path} is done")
    if state() == "failed":
        raise SystemExit(f"{path} failed: {service.get(f'{_API}/{path}')}")


def _move_group(service: ServeProcess, group: str) -> None:
    """Move a group to its saved offsets, so that it has a history."""
    here = f"{_API}/groups/{quote(group, safe='')}"
    wait_for(lambda: bool(_read(service.get(here))["saved"]), "the group is saved")
    plan = _read(service.get(f"{here}/plan"))
    service.post(f"{here}/apply", {"digest": plan["digest"]})


def _read(text: str) -> Any:
    return json.loads(text)
