"""S3 on bad days, from end to end: a backup and a restore lose nothing and repeat nothing."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from tests.support.cluster import Cluster
from tests.support.faults.s3_proxy import (
    Answer,
    Fault,
    FaultProxy,
    Lose,
    Replace,
    Reset,
    Rule,
    Truncate,
)
from tests.support.independent_client import assert_same, count, dump
from tests.support.kills import chances_of_run
from tests.support.run_kafkeep import kafkeep
from tests.support.versioned_bucket import VersionedBucket

from kafkeep.archive.log_check import check_log
from kafkeep.dev import DevStatus
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
MIB = 1 << 20
SHARE = 0.3
FAULTS: tuple[Fault, ...] = (
    Answer(503, "SlowDown"),
    Answer(500),
    Answer(429, "TooManyRequests"),
    Reset(),
    Lose(),
    Replace(500),
)
KINDS = {
    "begin": r"POST .*\?uploads",
    "part": r"PUT .*partNumber=",
    "complete": r"POST .*uploadId=",
    "list": r"GET .*list-type=2",
    "commit": r"PUT .*/_kafkeep/[^?]*$",
    "object": r"PUT .*/topics/[^?]*$",
    "read the log": r"GET .*/_kafkeep/[^?]*$",
    "read an object": r"GET .*/topics/[^?]*$",
}


@dataclass
class BadDays(Rule):
    """A fault for the first request of each kind, and for a share of all others."""

    fault: Fault = field(default_factory=Reset)
    chances: Random = field(default_factory=Random)
    met: Counter[str] = field(default_factory=Counter)
    """How many requests of each kind met a fault."""

    def take(self, method: str, path: str) -> bool:
        asked = f"{method} {path}"
        kind = next((name for name, those in KINDS.items() if re.match(those, asked)), "other")
        if self.met[kind] and self.chances.random() >= SHARE:
            return False
        self.met[kind] += 1
        cut = (Truncate(7),) if kind.startswith("read") else ()
        self.fault = self.chances.choice((*FAULTS, *cut))
        return True


def change_options(monkeypatch: pytest.MonkeyPatch, **changed: int) -> None:
    """Have all commands use the store as no flag of theirs says."""
    told = StorageOptions.from_env
    monkeypatch.setattr(
        StorageOptions,
        "from_env",
        lambda **given: replace(told(**given), **changed),  # type: ignore[arg-type]
    )


@pytest.fixture
def bad_days(s3_env: DevStatus, monkeypatch: pytest.MonkeyPatch) -> Iterator[BadDays]:
    """The same server on bad days; waits are short."""
    change_options(monkeypatch, retry_backoff_ms=5)
    with FaultProxy(s3_env.s3.endpoint) as proxy:
        rule = BadDays(chances=chances_of_run())
        proxy.add(rule)
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield rule


def fill(cluster: Cluster, topic: str, chances: Random) -> None:
    """Send a few small records, then more than a part holds of what cannot be compressed."""
    now = time.time_ns() // 1_000_000
    for partition in (0, 1):
        cluster.fill(topic, 200, partition)
        large = [Record(i, now, b"%d" % i, chances.randbytes(20_000)) for i in range(45)]
        cluster.raw(topic, [build_batch(large)] * 8 * partition, partition)


def test_a_backup_and_a_restore_on_bad_days_bring_back_each_record_and_write_each_key_once(
    cluster: Cluster,
    topic_name: str,
    versioned: VersionedBucket,
    bad_days: BadDays,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive, target = f"s3://{versioned.name}/archive", f"{topic_name}-back"
    where = ("--bootstrap-servers", cluster.bootstrap, "--archive", archive)
    cluster.create(topic_name, 2)
    for size in ("64KiB", "3MiB", "6MiB"):
        fill(cluster, topic_name, bad_days.chances)
        kafkeep("backup", *where, "--topics", topic_name, "--segment-bytes", size).expect(0)
        # Not before: the first run finds that this server does not decide races of completions.
        change_options(monkeypatch, multipart_bytes=MIB, part_bytes=5 * MIB)
    kafkeep("restore", *where, "--topics", f"{topic_name}:{target}").expect(0)

    print(dict(bad_days.met))
    assert bad_days.met.keys() >= KINDS.keys(), "each kind of request has met a fault"
    original = dump(cluster.bootstrap, topic_name)
    assert count(original) > 2000
    assert_same(original, dump(cluster.bootstrap, target))
    assert check_log(open_store(archive, StorageOptions.from_env()), "backup") == []
    assert all("/_kafkeep/probe/" in key for key in versioned.deleted_keys())
    assert set(versioned.count_versions().values()) == {1}
