"""The console over a service in memory, for a browser without JavaScript."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import httpx
import pytest
from tests.support.connect.memory_service import SINK, MemoryService
from tests.support.connect.rest_server import serving
from tests.support.connect.stored_object import stored_object

from kafkeep.connect.catalog.archives.stored_objects import StoredObject
from kafkeep.connect.model import ConnectorStatus, Json, OffsetGaps, RunState
from kafkeep.connect.plugins.validate import validate
from kafkeep.connect.rest.app import make_app
from kafkeep.connect.safety.secrets import unmask
from kafkeep.connect.service.overview import (
    ConnectorOverview,
    GrowthPoint,
    ServiceOverview,
    WorkerSettings,
)
from kafkeep.connect.worker.rest_security import RestSecurity, Role, token_digest
from kafkeep.ui.app import Console, make_console

GOOD = {
    "connector.class": SINK,
    "flush.size": "3",
    "topics": "orders",
    "s3.bucket.name": "b",
    "s3.region": "us-east-1",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "aws.access.key.id": "AKIA",
    "aws.secret.access.key": "hunter2",
}
SCRIPT = "<script>alert(1)</script>"


class ConsoleService(MemoryService):
    """Validates as the real service does, keeps secrets, and has an archive to show."""

    trace: str | None = None
    lost = OffsetGaps()

    def status(self, name: str) -> ConnectorStatus:
        found = super().status(name)
        if self.trace is None:
            return found
        tasks = tuple(replace(t, state=RunState.FAILED, trace=self.trace) for t in found.tasks)
        return replace(found, state=RunState.FAILED, trace=self.trace, tasks=tasks)

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Json:
        return validate(plugin, config)

    def put_config(self, name: str, config: Mapping[str, str]) -> Any:
        stored = self._connectors[name].config if name in self._connectors else {}
        return super().put_config(name, unmask(config, stored))

    def overview(self) -> ServiceOverview:
        rows = tuple(
            ConnectorOverview(
                name=name,
                type="sink",
                state=self.status(name).state,
                tasks=1,
                lag_records=1234,
                lag_seconds=75.0,
                last_commit_ms=1_700_000_000_000,
                gaps=self.lost,
                records_per_second=1500.0,
                bytes_per_second=2.5e6,
            )
            for name in self.names()
        )
        return ServiceOverview(health="healthy", leader="w:8083", is_leader=True, connectors=rows)

    def growth(self, name: str) -> tuple[GrowthPoint, ...]:
        return tuple(GrowthPoint(10_000 * n, n, 10 * n, 1000 * n) for n in range(1, 5))

    def objects(self, name: str, limit: int) -> tuple[StoredObject, ...]:
        return (stored_object(f"topics/{SCRIPT}/0.json", "orders", committed_ms=2),)[:limit]

    def settings(self) -> WorkerSettings:
        return WorkerSettings(
            version="1",
            connect_version="4.1.0",
            worker_id="w:8083",
            state="s3://b/state",
            config={"bootstrap.servers": SCRIPT, "sasl.password": "******"},
            features={"authentication": False},
        )


class Browser:
    """Follows links and sends forms as a browser without JavaScript does."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def get(self, path: str, status: int = 200) -> str:
        answer = self.client.get(path)
        assert answer.status_code == status, f"{path}: {answer.status_code} {answer.text[:500]}"
        return answer.text

    def token(self, path: str = "/ui/") -> str:
        """Open a page that has a form, and return its token."""
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', self.get(path))
        assert found is not None, path
        return found[1]

    def post(self, path: str, token: str, status: int = 303, **form: str) -> Any:
        answer = self.client.post(path, data={"csrf": token, **form}, follow_redirects=False)
        assert answer.status_code == status, f"{path}: {answer.status_code} {answer.text[:800]}"
        return answer


@pytest.fixture
def service() -> ConsoleService:
    return ConsoleService()


@pytest.fixture
def open_browser(service: ConsoleService) -> Iterator[Callable[..., Browser]]:
    with ExitStack() as closing:

        def browser(security: RestSecurity | None = None, **headers: str) -> Browser:
            known = security or RestSecurity()
            console: Console = make_console(service, known, "secret")
            url = closing.enter_context(serving(make_app(service, known, console)))
            closing.callback(console.close)
            return Browser(closing.enter_context(httpx.Client(base_url=url, headers=headers)))

        yield browser


@pytest.fixture
def browser(open_browser: Callable[..., Browser]) -> Browser:
    return open_browser()


@pytest.fixture
def secured() -> RestSecurity:
    """A service whose callers authenticate by the name of their role."""
    return RestSecurity(bearer_tokens={token_digest(role.name): role for role in Role})
