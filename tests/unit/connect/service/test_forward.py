"""What workers send each other: the same JSON as ever, so that old and new ones share a state."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kafkeep.connect.model import Connector, ConnectorStatus, RestError, RunState, TargetState
from kafkeep.connect.runs.run import Run, RunProgress, RunStage
from kafkeep.connect.service import operations
from kafkeep.connect.service.forward import WireForm, carry_out
from kafkeep.connect.service.operations import OPERATIONS, Operation

CONFIG = {"topics": "t"}
MOVES: list[dict[str, Any]] = [{"partition": {"kafka_topic": "t"}, "offset": None}]
REQUESTS: list[tuple[Operation[..., Any], tuple[Any, ...], dict[str, Any], dict[str, Any]]] = [
    (
        operations.create,
        ("c", CONFIG, TargetState.PAUSED),
        {},
        {"config": CONFIG, "target": "PAUSED"},
    ),
    (operations.put_config, ("c", CONFIG), {}, {"config": CONFIG}),
    (operations.patch_config, ("c", {"a": None}), {}, {"changes": {"a": None}}),
    (operations.delete, ("c",), {}, {}),
    (operations.set_target, ("c", TargetState.STOPPED), {}, {"target": "STOPPED"}),
    (
        operations.restart,
        ("c",),
        {"include_tasks": True, "only_failed": False},
        {"include_tasks": True, "only_failed": False},
    ),
    (operations.restart_task, ("c", 2), {}, {"task": 2}),
    (operations.reset_topics, ("c",), {}, {}),
    (operations.alter_offsets, ("c", MOVES), {}, {"offsets": MOVES}),
    (operations.reset_offsets, ("c",), {}, {}),
    (operations.set_logger_everywhere, ("c", "DEBUG"), {}, {"level": "DEBUG"}),
    (operations.create_run, ("c", CONFIG, "ann"), {}, {"asked": CONFIG, "who": "ann"}),
    (operations.change_run, ("c", CONFIG), {}, {"asked": CONFIG}),
    (operations.start_run, ("c", "ann"), {}, {"who": "ann"}),
    (operations.resume_run, ("c", "ann"), {}, {"who": "ann"}),
    (operations.pause_run, ("c",), {}, {}),
    (operations.cancel_run, ("c",), {}, {}),
    (operations.delete_run, ("c",), {}, {}),
    (
        operations.create_schedule,
        ("c", CONFIG, {"every": "day", "at": "03:30"}, "ann"),
        {},
        {"asked": CONFIG, "when": {"every": "day", "at": "03:30"}, "who": "ann"},
    ),
    (operations.delete_schedule, ("c",), {}, {}),
]
CONNECTOR = Connector(name="c", config=CONFIG, target=TargetState.PAUSED, generation=7)
STATUS = ConnectorStatus(
    name="c", type="sink", version="1", state=RunState.RUNNING, worker_id="w:1", generation=7
)
CONNECTOR_JSON = {"name": "c", "config": CONFIG, "target": "PAUSED", "generation": 7}


def test_requests_are_those_of_every_earlier_version() -> None:
    assert {request[0].name for request in REQUESTS} == OPERATIONS.keys()
    for operation, args, kwargs, sent in REQUESTS:
        body = orjson.loads(WireForm(operation).request(*args, **kwargs))
        assert body == {"operation": operation.name, "name": "c", **sent}


def test_a_request_runs_the_operation_with_the_arguments_it_was_sent_with() -> None:
    for operation, args, kwargs, _ in REQUESTS:
        given: list[Any] = []

        def run(*received: Any, given: list[Any] = given, **named: Any) -> None:
            given.extend((received, named))

        form = WireForm(operation)
        document = orjson.loads(form.request(*args, **kwargs))
        del document["operation"]
        form._operation = Operation(run)
        form.result = WireForm(operations.delete).result
        form.run("leader", document)  # type: ignore[arg-type]
        assert list(given[1].values()) == [*args, *kwargs.values()]
        assert given[0] == ("leader",)


@pytest.mark.parametrize(
    ("operation", "result", "sent"),
    [
        (operations.create, CONNECTOR, CONNECTOR_JSON),
        (operations.put_config, (CONNECTOR, True), {"connector": CONNECTOR_JSON, "is_new": True}),
        (operations.delete, None, None),
        (operations.reset_offsets, "moved", "moved"),
    ],
)
def test_results_are_those_of_every_earlier_version(
    operation: Operation[..., Any], result: Any, sent: Any
) -> None:
    form = WireForm(operation).result
    assert form.to_json(result) == sent
    assert form.from_json(sent) == result


def test_a_run_comes_back_as_it_was() -> None:
    form = WireForm(operations.start_run).result
    run = Run(
        id="r",
        kind="restore",
        stage=RunStage.RUNNING,
        asked=CONFIG,
        created_ms=1,
        created_by="ann",
        progress=RunProgress(phase="Writing", done=1, total=2, per_second=0.5),
    )
    assert form.from_json(orjson.loads(orjson.dumps(form.to_json(run)))) == run


def test_a_status_comes_back_as_it_was() -> None:
    form = WireForm(operations.restart).result
    assert form.from_json(orjson.loads(orjson.dumps(form.to_json(STATUS)))) == STATUS


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"name":"c"}',
        b'{"operation":"destroy","name":"c"}',
        b'{"operation":"delete"}',
        b'{"operation":"delete","name":7}',
        b'{"operation":"delete","name":"c","force":true}',
        b'{"operation":"set_target","name":"c","target":"GONE"}',
        b'{"operation":"restart","name":"c","include_tasks":1,"only_failed":false}',
    ],
)
def test_a_request_that_no_worker_sends_is_refused(body: bytes) -> None:
    leader: Any = None
    with pytest.raises(RestError, match="not a request of a worker") as caught:
        carry_out(leader, body)
    assert caught.value.status == 400
