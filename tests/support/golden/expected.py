"""What kafkeep does with each case of the real sink: the same, better, or the same failure.

``docs/differences.md`` shows these sentences to users. ``python -m tests.support.golden.expected``
writes its tables, and a test compares them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tests.support.golden.cases import CONTEXT, GoldenCase, GoldenRecord, load_cases
from tests.support.golden.compare import Rows
from tests.support.golden.rules import encode_path_part, exactly, is_json, objects_by_rule

PAGE = Path(__file__).parents[3] / "docs" / "differences.md"
CONNECT = "org.apache.kafka.connect"


class Kind(StrEnum):
    """How kafkeep's outcome stands to the real sink's."""

    SAME = "same"
    FAILS = "fails"
    """Fails or is refused there and here."""
    WORKS = "works"
    """Fails there, works here."""
    DIFFERS = "differs"
    """Works there, does something else here on purpose."""


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What is expected of one case. ``sentence`` is what users are told."""

    kind: Kind
    sentence: str = ""
    words: tuple[str, ...] = ()
    """What the error must name."""
    same_with: Mapping[str, str] = field(default_factory=dict)
    """Settings under which the objects are those of the real sink after all."""


def _same() -> Expectation:
    return Expectation(kind=Kind.SAME)


def _fails(sentence: str, *words: str) -> Expectation:
    return Expectation(kind=Kind.FAILS, sentence=sentence, words=words)


def _works(sentence: str) -> Expectation:
    return Expectation(kind=Kind.WORKS, sentence=sentence)


def _differs(sentence: str, **same_with: str) -> Expectation:
    settings = {name.replace("_", "."): value for name, value in same_with.items()}
    return Expectation(kind=Kind.DIFFERS, sentence=sentence, same_with=settings)


_BY_TIME = (
    "`rotate.interval.ms` closes files with every partitioner. Confluent's sink ignores it unless"
    " directories follow time."
)
_KEPT = (
    "JSON values are written as they came, including numbers and the order of members. In"
    " Confluent's sink large integers wrap around, 1e400 becomes a string, digits are lost and"
    " members are shuffled."
)
_ONE_DOCUMENT = (
    "A value that is not exactly one JSON document is an error. Confluent's sink silently drops a"
    " second document, trailing text, a byte order mark and leading zeros."
)

SPECIAL: Mapping[str, Expectation] = {
    "01": _differs(_BY_TIME, rotate_interval_ms="-1"),
    "01b": _differs(_BY_TIME, rotate_interval_ms="-1"),
    "04b": _fails(
        "A `timestamp.field` that is not a time fails the task.",
        "gold-rf-bad-0", "9", "timestamp",
    ),
    "04c": _fails(
        "A record without its `timestamp.field` fails the task.",
        "gold-rf-missing-0", "9", "timestamp",
    ),
    "07": _differs(
        "A field's value cannot change the path: `/`, `\\`, `%`, control characters, an empty value"
        " and `.` or `..` are percent-encoded in directories. Confluent's sink writes them as they"
        " are.",
        partition_path_encoding="raw",
    ),
    "07b": _works("FieldPartitioner accepts schemaless JSON."),
    "10c": _fails(
        "ByteArrayFormat accepts only bytes: with StringConverter the task fails.",
        "ByteArray", "STRING",
    ),
    "15c": _works(
        "Parquet accepts schemaless JSON, with columns inferred for each object."
    ),
    "18d": _fails(
        "`schema.compatibility` other than NONE needs schemas with a version.",
        "version", "BACKWARD",
    ),
    "19c": _works(
        "With `store.kafka.keys`, a null key is the line `null` of the keys file."
    ),
    "20b": _differs(
        "Header values are kept: text as `value`, other bytes as `bytes` in base64. In Confluent's"
        " sink 007 becomes 7, 1e3 becomes 1000, and bytes that are not text are lost.",
        header_converter=f"{CONNECT}.storage.SimpleHeaderConverter",
    ),
    "20d": _works(
        "A record without headers is an empty list in the headers file."
    ),
    "20e": _works("With `store.kafka.headers`, a header value may be null."),
    "20h": _differs(
        "In Avro and Parquet headers files a header has three members: `key`, `value` (may be null)"
        " and `bytes` for values that are not text. In Confluent's sink it has `key` and `value`,"
        " which may not be null."
    ),
    "20i": _works("The header text `null` is text, not null."),
    "20j": _works(
        "Line n of the value, keys and headers files is always the same record. In Confluent's sink"
        " a null header value is missing from the headers file and shifts the lines after it."
    ),
    "21b": _fails(
        "A null value fails the task unless `behavior.on.null.values` says otherwise.",
        "gold-nulls-fail-0", "17", "behavior.on.null.values",
    ),
    "22": _differs(
        "With `behavior.on.null.values=write` tombstones are rows in order: `null` in the value"
        " file, their keys beside it, in the directory of their partition or time. Confluent's sink"
        " writes only their keys, in a separate folder.",
        tombstone_encoded_partition="tombstone",
    ),
    "22d": _fails(
        "`behavior.on.null.values=write` needs `store.kafka.keys=true`.", "store.kafka.keys"
    ),
    "22e": _works(
        "A topic whose name contains `tombstone` is a topic like any other."
    ),
    "23b": _works(
        "`filename.offset.zero.pad.width=0` writes offsets without padding."
    ),
    "24b": _differs(
        "Records of aborted transactions are not read. Confluent's sink reads them by default.",
        consumer_override_isolation_level="read_uncommitted",
    ),
    "27": _differs(_KEPT),
    "27b": _differs(_ONE_DOCUMENT),
    "27c": _fails(
        "With `errors.tolerance=none` a value that is not JSON fails the task.",
        "gold-json-nan-0", "12", "JSON",
    ),
    "46": _fails(
        "JsonConverter with `schemas.enable=true` needs values with `schema` and `payload`.",
        "schemas.enable", "payload",
    ),
    "48": _works("RegexRouter changes the folder and the file name."),
    "49": _works(
        "A record with a null key is written to its file and needs no dead letter. In Confluent's"
        " sink the task fails or skips the record."
    ),
    "50": _differs(
        "With `rotate.schedule.interval.ms` too, every record is in one object. Confluent's sink"
        " writes records that it reads again under a name shifted by one."
    ),
}  # fmt: skip

