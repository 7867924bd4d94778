"""A service that keeps connectors in memory and runs nothing: for tests of the REST layer alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar, cast

from tests.support.connect.memory_cluster import MemoryCluster
from tests.support.connect.memory_drills import MemoryDrills
from tests.support.connect.stored_object import stored_object

from kafkeep.archive.view import load_view
from kafkeep.check_result import Check, CheckStatus
from kafkeep.connect.catalog.archives.archives import ArchivePlace, Archives
from kafkeep.connect.catalog.archives.stored_objects import StoredObject
from kafkeep.connect.catalog.catalog import Catalog
from kafkeep.connect.catalog.doctor import CheckedPart
from kafkeep.connect.catalog.registries import RegistryPlace
from kafkeep.connect.catalog.schemas import SchemaCatalog
from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.model import (
    Connector,
    ConnectorStatus,
    ConnectorType,
    Json,
    RestError,
    RunState,
    TargetState,
    TaskStatus,
)
from kafkeep.connect.runs.board import RunBoard
from kafkeep.connect.runs.documents import RunDocuments
from kafkeep.connect.runs.proof import ProofRuns
from kafkeep.connect.runs.restore import RestoreRuns
from kafkeep.connect.runs.verification import VerificationRuns
from kafkeep.connect.service.operations import Operation
from kafkeep.connect.service.overview import (
    ConnectorOverview,
    GrowthPoint,
    ServiceOverview,
    WorkerSettings,
)
from kafkeep.errors import EnvironmentFault
from kafkeep.options.kafka import KafkaOptions
from kafkeep.restore.plan import plan_restore
from kafkeep.restore.preflight import Preflight
from kafkeep.restore.source import load_contents
from kafkeep.store.memory import MemoryStore

P = ParamSpec("P")
R = TypeVar("R")

SINK = "io.confluent.connect.s3.S3SinkConnector"
_ALTERED = (
    "The Connect framework-managed offsets for this connector have been {} successfully. However, "
    "if this connector manages offsets externally, they will need to be manually {} in the system "
    "that the connector uses."
)
_INVALID = (
    "Connector configuration is invalid and contains the following 1 error(s):\n{}\nYou can also "
    "find the above list of errors at the endpoint "
    "`/connector-plugins/{{connectorType}}/config/validate`"
)


def _no_spark() -> JobContext:
    """Return a context whose tasks fail: nothing is written to a cluster in memory."""

    def run_tasks(*_: Any, **__: Any) -> Any:
        raise EnvironmentFault("there is no Spark here")

    kafka = KafkaOptions("localhost:1")
    return JobContext(kafka=kafka, run_tasks=run_tasks, slots=lambda: 1, state_address="memory:x")


class _IdleDoctor:
    """Has nothing to check: a real one would wait for Kafka."""

    def examine(self) -> list[CheckedPart]:
        return []


class MemoryService:
    """Implements ``Service``. Every connector is a sink of three full partitions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connectors: dict[str, Connector] = {}
        self._offsets: dict[str, dict[tuple[str, int], int]] = {}
        self._loggers: dict[str, str] = {"root": "INFO"}
        self.ready = True
        self.cluster = MemoryCluster()
        self.places: list[ArchivePlace] = []
        self.registries: list[RegistryPlace] = []
        archives = Archives(lambda: self.places)
        self.catalog = Catalog(
            cluster=self.cluster,
            archives=archives,
            schemas=SchemaCatalog(lambda: self.registries, archives),
        )
        object.__setattr__(self.catalog, "doctor", _IdleDoctor())
        self.restores = RestoreRuns(lambda: archives, _no_spark)
        proofs = ProofRuns(self.restores, lambda: self.runs, _no_spark)
        self.drills = MemoryDrills(archives)
        verifications = VerificationRuns(lambda: self)
        documents = RunDocuments(MemoryStore("state"))
        kinds = (self.restores, proofs, verifications, self.drills)
        self.runs = RunBoard(documents, kinds, worker_id="w:8083")
        self.runs.reconcile()

    def plan_restore(self, asked: Mapping[str, str]) -> Preflight:
        """Plan it as if every check of the target had passed, and one had failed."""
        options = self.restores.parse(asked).options
        place = self.catalog.archives.place(asked["archive.id"])
        view = load_view(self.catalog.archives.store(place), "backup")
        plan = plan_restore(load_contents(view, options), options, id="plan")
        checks = (
            Check(CheckStatus.PASS, "orders", "will be created"),
            Check(CheckStatus.FAIL, "users", "it is not empty", "Restore into another topic."),
        )
        return Preflight(plan, checks, None, frozenset())

    def root(self) -> Json:
        return {"version": "4.1.0", "commit": "0123456789abcdef", "kafka_cluster_id": "c"}

    def names(self) -> list[str]:
        return list(self._connectors)

    def connector(self, name: str) -> Connector:
        return self._need(name)

    def type_of(self, name: str) -> ConnectorType:
        self._need(name)
        return "sink"

    def status(self, name: str) -> ConnectorStatus:
        if name not in self._connectors:
            raise RestError(404, f"No status found for connector {name}")
        state = RunState(self._connectors[name].target.value)
        tasks = tuple(
            TaskStatus(id=task, state=state, worker_id="w:8083")
            for task in range(len(self.task_configs(name)))
        )
        return ConnectorStatus(
            name=name, type="sink", version="1", state=state, worker_id="w:8083", tasks=tasks
        )

    def task_configs(self, name: str) -> list[Mapping[str, str]]:
        connector = self._need(name)
        if connector.target is TargetState.STOPPED:
            return []
        config = {**connector.config, "task.class": "io.confluent.connect.s3.S3SinkTask"}
        count = connector.config.get("tasks.max", "1")
        return [config] * (min(int(count), 3) if count.isdecimal() and len(count) < 9 else 1)

    def task_status(self, name: str, task: int) -> TaskStatus:
        tasks = self.status(name).tasks
        if task >= len(tasks):
            raise RestError(404, f"No status found for task {name}-{task}")
        return tasks[task]

    def change(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        if operation.name.endswith(("_run", "_schedule")):
            return operation.run(cast(Any, SimpleNamespace(runs=self.runs)), *args, **kwargs)
        run: Callable[P, R] = getattr(self, operation.name)
        return run(*args, **kwargs)

    def expire_verified(self) -> None:
        """Nothing is remembered."""

    def check_topics_reset(self) -> None:
        """Allow it."""

    def create(self, name: str, config: Mapping[str, str], initial: TargetState) -> Connector:
        with self._lock:
            self._check(config)
            if name in self._connectors:
                raise RestError(409, f"Connector {name} already exists")
            return self._keep(Connector(name=name, config=config, target=initial))

    def put_config(self, name: str, config: Mapping[str, str]) -> tuple[Connector, bool]:
        with self._lock:
            self._check(config)
            is_new = name not in self._connectors
            return self._keep(Connector(name=name, config=config)), is_new

    def patch_config(self, name: str, changes: Mapping[str, str | None]) -> Connector:
        with self._lock:
            merged = {**self._need(name).config, **changes}
            config = {key: value for key, value in merged.items() if value is not None}
            self._check(config)
            return self._keep(Connector(name=name, config=config))

    def delete(self, name: str) -> None:
        with self._lock:
            self._need(name)
            del self._connectors[name]

    def set_target(self, name: str, target: TargetState) -> None:
        with self._lock:
            if name not in self._connectors:
                raise RestError(404, f"Unknown connector {name}")
            old = self._connectors[name]
            self._keep(Connector(name=name, config=old.config, target=target))

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
        if name not in self._connectors:
            raise RestError(404, f"Unknown connector: {name}")
        return self.status(name)

    def restart_task(self, name: str, task: int) -> None:
        self.task_status(name, task)

    def topics(self, name: str) -> list[str]:
        self._need(name)
        return sorted({topic for topic, _ in self._offsets[name]})

    def reset_topics(self, name: str) -> None:
        self._need(name)

    def offsets(self, name: str) -> list[Json]:
        self._need(name)
        return [
            {
                "partition": {"kafka_partition": number, "kafka_topic": topic},
                "offset": {"kafka_offset": offset},
            }
            for (topic, number), offset in self._offsets[name].items()
        ]

    def offset_page(
        self, name: str, start: int, count: int, *, max_age_s: float | None = None
    ) -> tuple[list[Json], int]:
        found = self.offsets(name)
        return found[start : start + count], len(found)

    def alter_offsets(self, name: str, offsets: Sequence[Json]) -> str:
        self._need_stopped(name)
        for item in offsets:
            partition, offset = item["partition"], item.get("offset")
            if {"kafka_topic", "kafka_partition"} != set(partition):
                raise RestError(400, "The partition of a sink has kafka_topic and kafka_partition")
            key = (str(partition["kafka_topic"]), partition["kafka_partition"])
            if not isinstance(key[1], int):
                raise RestError(400, "kafka_partition must be a number")
            if offset is None:
                self._offsets[name].pop(key, None)
            elif isinstance(offset.get("kafka_offset"), int):
                self._offsets[name][key] = offset["kafka_offset"]
            else:
                raise RestError(400, "The offset of a sink has kafka_offset")
        return _ALTERED.format("altered", "altered")

    def reset_offsets(self, name: str) -> str:
        self._need_stopped(name)
        self._offsets[name] = {}
        return _ALTERED.format("reset", "reset")

    def plugins(self, *, connectors_only: bool) -> list[Json]:
        sink = {"class": SINK, "type": "sink", "version": "1"}
        more = [
            {"class": "org.apache.kafka.connect.transforms.Cast$Value", "type": "transformation"},
            {"class": "org.apache.kafka.connect.storage.StringConverter", "type": "converter"},
        ]
        return [sink] if connectors_only else [sink, *({**one, "version": "1"} for one in more)]

    def plugin_config(self, plugin: str) -> list[Json]:
        if not SINK.endswith(plugin):
            raise RestError(404, f"Unknown plugin {plugin}.")
        return []

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Json:
        if not SINK.endswith(plugin):
            raise RestError(404, f"Unknown plugin {plugin}.")
        return {"name": SINK, "error_count": 0, "groups": ["Common"], "configs": []}

    def loggers(self) -> Json:
        return {
            name: {"level": level, "last_modified": None} for name, level in self._loggers.items()
        }

    def logger(self, name: str) -> Json:
        if name not in self._loggers:
            raise RestError(404, f"Logger {name} not found.")
        return {"level": self._loggers[name], "last_modified": None}

    def set_logger(self, name: str, level: str) -> list[str]:
        if level.upper() not in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "OFF"):
            raise RestError(404, f"invalid log level '{level}'.")
        self._loggers[name] = level.upper()
        return [name]

    def set_logger_everywhere(self, name: str, level: str) -> None:
        self.set_logger(name, level)

    def answers_from_memory(self) -> bool:
        return False

    def metrics(self) -> str:
        return "# TYPE kafka_connect_worker_connector_count gauge\n"

    def health(self) -> Json:
        return {"status": "healthy", "leader": True, "connectors": len(self._connectors)}

    def overview(self) -> ServiceOverview:
        rows = [
            ConnectorOverview(name=name, type="sink", state=self.status(name).state)
            for name in self.names()
        ]
        return ServiceOverview(
            health="healthy", leader="w:8083", is_leader=True, connectors=tuple(rows)
        )

    def growth(self, name: str) -> tuple[GrowthPoint, ...]:
        self._need(name)
        return (GrowthPoint(1_000, 1, 3, 120),)

    def objects(self, name: str, limit: int) -> tuple[StoredObject, ...]:
        self._need(name)
        return (stored_object("topics/t/partition=0/t+0+0.json", "t"),)[:limit]

    def settings(self) -> WorkerSettings:
        return WorkerSettings(version="1", config={"group.id": "g"})

    def is_ready(self) -> bool:
        return self.ready

    def _need(self, name: str) -> Connector:
        if name not in self._connectors:
            raise RestError(404, f"Connector {name} not found")
        return self._connectors[name]

    def _need_stopped(self, name: str) -> None:
        if self._need(name).target is not TargetState.STOPPED:
            raise RestError(
                400,
                "Connectors must be in the STOPPED state before their offsets can be modified. "
                "This can be done for the specified connector by issuing a 'PUT' request to the "
                f"'/connectors/{name}/stop' endpoint",
            )

    def _keep(self, connector: Connector) -> Connector:
        """Keep a connector; one that runs has read its partitions to the end at once."""
        name = connector.name
        self._connectors[name] = connector
        offsets = self._offsets.setdefault(name, {})
        if connector.target is TargetState.RUNNING:
            topics = connector.config.get("topics", "").split(",")
            for number, topic in enumerate(topics):
                offsets.update({(topic, p): 3 for p in range(2 - min(number, 1))})
        return connector

    @staticmethod
    def _check(config: Mapping[str, str]) -> None:
        kind = config.get("connector.class")
        if kind is None:
            raise RestError(400, "Connector config contains no connector type")
        if kind != SINK:
            raise RestError(
                400,
                "Failed to find any class that implements Connector and which name matches "
                f"{kind}, available connectors are: {SINK}",
            )
        size = config.get("flush.size")
        if size is None:
            told = 'Missing required configuration "flush.size" which has no default value.'
            raise RestError(400, _INVALID.format(told))
        if not size.isdecimal():
            told = f"Invalid value {size} for configuration flush.size: Not a number of type INT"
            raise RestError(400, _INVALID.format(told))
