"""``/kafkeep/v1/verifications``, ``/drills`` and ``/schedules`` on a service in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.archive_builder import build_archive, partition
from tests.support.connect.memory_service import MemoryService
from tests.support.connect.rest_server import serving
from tests.support.waiting import until

from kafkeep.connect.catalog.archives.archives import ArchivePlace
from kafkeep.connect.rest.app import make_app
from kafkeep.connect.worker.rest_security import RestSecurity
from kafkeep.store.open import open_store


@pytest.fixture
def place(tmp_path: Path) -> ArchivePlace:
    build_archive(open_store(str(tmp_path)), {"orders": [partition(0, 10)]})
    return ArchivePlace(address=str(tmp_path), connectors=("backup",))


@pytest.fixture
def api(place: ArchivePlace) -> Iterator[httpx.Client]:
    service = MemoryService()
    service.places = [place]
    with (
        serving(make_app(service, RestSecurity())) as url,
        httpx.Client(base_url=f"{url}/kafkeep/v1") as client,
    ):
        yield client


def wait_done(api: httpx.Client, path: str) -> Any:
    until(lambda: api.get(path).json()["state"] == "done", "the run is done")
    return api.get(path).json()


@pytest.mark.parametrize("plural", ["verifications", "drills"])
def test_a_check_is_started_followed_reported_and_deleted(
    api: httpx.Client, place: ArchivePlace, plural: str
) -> None:
    answer = api.post(f"/{plural}", json={"archive.id": place.id})
    assert answer.status_code == 201
    path = answer.headers["location"].removeprefix("/kafkeep/v1")
    done = wait_done(api, path)
    assert (done["verdict"], done["created_by"], done["has_report"]) == ("good", "everyone", True)
    assert done["result"]["verdict"] in ("intact", "clean")
    assert api.get(f"{path}/report").json()["report"] in ("verify", "drill")
    page = api.get(f"{path}/report.html")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-disposition"].startswith("attachment")
    assert page.text.startswith("<!doctype html>")
    listed = api.get(f"/{plural}", params={"archive": place.id}).json()
    assert (listed["total"], listed["runs"][0]["id"]) == (1, done["id"])
    assert api.get(f"/{plural}", params={"archive": "other"}).json()["runs"] == []
    newest = {"verifications": "last_verification", "drills": "last_drill"}[plural]
    assert api.get("/overview").json()[newest]["id"] == done["id"]
    refused = api.post(f"{path}/cancel")
    assert refused.status_code == 409
    assert "is done and cannot be cancelled" in refused.json()["message"]
    other = {"verifications": "drills", "drills": "verifications"}[plural]
    assert api.get(path.replace(plural, other)).status_code == 404
    assert api.delete(path).status_code == 204
    assert api.get(path).status_code == 404


def test_what_cannot_be_started_leaves_no_draft(api: httpx.Client, place: ArchivePlace) -> None:
    for body, sentence in (
        ({}, "archive.id: missing"),
        ({"archive.id": "none"}, "uses an archive"),
        ({"archive.id": place.id, "tpoics": "a"}, "topics"),
        ({"archive.id": place.id, "deep": "maybe"}, "deep"),
    ):
        answer = api.post("/verifications", json=body)
        assert answer.status_code in (400, 404), answer.text
        assert sentence in answer.json()["message"]
    assert api.get("/verifications").json()["total"] == 0


def test_schedules_are_made_listed_and_deleted(api: httpx.Client, place: ArchivePlace) -> None:
    body = {"kind": "drill", "every": "sunday", "at": "03:30", "asked": {"archive.id": place.id}}
    made = api.post("/schedules", json=body)
    assert made.status_code == 201
    [listed] = api.get("/schedules").json()["schedules"]
    assert listed == made.json()
    assert {name: listed[name] for name in body} == body
    assert listed["next_due"].endswith("T03:30:00.000Z")
    assert api.delete(f"/schedules/{listed['id']}").status_code == 204
    assert api.delete(f"/schedules/{listed['id']}").status_code == 404


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"kind": "restore"}, "kind must be one of"),
        ({"every": "often"}, "every must be"),
        ({"at": "3:30"}, "at must be a time"),
        ({"asked": {"archive.id": "none"}}, "uses an archive"),
        ({"asked": []}, "archive.id: missing"),
        ({"more": 1}, "Unrecognized field"),
    ],
)
def test_what_is_no_schedule_is_refused(
    api: httpx.Client, place: ArchivePlace, change: dict[str, Any], sentence: str
) -> None:
    body = {"kind": "drill", "every": "day", "at": "03:30", "asked": {"archive.id": place.id}}
    answer = api.post("/schedules", json={**body, **change})
    assert answer.status_code in (400, 404)
    assert sentence in answer.json()["message"]
