"""Objects of the sink are read by tools that are not ours, and hold what was in Kafka."""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pytest
from pyspark.sql import SparkSession
from tests.support import java_avro
from tests.support.cluster import Cluster
from tests.support.golden.cases import GoldenCase, load_case
from tests.support.golden.produce import produce_cases, remove_topics
from tests.support.sink_runs import Bucket, filled_in, probed_once, run_connector

from kafkeep.dev import DevStatus

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark", "module_s3", "probed")]

FLUSH_SIZE = 11
ORDERS = load_case("13")
RICH = load_case("13f")
FORMATS = "io.confluent.connect.s3.format"
JSON = {"format.class": f"{FORMATS}.json.JsonFormat"}
AVRO = {"format.class": f"{FORMATS}.avro.AvroFormat"}
PARQUET = {"format.class": f"{FORMATS}.parquet.ParquetFormat"}
AVRO_CODECS = ("null", "deflate", "snappy", "bzip2")
PARQUET_CODECS = ("none", "snappy", "gzip", "zstd", "lz4_raw")

Rows = list[dict[str, Any]]
Files = Callable[..., list[Path]]


def payloads(case: GoldenCase) -> Rows:
    """Return what was in Kafka, without the tails that no rule closes, in any order."""
    found: Rows = []
    for partition, end in case.topics[next(iter(case.topics))].ends.items():
        closed = end - end % FLUSH_SIZE
        mine = [r for r in case.records if r.partition == partition and r.offset < closed]
        found += [json.loads(record.value or b"")["payload"] for record in mine]
    return found


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: str(row.get("orderId", row.get("id"))))


@pytest.fixture(scope="module")
def probed() -> Iterator[None]:
    with probed_once():
        yield


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> Iterator[None]:
    topics = [*ORDERS.topics, *RICH.topics]
    produce_cases(cluster, [ORDERS, RICH])
    yield
    remove_topics(cluster, topics)


@pytest.fixture(scope="module")
def files(services: DevStatus, filled: None, tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Run a sink with some settings and return its objects as files, in a folder of their own."""
    bucket = Bucket(services)
    made: dict[str, list[Path]] = {}

    def run(settings: Mapping[str, str], case: GoldenCase = ORDERS) -> list[Path]:
        known = f"{case.number} {json.dumps(dict(settings), sort_keys=True)}"
        if known not in made:
            folder = f"tools-{uuid.uuid4().hex[:8]}"
            config = {**case.config, "flush.size": str(FLUSH_SIZE), "topics.dir": folder}
            config = filled_in({**config, **settings, "name": folder}, services, bucket.name)
            run_connector(config, services.bootstrap_servers)
            keys = [key for key in bucket.list_keys() if key.startswith(f"{folder}/")]
            made[known] = _download(bucket, keys, tmp_path_factory.mktemp(folder))
        return made[known]

    return run


def _download(bucket: Bucket, keys: list[str], folder: Path) -> list[Path]:
    paths = [folder / key.replace("/", "_") for key in sorted(keys)]
    for path, key in zip(paths, sorted(keys), strict=True):
        path.write_bytes(bucket.read(key))
    assert paths
    return paths


def _duckdb(query: str, paths: list[Path]) -> Rows:
    found = duckdb.execute(query, [[str(path) for path in paths]])
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_duckdb_reads_json(files: Files, compression: str) -> None:
    paths = files({**JSON, "s3.compression.type": compression})
    rows = _duckdb("select * from read_json(?, format='newline_delimited')", paths)
    assert in_order(rows) == in_order(payloads(ORDERS))


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_spark_reads_json(files: Files, compression: str) -> None:
    paths = files({**JSON, "s3.compression.type": compression})
    session = SparkSession.builder.getOrCreate()
    frame = session.read.json([str(path) for path in paths])
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    assert in_order(rows) == in_order(payloads(ORDERS))


@pytest.mark.parametrize("codec", [*PARQUET_CODECS, "brotli"])
def test_duckdb_reads_parquet(files: Files, codec: str) -> None:
    paths = files({**PARQUET, "parquet.codec": codec})
    rows = _duckdb("select * from read_parquet(?)", paths)
    assert in_order(rows) == in_order(payloads(ORDERS))


@pytest.mark.parametrize("codec", PARQUET_CODECS)
def test_spark_reads_parquet(files: Files, codec: str) -> None:
    paths = files({**PARQUET, "parquet.codec": codec})
    session = SparkSession.builder.getOrCreate()
    frame = session.read.parquet(*[str(path) for path in paths])
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    assert in_order(rows) == in_order(payloads(ORDERS))


@pytest.mark.parametrize("codec", AVRO_CODECS)
def test_fastavro_reads_avro(files: Files, codec: str) -> None:
    rows: Rows = []
    for path in files({**AVRO, "avro.codec": codec}):
        with path.open("rb") as file:
            reader = fastavro.reader(file)
            assert reader.codec == codec
            rows += list(reader)
    assert in_order(rows) == in_order(payloads(ORDERS))


@pytest.mark.parametrize("codec", [*AVRO_CODECS, "zstandard"])
def test_the_java_avro_tools_read_avro(files: Files, codec: str) -> None:
    paths = files({**AVRO, "avro.codec": codec})
    rows = java_avro.read_records(paths[0])
    wanted = payloads(ORDERS)[:FLUSH_SIZE]
    assert [{**row, "product": _branch(row["product"])} for row in rows] == wanted


def test_the_java_avro_tools_read_every_type(files: Files) -> None:
    path = files({**AVRO, "connect.meta.data": "true"}, RICH)[0]
    schema = java_avro.read_schema(path)
    assert (schema["namespace"], schema["name"]) == ("shop", "RichOrder")
    rows = java_avro.read_records(path)
    wanted = payloads(RICH)[:FLUSH_SIZE]
    assert [row["id"] for row in rows] == [row["id"] for row in wanted]
    assert [row["placed"] for row in rows] == [row["placed"] for row in wanted]
    assert [_branch(row["opt_i64"]) for row in rows] == [row["opt_i64"] for row in wanted]
    assert [row["lines"] for row in rows] == [row["lines"] for row in wanted]


def _branch(value: Any) -> Any:
    """Return what stands in a union: Avro's JSON names the branch."""
    return next(iter(value.values())) if isinstance(value, dict) else value


@pytest.mark.parametrize(("compression", "tool"), [("gzip", "gzip"), ("zstd", "zstd")])
def test_compressed_objects_pass_the_test_of_their_tool(
    files: Files, compression: str, tool: str
) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not on this machine")
    paths = files({**JSON, "s3.compression.type": compression})
    done = subprocess.run([tool, "-t", *map(str, paths)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    text = subprocess.run([tool, "-dc", *map(str, paths)], capture_output=True, check=True).stdout
    rows = [json.loads(line) for line in text.splitlines()]
    assert in_order(rows) == in_order(payloads(ORDERS))
