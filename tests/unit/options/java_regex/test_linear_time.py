"""Texts that users send are read in linear time: none holds the interpreter for hours.

Each of these took minutes to years for a text of this size, most of them in one call of ``re``,
in which no other thread runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from kafkeep.connect.connectors import aiven
from kafkeep.connect.connectors.lenses import parse_kcql
from kafkeep.connect.model import RestError
from kafkeep.connect.rest.call import as_config
from kafkeep.connect.safety import restrictions
from kafkeep.connect.safety.secrets import hide, is_secret, mask
from kafkeep.connect.worker.config_providers import Providers, iter_references
from kafkeep.errors import KafkeepError
from kafkeep.kafka.security.tls import _normal_pem
from kafkeep.options.sink.date_patterns import parse_path_format
from kafkeep.records.converters.simple_headers import parse_number
from kafkeep.records.partitioners.joda import parse_text_ms
from kafkeep.records.transforms.cast import parse_float

SIZE = 300_000
MOMENT_S = 10.0
"""CPU time, generous: a second is more than any of them takes."""


def resolve(text: str) -> None:
    Providers().resolve({"store.url": text})


def show(text: str) -> None:
    mask({"aws.secret.access.key": text})
    hide("a line", [{"aws.secret.access.key": text}])


def read_aiven(text: str) -> None:
    aiven._names(aiven.AivenOptions(file_name_template=text))


CASES: list[tuple[Callable[[str], Any], str, str]] = [
    (resolve, "${", ""),
    (resolve, "${a:", ""),
    (resolve, "${a:", "}"),
    (resolve, "${", "}"),
    (show, "password=${a:", ""),
    (is_secret, "credentials", "\n"),
    (is_secret, "aws.access.", "\n"),
    (restrictions._names_a_file, "ssl.", ""),
    (parse_kcql, "limit ", "'"),
    (lambda text: parse_kcql(f"insert into a select{text}x"), " ", ""),
    (lambda text: parse_kcql(f"insert into a select * from b {text}"), "limit ", ""),
    (lambda text: parse_kcql(f"insert into a select * from b {text}"), "limit ' ", ""),
    (read_aiven, "{{key ", ""),
    (parse_path_format, ",", ""),
    (_normal_pem, "-----BEGIN A-----", ""),
    (_normal_pem, "-----BEGIN A----------END B-----", ""),
    (parse_number, "1", "x"),
    (parse_float, "1", "x"),
    (parse_float, "0x1", "x"),
    (lambda text: parse_text_ms(f"2024-01-01T1{text}"), "+", "\n"),
]


@pytest.mark.parametrize(("read", "piece", "end"), CASES)
def test_a_long_text_is_read_or_refused_in_a_moment(
    read: Callable[[str], Any], piece: str, end: str
) -> None:
    text = piece * (SIZE // len(piece)) + end
    start = time.thread_time()
    with suppress(KafkeepError, ValueError):
        read(text)
    assert time.thread_time() - start < MOMENT_S


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("${a:b}", [("a", "", "b")]),
        ("x${file:/p:k}y${env:N}", [("file", "/p", "k"), ("env", "", "N")]),
        ("${a}${b:c}", [("b", "", "c")]),
        ("${${b:c}", [("${b", "", "c")]),
        ("${a:b:c:d}", [("a", "b", "c:d")]),
        ("${a:", []),
        ("${:}", [("", "", "")]),
    ],
)
def test_references_are_found_as_kafka_finds_them(
    text: str, names: list[tuple[str, str, str]]
) -> None:
    assert [tuple(one)[2:] for one in iter_references(text)] == names


def test_a_configuration_of_too_many_or_too_long_keys_is_refused() -> None:
    with pytest.raises(RestError, match="at most 1000 keys"):
        as_config({str(number): "" for number in range(1001)})
    with pytest.raises(RestError, match="at most 1000 characters"):
        as_config({"k" * 1001: ""})
