"""Keys of the worker's file, each shown at work by a service that runs in this process."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from tests.support.connect.https_worker import SINK, start
from tests.support.waiting import PATIENCE_S, until


@contextmanager
def service(**flags: str) -> Iterator[httpx.Client]:
    """Yield a client of a service that leads and has a stopped connector called one."""
    told = {key.replace("_", "."): text for key, text in flags.items()}
    made = {"rest.port": "0", "kafkeep.state": f"memory:{uuid.uuid4().hex}"}
    worker = start({**made, **told})
    try:
        with httpx.Client(base_url=worker.ready.url, timeout=PATIENCE_S) as client:
            until(lambda: client.get("/health").json().get("is_leader"), "it leads")
            body = {"name": "one", "config": SINK, "initial_state": "STOPPED"}
            assert client.post("/connectors", json=body).status_code == 201
            yield client
    finally:
        worker.end()


@pytest.mark.parametrize(
    ("flags", "looked", "reset"),
    [
        ({}, 200, 202),
        ({"topic_tracking_allow_reset": "false"}, 200, 403),
        ({"topic_tracking_enable": "false"}, 403, 403),
    ],
)
def test_active_topics_are_reported_and_reset_as_the_worker_tracks_them(
    flags: dict[str, str], looked: int, reset: int
) -> None:
    with service(**flags) as client:
        assert client.get("/connectors/one/topics").status_code == looked
        assert client.put("/connectors/one/topics/reset").status_code == reset


def test_the_service_is_called_by_its_names_and_no_other() -> None:
    with service(kafkeep_rest_hosts="backups.example.org") as client:
        for host, status in (
            ("backups.example.org:8083", 200),
            ("localhost", 200),
            ("127.0.0.1:1", 200),
            ("evil.example.org", 403),
        ):
            assert client.get("/connectors", headers={"Host": host}).status_code == status, host
    with service(kafkeep_rest_hosts="*") as client:
        assert client.get("/connectors", headers={"Host": "any.example.org"}).status_code == 200


def test_bodies_have_the_limit_that_was_set() -> None:
    with service(kafkeep_rest_body_limit_bytes="2000") as client:
        small, large = ({**SINK, "x": "y" * count} for count in (10, 2_000))
        assert len(json.dumps(small)) < 2_000
        assert client.put("/connectors/one/config", json=small).status_code == 200
        refused = client.put("/connectors/one/config", json=large)
        assert refused.status_code == 413
        assert "2000 bytes" in refused.json()["message"]
