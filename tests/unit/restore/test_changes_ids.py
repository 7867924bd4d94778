"""Schema ids are mapped in what transforms leave alone, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.archive_builder import ObjectPlan, write_object

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.check_result import CheckStatus
from kafkeep.errors import UsageError
from kafkeep.kafka.batch.decode import decode
from kafkeep.kafka.batch.layout import Record
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.kafka.batch.schema_ids import IdRewriter
from kafkeep.options.record_changes import ChangeOptions
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.document import Phase, RestoreDocument
from kafkeep.restore.plan import RestorePlan, TopicPlan, plan_partition
from kafkeep.restore.routing.plan import check_routing
from kafkeep.restore.routing.routing import Routing
from kafkeep.restore.routing.rows import SourceRows, iter_routed_batches
from kafkeep.restore.schemas import id_map
from kafkeep.restore.selection import whole_slices
from kafkeep.store.memory import MemoryStore

SMT = "org.apache.kafka.connect.transforms."
MASK = {
    "transforms": "mask",
    "transforms.mask.type": f"{SMT}MaskField$Value",
    "transforms.mask.fields": "card",
}
JSON = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}
AVRO = {"value.converter": "AvroConverter", "value.converter.schema.registry.url": "http://old:1"}
HEADER = {
    "transforms": "mark",
    "transforms.mark.type": f"{SMT}InsertHeader",
    "transforms.mark.header": "copy",
    "transforms.mark.value.literal": "yes",
}
DOCUMENT = RestoreDocument(
    id="id", revision=1, phase=Phase.WRITING, log="log", commit=1, cluster_id="c", at_ms=1,
    targets=(), schemas={"mode": "map", "ids": {"3": 7}},
)  # fmt: skip


def mapped(told: dict[str, str]) -> RestoreOptions:
    changes = ChangeOptions.of(told)
    return RestoreOptions(schemas="map", schema_registry="http://new:1", changes=changes)


def framed(id: int) -> bytes:
    return b"\x00" + id.to_bytes(4) + b"data"


def restored(told: dict[str, str], value: bytes) -> tuple[bytes, bytes]:
    """Return key and value of a record whose key has id 3."""
    store = MemoryStore()
    record = Record(0, 1, framed(3), value, [])
    entry = write_object(store, PartitionId("t", 1, 0), ObjectPlan(records=[record]))
    options = mapped(told)
    ids = id_map(DOCUMENT, options)
    assert ids is not None
    source = SourceRows(store, whole_slices([entry]))
    shaped = iter_routed_batches(source, Routing(changes=options.changes))
    [batch] = IdRewriter(ids).batches(shaped, "t")
    [row] = decode(scan_batches(batch.body), range=OffsetRange(0, 1)).to_pylist()
    return row["key"], row["value"]


def test_a_masked_value_is_left_alone_and_the_key_beside_it_is_mapped() -> None:
    assert restored({**MASK, **JSON}, b'{"card":"1"}') == (framed(7), b'{"card":""}')


def test_what_no_transform_changes_is_mapped() -> None:
    assert restored(HEADER, framed(3)) == (framed(7), framed(7))


def test_a_converter_that_writes_ids_of_its_own_is_refused() -> None:
    with pytest.raises(UsageError, match=r"value\.converter writes schema ids of its own registry"):
        mapped({**MASK, **AVRO})
    mapped({**HEADER, **AVRO})  # it writes nothing


def test_rows_of_a_sink_are_refused() -> None:
    options = mapped(HEADER)
    store = MemoryStore()
    record = Record(0, 1, b"k", b"v", [])
    segment = write_object(store, PartitionId("t", 1, 0), ObjectPlan(records=[record]))
    info = TopicInfo(
        topic="t", incarnation=1, topic_id="", partitions=1, replication_factor=1, configs={}
    )
    for entry, expected in ((segment, False), (replace(segment, format="json"), True)):
        routing = Routing(changes=options.changes)
        topic = TopicPlan(info, "t", (plan_partition(0, (entry,)),), routing)
        checks = check_routing(RestorePlan("id", "log", 1, (topic,), routing=routing), options)
        assert any(check.verdict is CheckStatus.FAIL for check in checks) is expected
