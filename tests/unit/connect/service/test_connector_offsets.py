"""Offsets of connectors on pages: a source's take a connection, so they are kept for a moment."""

from __future__ import annotations

from typing import Any

import pytest

from kafkeep.connect.catalog.archives.archives import Archives
from kafkeep.connect.jobs import offsets
from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.model import Connector
from kafkeep.connect.plugins.validate import Definitions
from kafkeep.connect.service.connector_offsets import ConnectorOffsets
from kafkeep.connect.worker.config_providers import Providers
from kafkeep.options.kafka import KafkaOptions

SOURCE = Connector(name="back", config={"connector.class": "kafkeep.Restore"})


def test_pages_of_a_source_read_its_offsets_once_until_they_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[str] = []

    def read(name: str, *_: Any) -> list[dict[str, Any]]:
        reads.append(name)
        return [{"partition": {"folder": str(n)}, "offset": {}} for n in range(20_000)]

    monkeypatch.setattr(offsets, "read_offsets", read)
    unused: Any = None
    context = JobContext(
        kafka=KafkaOptions("localhost:1"), run_tasks=unused, slots=lambda: 1, state_address="x"
    )
    kept = ConnectorOffsets(Definitions(providers=Providers()), lambda _: context, Archives(list))
    for start in range(0, 1000, 200):
        rows, count = kept.page(SOURCE, start, 200, None)
        assert (rows[0]["partition"]["folder"], len(rows), count) == (str(start), 200, 20_000)
    assert len(reads) == 1
    kept.page(SOURCE, 0, 200, 0)  # after a change
    kept.page(SOURCE, 0, 200, None)
    assert len(reads) == 2
    assert len(kept.all(SOURCE)) == 20_000  # what Connect's API answers is of now
    assert len(reads) == 3
