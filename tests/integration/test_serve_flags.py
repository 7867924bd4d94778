"""``kafkeep serve`` whose state lies in a bucket that its flags alone tell how to reach."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest
from tests.support.cluster import Cluster, until
from tests.support.connect.curl_service import PATIENCE, Shelf, curl_service
from tests.support.independent_client import dump

from kafkeep.dev import DevStatus

pytestmark = pytest.mark.integration


def test_a_source_keeps_how_far_it_is_where_the_flags_say(
    services: DevStatus, cluster: Cluster, tmp_path: Path
) -> None:
    s3, topic = services.s3, cluster.create(f"kept-{uuid.uuid4().hex[:6]}")
    cluster.produce(topic, [{"key": b"k", "value": b"%d" % n} for n in range(5)])
    shelf = Shelf(services, f"flags-{uuid.uuid4().hex[:8]}")
    shelf.client.create_bucket(Bucket=shelf.name)
    rest = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
    keys = {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key}
    flags = ("--state", f"s3://{shelf.name}/state", "--s3-endpoint", s3.endpoint)
    flags += ("--s3-region", s3.region)
    with curl_service(services, tmp_path, environ={**rest, **keys}, options=flags) as service:
        where = service.s3_keys(shelf.name)
        backup = {"connector.class": "kafkeep.Backup", "topics": topic, "segment.age": "500ms"}
        service.post("keep", {**backup, **where})
        back = f"{topic}-back"
        restore = {"connector.class": "kafkeep.Restore", "topics": f"{topic}:{back}"}
        until(lambda: bool(shelf.sizes(f"topics/{topic}/")), "it is kept", seconds=PATIENCE)
        service.post("bring", {**restore, **where, "poll.interval.ms": "500"})
        until(lambda: cluster.partitions(back) == [0], "the topic is there", seconds=PATIENCE)
        until(lambda: cluster.end(back) == 5, "and its records", seconds=PATIENCE)
        found, kept = (dump(cluster.bootstrap, name)[0] for name in (back, topic))
        assert [one.content for one in found] == [one.content for one in kept]

        def reached() -> list[str]:
            told = service.curl("/connectors/bring/offsets").expect()["offsets"]
            return [one["offset"]["fileOffset"] for one in told]

        # It is written down when the round is over, a while after its records are there.
        until(lambda: reached() == ["5"], "and how far it is", seconds=PATIENCE)
        assert [key for key in shelf.sizes("state/") if "/sources/bring-" in key]
        assert service.end() == 0
    shelf.remove()
