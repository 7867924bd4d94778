"""How ``make test-matrix`` counts and prints."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.support import matrix
from tests.support.matrix import Row, count, format_row_notes, format_table, parse_arguments, run

REPORT = """<testsuite>
<testcase classname="a" name="one" time="1.5"><properties>
  <property name="suite" value="records"/></properties></testcase>
<testcase classname="a" name="two" time="1"><properties>
  <property name="suite" value="records"/></properties><failure message="no"/></testcase>
<testcase classname="a" name="three" time="0"><properties>
  <property name="suite" value="dataframe"/></properties>
  <skipped message="refused: Spark 3.5 has no Python data sources"/></testcase>
<testcase classname="a" name="four" time="0"><properties>
  <property name="suite" value="dataframe"/></properties><skipped message="not here"/></testcase>
</testsuite>"""


def test_outcomes_are_counted_by_suite_and_printed_with_their_reasons() -> None:
    row = Row("Spark 3.5.9", wall=12)
    count(row, ElementTree.fromstring(REPORT).iter("testcase"))
    notes = format_row_notes(row)
    assert "FAILED: a::two" in notes
    assert "refused: Spark 3.5 has no Python data sources" in notes
    assert "skipped: not here" in notes
    _, head, line = format_table([row]).splitlines()
    assert head.split() == ["records", "dataframe", "all", "wall"]
    assert line.split() == ["Spark", "3.5.9", "1/1/0/0", "2s", "0/0/1/1", "0s", "1/1/1/1", "12s"]


@pytest.mark.parametrize("wrong", [["kafak-3.9.1"], ["--suites", "recrods"]])
def test_a_mistyped_release_or_suite_runs_nothing(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_arguments(wrong)
    assert ended.value.code == 2


@pytest.mark.parametrize("name", ["spark-4.3", "java-21", "python-3.13"])
def test_a_release_without_any_of_the_suites_runs_nothing(name: str, tmp_path: Path) -> None:
    row = run(name, tmp_path, only=["groups"])
    assert (row.counts, row.has_failed, list(tmp_path.iterdir())) == ({}, False, [])
    assert "skipped: it has none of these suites" in format_row_notes(row)


def test_a_release_of_python_that_is_not_here_is_skipped(tmp_path: Path) -> None:
    row = run("python-2.0", tmp_path)
    assert not row.has_failed
    assert "skipped: Python 2.0 is not here" in format_row_notes(row)


def test_the_python_that_runs_the_matrix_needs_no_other_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Path] = []
    monkeypatch.setattr(matrix, "run_tests", lambda row, python, *_: ran.append(python) or row)
    row = run(f"python-{matrix.DEFAULT_PYTHON}", tmp_path)
    assert (row.name, ran) == (f"Python {matrix.DEFAULT_PYTHON}", [Path(sys.executable)])
    assert list(tmp_path.iterdir()) == []
