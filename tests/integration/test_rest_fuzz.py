"""schemathesis over the OpenAPI document: whatever is sent, the answer is one it knows."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import hypothesis
import pytest
import schemathesis
from schemathesis.checks import (
    allow_header_conformance,
    content_type_conformance,
    negative_data_rejection,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from tests.support.cluster import Cluster
from tests.support.connect.curl_service import curl_service
from tests.support.connect.memory_service import SINK, MemoryService
from tests.support.connect.rest_server import serving

from kafkeep.connect.model import TargetState
from kafkeep.connect.rest.app import ENDPOINTS, make_app
from kafkeep.connect.rest.call import Endpoint
from kafkeep.connect.worker.rest_security import RestSecurity
from kafkeep.dev import DevStatus

pytestmark = pytest.mark.integration

CHECKS = [
    allow_header_conformance,
    content_type_conformance,
    negative_data_rejection,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
]


NAMES = {"connector": "known", "plugin": "S3SinkConnector", "logger": "root", "task": 0}
CONFIG = {"connector.class": SINK, "flush.size": "1", "topics": "t"}


def has_input(endpoint: Endpoint) -> bool:
    return bool("{" in endpoint.path or endpoint.body or endpoint.query)


CASES = [
    (endpoint, mode)
    for endpoint in ENDPOINTS
    for mode in schemathesis.GenerationMode
    # Where nothing can be sent, nothing wrong can be sent.
    if mode.is_positive or has_input(endpoint)
]


@dataclass
class Subject:
    """What is asked: its document, and what makes it have a stopped connector called known."""

    document: schemathesis.BaseSchema
    stop_known: Callable[[], None]
    examples: int
    """How many calls of an endpoint: fewer where each of them writes to Kafka and the store."""


@pytest.fixture(scope="module", params=["in memory", "on real services"])
def subject(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Subject]:
    if request.param == "in memory":
        made = _in_memory()
    else:
        services = request.getfixturevalue("services")
        made = _on_real_services(services, tmp_path_factory.mktemp("fuzz"))
    with made as found:
        yield found


@contextmanager
def _in_memory() -> Iterator[Subject]:
    service = MemoryService()

    def stop_known() -> None:
        service.put_config("known", CONFIG)
        service.set_target("known", TargetState.STOPPED)

    with serving(make_app(service, RestSecurity())) as url:
        yield Subject(schemathesis.openapi.from_url(f"{url}/openapi.json"), stop_known, 10)


@contextmanager
def _on_real_services(services: DevStatus, folder: Path) -> Iterator[Subject]:
    """Ask ``kafkeep serve``: whatever is sent, its connector of an empty topic does no harm."""
    topic = Cluster(services.bootstrap_servers).create(f"fuzz-{uuid.uuid4().hex[:8]}")
    config = {"connector.class": "kafkeep.Backup", "topics": topic, "archive": f"{folder}/kept"}
    options = ("--set", f"kafkeep.allowed.folders={folder}")
    with curl_service(services, folder, options=options) as service:
        url = f"http://localhost:{service.port}"
        with httpx.Client(base_url=url, timeout=60) as http:

            def stop_known() -> None:
                assert http.put("/connectors/known/config", json=config).is_success
                assert http.put("/connectors/known/stop").is_success

            yield Subject(schemathesis.openapi.from_url(f"{url}/openapi.json"), stop_known, 4)
        assert service.end() == 0


@pytest.mark.parametrize(
    ("endpoint", "mode"), CASES, ids=lambda v: getattr(v, "value", None) or f"{v.method} {v.path}"
)
def test_no_call_is_answered_otherwise_than_documented(
    subject: Subject, endpoint: Endpoint, mode: schemathesis.GenerationMode
) -> None:
    subject.stop_known()
    # What is right is sent to things that are there, what is wrong to anything.
    names = {name: value for name, value in NAMES.items() if f"{{{name}}}" in endpoint.path}
    operation = subject.document[endpoint.path][endpoint.method]
    cases = operation.as_strategy(
        generation_mode=mode, path_parameters=names if mode.is_positive else None
    )

    @hypothesis.settings(
        max_examples=subject.examples if has_input(endpoint) else 1,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=cases)
    def check(case: schemathesis.Case) -> None:
        case.call_and_validate(checks=CHECKS)

    check()
