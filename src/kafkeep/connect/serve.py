"""Put a service together, run it until it is stopped, close its parts in order."""

from __future__ import annotations

import contextlib
import gc
import logging
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from kafkeep.clock import now_ms
from kafkeep.connect.catalog.archives.archives import ArchivePlace
from kafkeep.connect.connectors.families import OUR_SOURCE
from kafkeep.connect.jobs.job import ConnectorJob, JobContext
from kafkeep.connect.metrics.totals import Totals, measured
from kafkeep.connect.model import ConnectorStatus
from kafkeep.connect.plugins.classes import VERSION
from kafkeep.connect.plugins.validate import CLASS, Definitions, machine_problems
from kafkeep.connect.rest.app import Pages, make_app
from kafkeep.connect.rest.middleware import ForwardMiddleware
from kafkeep.connect.rest.server import BoundListener, RestServer, bind
from kafkeep.connect.runs.board import RunBoard
from kafkeep.connect.runs.documents import RunDocuments
from kafkeep.connect.runs.drill import DrillRuns
from kafkeep.connect.runs.proof import ProofRuns
from kafkeep.connect.runs.restore import RestoreRuns
from kafkeep.connect.runs.verification import VerificationRuns
from kafkeep.connect.safety.restrictions import check_connector
from kafkeep.connect.safety.secrets import SecretRedactor, mask
from kafkeep.connect.service.forward import shared_token
from kafkeep.connect.service.herder import CONNECT_VERSION, Herder
from kafkeep.connect.service.journal import Journal, open_state
from kafkeep.connect.service.leader import LeaderLoop
from kafkeep.connect.service.lease import HEARTBEATS_PER_TIMEOUT, Lease
from kafkeep.connect.service.loggers import Loggers
from kafkeep.connect.service.overview import WorkerSettings
from kafkeep.connect.service.service import ConnectService
from kafkeep.connect.service.shared_spark import SharedSpark
from kafkeep.connect.service.supervisor import JobSlots, Supervisor
from kafkeep.connect.worker.keys import RestOptions
from kafkeep.connect.worker.options import WorkerOptions
from kafkeep.connect.worker.rest_security import RestSecurity
from kafkeep.errors import KafkeepError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.spark import SparkOptions
from kafkeep.options.storage import StorageOptions

STOP_SECONDS = 25.0
"""How long jobs may take to finish: less than Kubernetes waits before it kills."""
_CLUSTER_ID_SECONDS = 3.0
_SWITCH_SECONDS = 0.0005
"""How long a thread may keep the interpreter while a REST call waits; Python's default is 5 ms."""
_GC_THRESHOLDS = (10_000, 20, 50)
"""Python's are 700, 10 and 10. A backup of a large cluster makes 100,000 tuples for each snapshot.
Each search for cycles among all objects stops every thread for 40 ms or more, and finds none."""
logger = logging.getLogger(__name__)


MakePages = Callable[[ConnectService, RestSecurity, str], Pages]
"""Makes the web console; the text is a secret that all workers of the group share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceInfo:
    """Where a started service answers, and where its state lies."""

    url: str
    worker_id: str
    state: str


def run_service(
    worker: WorkerOptions,
    *,
    storage: StorageOptions | None = None,
    spark: SparkOptions | None = None,
    make_pages: MakePages | None = None,
    on_ready: Callable[[ServiceInfo], None] = lambda _ready: None,
    stop: threading.Event | None = None,
) -> bool:
    """Run the service until SIGTERM, SIGINT or ``stop``, and let jobs finish what they are doing.

    Returns False when some job did not end in time. A second signal ends the process at once.
    ``storage`` says how to reach the state's store; connectors bring their own.
    ``make_pages`` makes the web console. While the service runs, the threads of this process switch
    more often than Python's default, and its garbage collector runs less often.
    """
    stop = stop or threading.Event()
    with ExitStack() as closing:
        closing.callback(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(_SWITCH_SECONDS)
        closing.callback(gc.set_threshold, *gc.get_threshold())
        gc.set_threshold(*_GC_THRESHOLDS)
        listening = _bind(worker.rest, closing)
        advertised = listening[worker.rest.listening.index(worker.rest.advertised)]
        service = _Parts.open(worker, advertised.port, storage, spark)
        closing.callback(service.spark.close)
        closing.callback(service.herder.close)
        closing.callback(service.secrets.install())
        pages = make_pages and make_pages(service.herder, worker.security, service.token)
        server = _server(service, worker, listening, pages)
        _handle_signals(stop)
        server.start()
        closing.callback(server.close)
        if pages is not None:
            closing.callback(pages.close)
        service.loop.start()
        on_ready(service.ready)
        while not stop.wait(0.5):
            server.check()
        logger.info("stopping; connectors finish what they are doing")
        return service.loop.close(STOP_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The parts of one service."""

    ready: ServiceInfo
    loop: LeaderLoop
    herder: Herder
    spark: SharedSpark
    secrets: SecretRedactor = field(repr=False)
    token: str = field(repr=False)

    @classmethod
    def open(
        cls,
        worker: WorkerOptions,
        port: int,
        storage: StorageOptions | None,
        spark_options: SparkOptions | None,
    ) -> _Parts:
        storage = storage if storage is not None else StorageOptions.from_env()
        store = open_state(worker.state_address, storage)
        journal = Journal.open(store)
        token = shared_token(store)
        spark = SharedSpark(spark_options or SparkOptions.load())
        definitions = Definitions(
            providers=worker.providers,
            defaults=worker.defaults,
            restrictions=lambda config: check_connector(config, worker),
            machine=lambda config: machine_problems(config, worker),
        )
        context_for = _contexts_of(worker, storage, spark, definitions)
        secrets, totals, loggers = SecretRedactor(), Totals(), Loggers(now_ms)

        def restore_context() -> JobContext:
            return context_for({CLASS: OUR_SOURCE})

        worker_id, url = worker.rest.worker_id(port), worker.rest.url(port)
        supervisor = Supervisor(
            make_job=measured(_make_job, totals),
            context_for=context_for,
            resolve=definitions.resolve,
            describe=definitions.describe,
            secrets=secrets,
            worker_id=worker_id,
        )

        def statuses() -> list[ConnectorStatus]:
            found = [supervisor.status(one) for one in journal.state.connectors.values()]
            return totals.with_rates(found, supervisor.progress(), now_ms())

        timeout_s = worker.service.kafkeep_lease_timeout_ms / 1000
        quick = replace(storage, retry_deadline_ms=int(timeout_s * 1000 / HEARTBEATS_PER_TIMEOUT))
        lease = Lease(
            open_state(worker.state_address, quick),
            worker_id=worker_id,
            url=url,
            timeout_s=timeout_s,
            statuses=statuses,
            levels=loggers.everywhere,
        )
        restores = RestoreRuns(lambda: herder.catalog.archives, restore_context)
        proofs = ProofRuns(restores, lambda: herder.runs, restore_context, definitions.resolve)
        verifications = VerificationRuns(lambda: herder)
        drills = DrillRuns(lambda: herder.catalog.archives, restore_context)
        runs = RunBoard(
            RunDocuments(store),
            (restores, proofs, verifications, drills),
            worker_id=worker_id,
            resolve=definitions.resolve,
            secrets=secrets,
        )
        loop = LeaderLoop(
            journal, lease, supervisor, runs, lambda leader: loggers.follow(leader.levels)
        )
        supervisor.on_change = loop.publish_soon
        herder = Herder(
            loop=loop,
            definitions=definitions,
            context_for=context_for,
            restores=restores,
            tracking=worker.tracking,
            totals=totals,
            loggers=loggers,
            token=token,
            cluster_id=_ClusterId(worker),
            kafka=worker.kafka,
            now_ms=now_ms,
            settings=_settings(worker, worker_id, store.describe()),
            state=ArchivePlace(address=worker.state_address, storage=storage),
            tls=None if worker.tls is None else worker.tls.client,
        )
        return cls(
            ready=ServiceInfo(url=url, worker_id=worker_id, state=store.describe()),
            loop=loop,
            herder=herder,
            spark=spark,
            secrets=secrets,
            token=token,
        )


