"""schemathesis over the OpenAPI document: whatever is sent, the answer is one it knows."""

from __future__ import annotations

from collections.abc import Iterator

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

from kafkeep.connect.model import Target
from kafkeep.connect.rest.app import ENDPOINTS, make_app
from kafkeep.connect.rest.call import Endpoint
from kafkeep.connect.rest.security import RestSecurity
from rest_memory import SINK, MemoryService
from rest_server import serving

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
CASES = [
    (endpoint, mode)
    for endpoint in ENDPOINTS
    for mode in schemathesis.GenerationMode
    # Where nothing can be sent, nothing wrong can be sent.
    if mode.is_positive or endpoint.body or endpoint.query or "{" in endpoint.path
]


@pytest.fixture(scope="module")
def service() -> MemoryService:
    return MemoryService()


@pytest.fixture(scope="module")
def document(service: MemoryService) -> Iterator[schemathesis.BaseSchema]:
    with serving(make_app(service, RestSecurity())) as url:
        yield schemathesis.openapi.from_url(f"{url}/openapi.json")


@pytest.mark.parametrize(
    ("endpoint", "mode"), CASES, ids=lambda v: getattr(v, "value", None) or f"{v.method} {v.path}"
)
def test_no_call_is_answered_otherwise_than_documented(
    service: MemoryService,
    document: schemathesis.BaseSchema,
    endpoint: Endpoint,
    mode: schemathesis.GenerationMode,
) -> None:
    service.put_config("known", CONFIG)
    service.set_target("known", Target.STOPPED)
    # What is right is sent to things that are there, what is wrong to anything.
    names = {name: value for name, value in NAMES.items() if f"{{{name}}}" in endpoint.path}
    operation = document[endpoint.path][endpoint.method]
    cases = operation.as_strategy(
        generation_mode=mode, path_parameters=names if mode.is_positive else None
    )

    @hypothesis.settings(
        max_examples=10 if "{" in endpoint.path or endpoint.body or endpoint.query else 1,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=cases)
    def check(case: schemathesis.Case) -> None:
        case.call_and_validate(checks=CHECKS)

    check()
