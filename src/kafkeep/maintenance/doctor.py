"""Check the environment in this order: the machine, Kafka, the store, Spark.

The machine needs Java and space for temporary files. Kafka must be reachable and permit what a
backup needs; on request, a temporary topic tests what a restore at exact offsets needs. The store
must be readable and writable, honour conditional creates, and agree on the time. Spark must run a
job; on request, its executors check what tasks need.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from kafkeep.archive.object_store import ObjectStore
from kafkeep.check_result import Check, CheckStatus
from kafkeep.clock import now_ms
from kafkeep.errors import AccessDeniedError, DamagedError, KafkeepError
from kafkeep.kafka.admin.admin import Admin, OffsetSpec
from kafkeep.kafka.admin.fill_offsets import Transactions, filler_batch
from kafkeep.kafka.admin.groups import list_groups
from kafkeep.kafka.batch.rewrite import stamp
from kafkeep.kafka.client.wire import Wire
from kafkeep.maintenance.check_executors import ExecutorProbe, Versions, check_executors
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.spark import SparkOptions, java_version, require_java
from kafkeep.options.storage import StorageOptions
from kafkeep.options.units import count_of, format_duration, format_size
from kafkeep.spark.background_session import BackgroundSession
from kafkeep.store.open import (
    open_store,
    probe_conditional_create,
    probe_parts,
    unsafe_store_error,
)
from kafkeep.store.retry import RetryingStore
from kafkeep.store.s3.store import S3Store


def passed(subject: str, what: str) -> Check:
    """Return a check that passed."""
    return Check(CheckStatus.PASS, subject, what)


def warned(subject: str, what: str, hint: str | None = None) -> Check:
    """Return a check with a problem that does not stop a run."""
    return Check(CheckStatus.WARN, subject, what, hint)


def failed(subject: str, error: KafkeepError) -> Check:
    """Return a check with a problem that would end a run with ``error``."""
    return Check(CheckStatus.FAIL, subject, error.message, error.hint, error.exit_code)


def errors_as_checks(subject: str, steps: Iterable[Check]) -> Iterator[Check]:
    """Yield the checks of ``steps``; an error becomes a failed check."""
    try:
        yield from steps
    except KafkeepError as error:
        yield failed(subject, error)


LITTLE_ROOM_BYTES = 1 << 30


def check_java() -> Iterator[Check]:
    """Report which Java is used."""
    java = require_java()
    yield passed("java", f"{java_version(java)} at {java}")


def check_spark(options: SparkOptions, probe: ExecutorProbe | None = None) -> Iterator[Check]:
    """Start Spark, run a job, let its executors check what ``probe`` says, and stop it."""
    began = time.monotonic()
    with BackgroundSession(options) as session:
        spark = session.session()
        took = time.monotonic() - began
        slots = spark.slots()
        yield passed(
            "spark", f"ran its first job after {took:.1f} s; {count_of(slots, 'task')} at a time"
        )
        if probe is not None:
            yield from check_executors(spark, probe)


def check_disk(folder: str | None = None) -> Iterator[Check]:
    """Check the free space for temporary files."""
    folder = folder or tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    what = f"{format_size(free)} free in {folder}"
    if free < LITTLE_ROOM_BYTES:
        yield warned("disk", what, "Free some space, or set TMPDIR to a folder with more.")
    else:
        yield passed("disk", what)


FOLDER = "_kafkeep/doctor/"
RETRY_DEADLINE_MS = 5_000
SKEW_MS = 5_000
BODY = b"written by kafkeep doctor\n"


def check_store(
    address: str, options: StorageOptions, now_ms: Callable[[], int]
) -> Iterator[Check]:
    """Write, read, race and delete small test objects; all of them are removed."""
    store = open_store(address, replace(options, retry_deadline_ms=RETRY_DEADLINE_MS))
    found = next(iter(store.list("_kafkeep/")), None)
    kept = "holds an archive" if found else "holds no archive yet"
    yield passed("store", f"{store.describe()} can be listed; it {kept}")
    yield from _check_write(store, now_ms)
    yield from _check_races(store)


def _check_write(store: ObjectStore, now_ms: Callable[[], int]) -> Iterator[Check]:
    key = f"{FOLDER}{uuid.uuid4().hex}"
    before = now_ms()
    store.put_new(key, BODY)
    after = now_ms()
    try:
        checks = [_read_back(store, key), _skew(store.head(key).modified_ms, before, after)]
    finally:
        left = _remove(store, key)
    yield from (*checks, *left)


def _read_back(store: ObjectStore, key: str) -> Check:
    if store.get(key) != BODY:
        return failed("store write", DamagedError(f"{key} does not come back as it was written"))
    return passed("store write", "objects can be written and read back")


def _skew(stamped_ms: int, before_ms: int, after_ms: int) -> Check:
    """Compare the store's clock with this machine's; stores may report whole seconds only."""
    ahead = max(0, stamped_ms - after_ms)
    behind = max(0, before_ms - stamped_ms - 1000)
    off = ahead or behind
    if off <= SKEW_MS:
        return passed("clock", "agrees with the store's")
    side = "behind" if ahead else "ahead of"
    what = f"this machine is {format_duration(off)} {side} the store"
    return warned("clock", what, "Set the clock (NTP): S3 refuses requests 15 minutes off.")


def _remove(store: ObjectStore, key: str) -> tuple[Check, ...]:
    try:
        store.delete(key)
    except AccessDeniedError:
        what = f"objects cannot be deleted, so {key} remains"
        return (warned("store delete", what, "Backups do not need to delete; gc does."),)
    return ()


def _check_races(store: ObjectStore) -> Iterator[Check]:
    if not probe_conditional_create(store):
        yield failed("store races", unsafe_store_error(store))
        return
    yield passed("store races", "if several writers create one object, exactly one succeeds")
    bare = store.inner if isinstance(store, RetryingStore) else store
    if isinstance(bare, S3Store) and not bare.uses_parts:
        yield _parts(bare)


def _parts(store: S3Store) -> Check:
    """Race multipart uploads; they are used only for very large objects here."""
    if probe_parts(store):
        return passed("store parts", "multipart uploads also let exactly one writer succeed")
    return warned(
        "store parts",
        "several multipart uploads of one object can succeed",
        "kafkeep sends objects up to 4 GiB in one request here; keep segments smaller than that.",
    )


TIMEOUT_MS = 10_000


def check_kafka(options: KafkaOptions) -> Iterator[Check]:
    """Connect, then send the requests of a backup; changes nothing."""
    with Wire(options, connect_timeout_ms=TIMEOUT_MS) as wire:
        admin = Admin(wire, timeout_ms=TIMEOUT_MS)
        cluster = admin.cluster_id()
        version = ".".join(map(str, admin.broker_version()))
        brokers = len(admin.brokers())
        yield passed(
            "kafka", f"cluster {cluster}, version {version}, {brokers} broker(s), {_way(options)}"
        )
        yield from _check_topics(admin)
        yield from _check_groups(admin)


def _way(options: KafkaOptions) -> str:
    protocol = options.properties.get("security.protocol", "PLAINTEXT").upper()
    mechanism = options.properties.get("sasl.mechanism", "GSSAPI")
    return f"{protocol} ({mechanism})" if protocol.startswith("SASL") else protocol


def _check_topics(admin: Admin) -> Iterator[Check]:
    names = sorted(admin.topics())
    if not names:
        yield warned(
            "kafka topics",
            "no topic is visible",
            "Grant Describe and Read on the topics to back up.",
        )
        return
    yield passed("kafka topics", f"{len(names)} visible")
    try:
        admin.topic_configs(names[:1])
    except AccessDeniedError as error:
        yield warned(
            "kafka settings",
            error.message,
            "Grant DescribeConfigs on the topics; otherwise a restore uses default settings.",
        )
    else:
        yield passed("kafka settings", "topic settings can be read")


def _check_groups(admin: Admin) -> Iterator[Check]:
    try:
        groups = list_groups(admin)
    except AccessDeniedError as error:
        hint = "Grant Describe on groups; otherwise their offsets are not archived."
        yield warned("kafka groups", error.message, hint)
    except KafkeepError as error:
        yield failed("kafka groups", error)
    else:
        yield passed("kafka groups", f"{len(groups)} visible")


SUBJECT = "kafka exact offsets"
FILLED = 1000
MARKER_SECONDS = 10.0


def check_exact_offsets(options: KafkaOptions) -> Iterator[Check]:
    """Fill a scratch topic, delete the filler, fill a hole by transaction; delete the topic."""
    name = f"kafkeep-doctor-{uuid.uuid4().hex[:12]}"
    with Wire(options, connect_timeout_ms=TIMEOUT_MS) as wire:
        admin = Admin(wire, timeout_ms=TIMEOUT_MS)
        topic_id = admin.create_topic(name, 1).topic_id
        try:
            start, end = _try(wire, admin, name, topic_id)
        finally:
            admin.delete_topics([name])
    if (start, end) == (FILLED, FILLED + 1):
        yield passed(SUBJECT, "filler, DeleteRecords and empty transactions work")
    else:
        what = f"{name} should have offsets {FILLED} to {FILLED + 1} but has {start} to {end}"
        yield failed(SUBJECT, KafkeepError(what))


def _try(wire: Wire, admin: Admin, name: str, topic_id: str) -> tuple[int, int]:
    """Run the steps of a restore; return the start and end offset of the partition."""
    key = (name, 0)
    body = filler_batch(FILLED, -1)
    stamp(body, *admin.init_producer_id(), 0)
    answer = wire.produce({key: body}, topic_ids={name: topic_id}).result()[key]
    if answer.error_code:
        raise KafkeepError(f"Kafka does not accept filler records: {answer.error_name}")
    admin.delete_records({key: FILLED})
    transactions = Transactions(admin, f"kafkeep-restore-{name}")
    transactions.fence()
    transactions.mark([key])
    deadline = time.monotonic() + MARKER_SECONDS
    while (end := admin.offsets([key], OffsetSpec.LATEST)[key]) <= FILLED:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return admin.offsets([key], OffsetSpec.EARLIEST)[key], end


@dataclass(frozen=True, kw_only=True)
class DoctorPlaces:
    """What to check; None is skipped."""

    archive: str | None = None
    storage: StorageOptions = field(default_factory=StorageOptions)
    kafka: KafkaOptions | None = None
    exact: bool = False
    """Also test in Kafka what a restore at exact offsets needs."""
    spark: SparkOptions | None = None
    executors: bool = False
    """Also check versions, Kafka and the archive from Spark's executors."""

    @property
    def probe(self) -> ExecutorProbe | None:
        """What the executors check; None if they are not asked."""
        if not self.executors:
            return None
        return ExecutorProbe(
            driver=Versions.here(), kafka=self.kafka, archive=self.archive, storage=self.storage
        )


def examine(places: DoctorPlaces, clock: Callable[[], int] = now_ms) -> Iterator[Check]:
    """Yield each check as soon as it is done; one that fails does not stop the others."""
    yield from errors_as_checks("java", check_java())
    yield from errors_as_checks("disk", check_disk())
    if places.kafka is not None:
        yield from errors_as_checks("kafka", check_kafka(places.kafka))
        if places.exact:
            yield from errors_as_checks(SUBJECT, check_exact_offsets(places.kafka))
    if places.archive is not None:
        yield from errors_as_checks("store", check_store(places.archive, places.storage, clock))
    if places.spark is not None:
        yield from errors_as_checks("spark", check_spark(places.spark, places.probe))
