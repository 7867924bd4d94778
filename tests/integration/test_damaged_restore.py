"""An archive with damage: what is sound comes back, also behind a restore that met the damage."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.cluster import Cluster
from tests.support.independent_client import Seen, assert_same, dump
from tests.support.run_kafkeep import kafkeep

from kafkeep.archive.entry import Entry
from kafkeep.archive.view import load_view
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.store.local.store import LocalStore

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
BATCHES, PER_BATCH = 8, 10


def flip(path: Path, entry: Entry) -> None:
    """Change one byte in the middle of its third frame."""
    data = bytearray(path.read_bytes())
    data[(entry.index[2].position + entry.index[3].position) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path, entry: Entry) -> None:
    """Leave two frames and a half."""
    data = path.read_bytes()
    path.write_bytes(data[: (entry.index[2].position + entry.index[3].position) // 2])


def fill(cluster: Cluster, topic: str) -> None:
    """Send batches that do not compress, so that each is a frame of its own."""
    cluster.create(topic, 2)
    now, chance = int(time.time() * 1000), random.Random(3)
    batches = [
        build_batch([Record(i, now, b"%d" % n, chance.randbytes(90_000)) for i in range(PER_BATCH)])
        for n in range(BATCHES)
    ]
    cluster.raw(topic, batches)
    cluster.fill(topic, 50, partition=1)


@pytest.mark.parametrize("damage", [flip, cut])
def test_a_restore_that_met_damage_continues_and_lacks_only_the_lost_frames(
    cluster: Cluster,
    topic_name: str,
    local_archive: Path,
    damage: Callable[[Path, Entry], None],
) -> None:
    fill(cluster, topic_name)
    where = ("--archive", local_archive, "--output", "json")
    both = (*where, "--bootstrap-servers", cluster.bootstrap)
    kafkeep("backup", "--topics", topic_name, *both).expect(0)
    entry = load_view(LocalStore(local_archive), "backup").entries()[0]
    assert len(entry.index) > 4
    whole = (local_archive / entry.key).read_bytes()
    damage(local_archive / entry.key, entry)
    found = kafkeep("verify", *where).expect(13).json["findings"][0]
    lost = range(found["lost_start"], found["lost_end"])
    assert 0 < len(lost) < BATCHES * PER_BATCH

    target = f"{topic_name}-back"
    restore = ("restore", "--topics", f"{topic_name}:{target}", *both)
    stopped = kafkeep(*restore).expect(13)
    assert entry.key in stopped.stderr and "--allow-missing" in stopped.stderr
    done = kafkeep(*restore, "--allow-missing").expect(3)
    assert [(o["partition"], o["start"], o["end"]) for o in done.json["lost_offsets"]] == [
        (0, lost.start, lost.stop)
    ]
    assert f"offsets {lost.start} to {lost.stop - 1}" in done.stderr
    before = dump(cluster.bootstrap, topic_name)
    sound: dict[int, list[Seen]] = {
        0: [seen for seen in before[0] if seen.offset not in lost],
        1: list(before[1]),
    }
    assert_same(sound, dump(cluster.bootstrap, target))
    (local_archive / entry.key).write_bytes(whole)  # too late for what was restored without it
    for flags in ((), ("--allow-missing",)):
        again = kafkeep(*restore, *flags).expect(3)
        assert again.json["records"] == 0
        assert again.json["lost_offsets"] == done.json["lost_offsets"]
    assert_same(sound, dump(cluster.bootstrap, target))