def _settings(worker: WorkerOptions, worker_id: str, state: str) -> WorkerSettings:
    """Return what the REST API and the console may show of the worker."""
    return WorkerSettings(
        version=VERSION,
        connect_version=CONNECT_VERSION,
        worker_id=worker_id,
        state=state,
        config=dict(sorted(mask(worker.given).items())),
        features={
            "authentication": worker.security.has_auth,
            "TLS": worker.tls is not None,
            "topic tracking": worker.tracking.topic_tracking_enable,
        },
    )


def _bind(rest: RestOptions, closing: ExitStack) -> list[BoundListener]:
    """Bind every port before anything starts; release all of them when one is not available."""
    return [closing.enter_context(contextlib.closing(bind(one))) for one in rest.listening]


def _server(
    parts: _Parts,
    worker: WorkerOptions,
    listening: Sequence[BoundListener],
    pages: Pages | None,
) -> RestServer:
    rest = make_app(parts.herder, worker.security, pages)
    app = ForwardMiddleware(rest, parts.herder.local_leader, parts.token)
    return RestServer(app, listening, None if worker.tls is None else worker.tls.server)


def _contexts_of(
    worker: WorkerOptions, storage: StorageOptions, spark: SharedSpark, definitions: Definitions
) -> Callable[[Mapping[str, str]], JobContext]:
    """Return what makes a job's context: sinks use the worker's consumer, sources its producer."""
    slots = JobSlots()

    def context_for(config: Mapping[str, str]) -> JobContext:
        is_source = definitions.describe(config).type == "source"
        return JobContext(
            kafka=worker.producer if is_source else worker.consumer,
            run_tasks=slots.released_for(spark.run_tasks),
            slot=slots,
            slots=spark.slots,
            state_address=worker.state_address,
            state_storage=storage,
            defaults=worker.defaults,
        )

    return context_for


def _make_job(name: str, config: Mapping[str, str], context: JobContext) -> ConnectorJob:
    from kafkeep.connect.jobs.make import make_job  # noqa: PLC0415 - idle services need none of it

    return make_job(name, config, context)


class _ClusterId:
    """Reads the cluster's id once, in the background; None while Kafka does not answer."""

    def __init__(self, worker: WorkerOptions) -> None:
        self._kafka = worker.kafka
        self._known: str | None = None
        self._asking = threading.Lock()
        self._asked = threading.Event()

    def __call__(self) -> str | None:
        if self._known is None and self._asking.acquire(blocking=False):
            self._asked.clear()
            threading.Thread(target=self._ask, name="cluster", daemon=True).start()
        self._asked.wait(_CLUSTER_ID_SECONDS)
        return self._known

    def _ask(self) -> None:
        try:
            with Wire(self._kafka) as wire:
                self._known = Admin(wire).cluster_id()
        except KafkeepError as error:
            logger.warning("cannot read the cluster's id yet: %s", error.message)
        finally:
            self._asked.set()
            self._asking.release()


def _handle_signals(stop: threading.Event) -> None:
    if threading.current_thread() is not threading.main_thread():
        return

    def handle(number: int, _frame: object) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
