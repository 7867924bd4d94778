"""Verifications and drills of ``kafkeep serve`` on real Kafka, S3 and Spark, also after kill -9.

The tests share an archive and a state. Each one begins a service, which may die at a failpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster import Cluster
from tests.support.connect.serve_processes import Service, World
from tests.support.waiting import until

from kafkeep.archive.document import dump_with_checksum
from kafkeep.archive.object_store import ObjectStore
from kafkeep.clock import now_ms
from kafkeep.connect.runs.schedules import RunSchedule
from kafkeep.connect.service.journal import open_state
from kafkeep.dev import DevStatus
from kafkeep.maintenance.drill import PREFIX
from kafkeep.maintenance.verify.last_verified import last_verified_ms
from kafkeep.store.open import open_store

pytestmark = pytest.mark.integration
NAME = "kept"
OBJECTS = 4


@pytest.fixture(scope="module")
def world(
    services: DevStatus, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    made = World(services, cluster, tmp_path_factory.mktemp("checks") / "log")
    yield made
    for service in made.running:
        service.kill()
    sys.stderr.write(made.log.read_text()[-20_000:])


@pytest.fixture(scope="module")
def address(world: World) -> str:
    return f"s3://{world.services.s3.bucket}/{world.folder}-archive"


@pytest.fixture(scope="module")
def archive(world: World, address: str) -> str:
    """Return the id of an archive with all records of a topic."""
    topic = world.topic("checked")
    topic.send(OBJECTS)
    service = world.start().wait_ready()
    config = {
        "connector.class": "kafkeep.Backup",
        "topics": topic.name,
        "archive": address,
        "interval": "200ms",
        "segment.age": "500ms",
    }
    service.call("POST", "/connectors", {"name": NAME, "config": config}, expect=201)

    def stored() -> Any:
        if (
            service.call("GET", f"/connectors/{NAME}/status").get("kafkeep", {}).get("lag_records")
            != 0
        ):
            return None  # the status is in memory: asking for it often slows nothing
        [found] = service.call("GET", "/kafkeep/v1/archives")["archives"]
        return found["logs"] and found["logs"][0]["records"] == topic.sent and found["id"]

    id = until(stored, "every record is archived")
    assert service.end() == 0
    return str(id)


@pytest.fixture
def store(address: str, s3_env: DevStatus) -> ObjectStore:
    return open_store(address)


def begin(world: World, plural: str, archive: str, **asked: str) -> tuple[Service, str]:
    """Start a service and a check in it; return its path."""
    service = world.start().wait_ready()
    body = {"archive.id": archive, **asked}
    run = service.call("POST", f"/kafkeep/v1/{plural}", body, expect=201)
    return service, f"/kafkeep/v1/{plural}/{run['id']}"


def outcome(service: Service, path: str) -> Any:
    def ended() -> Any:
        run = service.call("GET", path)
        return run["state"] in ("done", "failed") and run

    run = until(ended, "the run ends")
    assert run["state"] == "done", run
    return run


def wait_death(service: Service) -> None:
    assert service.process.wait(180) == 137
    service.kill()


def scratch_topics(world: World) -> list[str]:
    names = world.cluster.admin.list_topics(timeout=60).topics
    return [name for name in names if name.startswith(PREFIX)]


def test_a_verification_that_dies_before_its_end_is_done_by_the_next_worker(
    world: World, archive: str, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKEEP_FAILPOINT", "verification.read:exit")
    service, path = begin(world, "verifications", archive, deep="true")
    wait_death(service)
    assert last_verified_ms(store, NAME) is None
    monkeypatch.delenv("KAFKEEP_FAILPOINT")
    service = world.start().wait_ready()
    run = outcome(service, path)
    assert (run["verdict"], run["result"]["verdict"], run["result"]["deep"]) == (
        *("good", "intact"),
        True,
    )
    assert last_verified_ms(store, NAME) is not None
    assert service.end() == 0


@pytest.mark.slow
def test_a_drill_that_dies_leaves_no_scratch_topic_once_the_next_worker_has_done_it(
    world: World, archive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKEEP_FAILPOINT", "restore.written:exit")
    service, path = begin(world, "drills", archive)
    wait_death(service)
    assert len(scratch_topics(world)) == 1
    monkeypatch.delenv("KAFKEEP_FAILPOINT")
    service = world.start().wait_ready()
    run = outcome(service, path)
    assert (run["verdict"], run["result"]["verdict"]) == ("good", "clean")
    assert run["result"]["proven"] == run["result"]["archived"] > 0
    assert scratch_topics(world) == []
    report = service.call("GET", f"{path}/report")
    assert (report["report"], report["leftovers"]) == ("drill", [])
    assert service.end() == 0


PLACES = (pytest.param("schedule.created:exit", marks=pytest.mark.slow), "schedule.started:exit")


@pytest.mark.parametrize("place", PLACES)
def test_a_scheduled_check_runs_once_though_the_worker_dies_while_it_starts_it(
    world: World, archive: str, place: str, s3_env: DevStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = open_state(f"s3://{s3_env.s3.bucket}/{world.folder}-state/kafkeep")
    number = len(list(state.list("schedules/")))
    at_ms = now_ms() - 3 * 86_400_000
    schedule = RunSchedule(
        id=f"nightly-{number}",
        kind="verification",
        asked={"archive.id": archive},
        every="day",
        at="03:30",
        created_ms=at_ms,
        created_by="ann",
        last_due_ms=at_ms,
    )
    newest = max((int(Path(one.key).stem) for one in state.list("schedules/")), default=-1)
    document = {"version": 1, "schedules": [schedule.to_json()]}
    state.put_new(f"schedules/{newest + 1:012d}.json", dump_with_checksum(document))
    monkeypatch.setenv("KAFKEEP_FAILPOINT", place)
    wait_death(world.start())
    monkeypatch.delenv("KAFKEEP_FAILPOINT")
    service = world.start().wait_ready()

    def mine() -> list[Any]:
        runs = service.call("GET", "/kafkeep/v1/verifications")["runs"]
        return [run for run in runs if run["config"].get("schedule") == schedule.id]

    until(lambda: mine() and mine()[0]["state"] == "done", "the check is done")
    [listed] = service.call("GET", "/kafkeep/v1/schedules")["schedules"]
    assert listed["last_due"] > listed["created_at"]
    [run] = mine()
    assert (run["verdict"], run["created_by"]) == ("good", "ann")
    service.call("DELETE", f"/kafkeep/v1/schedules/{schedule.id}", expect=204)
    assert service.end() == 0