EXPECTED: Mapping[str, Expectation] = {
    case.number: SPECIAL.get(case.number, _same()) for case in load_cases()
}


def expected_objects(
    case: GoldenCase, records: Sequence[GoldenRecord] | None = None, *, like_theirs: bool = False
) -> Mapping[str, Rows | bytes]:
    """Return the objects kafkeep must write for a case that does not fail.

    ``records`` are those that were really produced: the broker's times are only known then.
    ``like_theirs`` asks what is expected under ``same_with``.
    """
    if case.number == "43":
        return exactly(objects_by_rule(case, records))
    if EXPECTED[case.number].kind is Kind.SAME or like_theirs:
        return case.objects
    if case.number in _MADE:
        return dict(_MADE[case.number](case))
    return exactly(objects_by_rule(case, records))


def expected_dead_letters(case: GoldenCase) -> list[tuple[str, int, int]]:
    """Return topic, partition and offset of each record that goes to the dead letter topic."""
    if not case.config.get("errors.deadletterqueue.topic.name"):
        return []
    return [(r.topic, r.partition, r.offset) for r in case.records if not is_json(r.value or b"")]


def letter_source(letter: GoldenRecord) -> tuple[str, int, int]:
    """Return where a dead letter came from, by its context headers."""
    told = {name: (value or b"").decode() for name, value in letter.headers}
    return (
        told[f"{CONTEXT}topic"],
        int(told[f"{CONTEXT}partition"]),
        int(told[f"{CONTEXT}offset"]),
    )


Made = Iterator[tuple[str, Rows | bytes]]


def _safe_directories(case: GoldenCase) -> Made:
    """Encode the field in the keys of case 07; ``null`` is no text there."""
    for key, data in case.objects.items():
        head, _, rest = key.partition("product=")
        value, _, name = rest.rpartition("/")
        safe = value if value == "null" else encode_path_part(value)
        yield f"{head}product={safe}/{name}", data


def _inferred_parquet(case: GoldenCase) -> Made:
    """Make rows of JSON objects; every column may be null, as nothing says it may not.

    ``_json`` is the text of a document that columns cannot hold exactly: none of these.
    """
    types = {str: "string", float: "double", int: "int64", bool: "bool"}
    lines = {"format.class": "JsonFormat"}
    for key, data in objects_by_rule(case, config=lines).items():
        documents = [json.loads(line) for line in data.splitlines()]
        columns = [(name, types[type(value)], True) for name, value in documents[0].items()]
        columns.append(("_json", "string", True))
        rows = tuple({**document, "_json": None} for document in documents)
        name = key.removesuffix(".json") + ".snappy.parquet"
        yield name, Rows("parquet", rows, (["SNAPPY"], columns))


def _headers_with_bytes(case: GoldenCase) -> Made:
    """Give headers in Parquet their third member; a value may be null."""
    members = [("key", "string", False), ("value", "string", True), ("bytes", "binary", True)]
    column = ("headers", ("list", ("struct", members), False), False)
    for key, data in case.objects.items():
        if ".headers." not in key:
            yield key, data
            continue
        rows = tuple(
            {"headers": [{**header, "bytes": None} for header in row["headers"]]}
            for row in case.rows(key).rows
        )
        yield key, Rows("parquet", rows, (["SNAPPY"], [column]))


def _without_repeats(case: GoldenCase) -> Made:
    """Leave out what was written a second time, under the offset after the first."""
    yield from ((key, data) for key, data in case.objects.items() if "+0000000000." in key)


_MADE: Mapping[str, Callable[[GoldenCase], Made]] = {
    "07": _safe_directories,
    "15c": _inferred_parquet,
    "20h": _headers_with_bytes,
    "50": _without_repeats,
}


def table(kind: Kind) -> str:
    """Return the page's table of one kind: sentence, how to get theirs, cases."""
    told: dict[tuple[str, str], list[str]] = {}
    for number, expectation in EXPECTED.items():
        if expectation.kind is kind:
            settings = ", ".join(f"`{n}={v}`" for n, v in expectation.same_with.items())
            told.setdefault((expectation.sentence, settings), []).append(number)
    return "\n".join(_iter_lines(told, with_settings=kind is Kind.DIFFERS)) + "\n"


def _iter_lines(
    told: Mapping[tuple[str, str], Sequence[str]], *, with_settings: bool
) -> Iterator[str]:
    middle = ("| same as Confluent's with ", "|---") if with_settings else ("", "")
    yield f"| kafkeep {middle[0]}| case |"
    yield f"|---{middle[1]}|---|"
    for (sentence, settings), numbers in told.items():
        cell = f"| {settings or '-'} " if with_settings else ""
        yield f"| {sentence} {cell}| {', '.join(numbers)} |"


def page_with_tables(page: str) -> str:
    """Return the page with each table, between its two marks, as it must be."""
    for kind in (Kind.WORKS, Kind.DIFFERS, Kind.FAILS):
        begin, end = f"<!-- {kind} -->\n", f"<!-- end of {kind} -->"
        head, _, rest = page.partition(begin)
        _, _, tail = rest.partition(end)
        page = f"{head}{begin}{table(kind)}{end}{tail}"
    return page


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text()))
