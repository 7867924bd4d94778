"""What Spark's Python workers are forked from: where it imports from, and what it leaves alone."""

from pathlib import Path

import pytest

from kafkeep.spark.worker_daemon import leave_out_zips


@pytest.fixture
def site(tmp_path: Path) -> Path:
    home = tmp_path / "site" / "pyspark"
    for name in ("__init__.py", "python/lib/pyspark.zip", "jars/spark-core.jar"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    return tmp_path / "site"


def test_zips_of_the_same_pyspark_are_left_out_of_the_path(site: Path) -> None:
    zips = [str(site / "pyspark/python/lib/pyspark.zip"), str(site / "pyspark/jars/spark-core.jar")]
    mine = str(site.parent / "mine.zip")
    assert leave_out_zips([*zips, mine, str(site)]) == [mine, str(site)]


def test_a_zip_is_kept_where_there_is_no_folder(site: Path) -> None:
    path = [str(site / "pyspark/python/lib/pyspark.zip"), str(site.parent)]
    assert leave_out_zips(path) == path


def test_the_zip_of_another_spark_is_kept(site: Path) -> None:
    path = ["/opt/spark/python/lib/pyspark.zip", str(site)]
    assert leave_out_zips(path) == path
