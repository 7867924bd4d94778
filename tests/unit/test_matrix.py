"""How ``make test-matrix`` counts and prints."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from tests.support.matrix import Row, count, format_row_notes, format_table, parse_arguments

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
