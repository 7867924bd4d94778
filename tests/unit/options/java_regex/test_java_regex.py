"""Patterns in Java's syntax: what they match, what is refused, and that none takes long."""

from __future__ import annotations

import lzma
import pickle
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pytest

from kafkeep.errors import UsageError
from kafkeep.options.java_regex import compile_java_regex, parse_replacement, pattern

GOLDEN = Path(__file__).parents[3] / "golden" / "java_regex" / "vectors.tsv.xz"
BACKTRACKING = "(a+)+$" * 6
"""Python's ``re`` takes hours for it on 45 times the letter a and something else."""
MOMENT_S = 5.0
"""CPU time; most take milliseconds."""


@dataclass
class Case:
    """A pattern, its number of groups (None if Java refuses it), and the texts it matches."""

    pattern: str
    groups: int | None
    replaced: dict[int, str] = field(default_factory=dict)

    def ignores(self, text: str) -> bool:
        """Word boundaries are ASCII's as of Java 19; the table was made with 17."""
        return "\\b" in self.pattern.lower() and not text.isascii()


def load() -> tuple[list[str], list[Case]]:
    texts: list[str] = []
    cases: list[Case] = []
    with lzma.open(GOLDEN, "rt", encoding="ascii", newline="\n") as lines:
        for line in lines:
            kind, *fields = (unquote(one) for one in line.rstrip("\n").split("\t"))
            if kind == "T":
                texts.append(fields[0])
            elif kind == "R":
                cases[-1].replaced[int(fields[0])] = fields[1]
            else:
                cases.append(Case(fields[0], int(fields[1]) if kind == "P" else None))
    return texts, cases


def differences(texts: list[str], case: Case) -> Iterator[tuple[object, ...]]:
    compiled = compile_java_regex(case.pattern)
    if case.groups != compiled.group_count:
        yield case.pattern, "groups", case.groups, compiled.group_count
        return
    groups = "|".join(f"${number}" for number in range(1, case.groups + 1))
    try:
        replacement = parse_replacement(f"<{groups}>", compiled)
    except UsageError:
        replacement = None  # said to be uncertain
    for number, text in enumerate(texts):
        if case.ignores(text):
            continue
        wanted = case.replaced.get(number)
        if compiled.matches(text) != (wanted is not None):
            yield case.pattern, text, "java matches", wanted is not None
        elif wanted is not None and replacement is not None:
            made = replacement.replace_first(compiled, text)
            if made != wanted:
                yield case.pattern, text, "java replaces", wanted, made


def test_patterns_match_and_replace_as_java_does_or_are_refused() -> None:
    texts, cases = load()
    wrong: list[tuple[object, ...]] = []
    compared = 0
    for case in cases:
        try:
            wrong += differences(texts, case)
            compared += 1
        except UsageError:
            pass
    assert not wrong
    assert compared > 0.9 * len(cases) > 2000


@pytest.mark.parametrize("regex", [BACKTRACKING, "(a|a)*" * 20, "(.*)*" * 30, "(a?)*" * 30 + "a"])
def test_a_pattern_that_backtracks_takes_no_time_on_a_topic_of_45_letters(regex: str) -> None:
    compiled = compile_java_regex(regex)
    start = time.thread_time()
    compiled.matches("a" * 45)
    compiled.matches("a" * 45 + "!")
    assert time.thread_time() - start < MOMENT_S


@pytest.mark.parametrize(
    ("regex", "named"),
    [
        ("x(?=a).*", "a look-ahead (?=…)"),
        ("((?!__).)*", "a look-ahead (?!…)"),
        ("(?!a).*|b", "a look-ahead in one of several alternatives"),
        ("(?<=a)b", "a look-behind (?<=…)"),
        ("(?<!a)b", "a look-behind (?<!…)"),
        ("(?>a+)b", "an atomic group (?>…)"),
        (r"(a)\1", r"a back-reference (\1)"),
        (r"(?<n>a)\k<n>", r"a back-reference (\k)"),
        ("a++a", "a possessive quantifier (++)"),
        ("(ab){2}+", "a possessive quantifier ({2}+)"),
        ("(?m)^a", "the flag (?m)"),
        ("(?iu)a", "the flag (?u)"),
        (r"\p{IsGreek}", r"\p{IsGreek}"),
        (r"\Ga", r"\G"),
    ],
)
def test_what_only_java_has_is_refused_by_name(regex: str, named: str) -> None:
    with pytest.raises(UsageError) as caught:
        compile_java_regex(regex)
    assert f"has {named}" in caught.value.message
    assert "is not supported" in caught.value.message


@pytest.mark.parametrize(
    ("regex", "problem"),
    [
        ("a{1001}", "{1001} repeats more than 1000 times"),
        ("((a{20}){20}){20}", "exceed 1000"),
        (r"\p{L}{900}", "more than 8 MiB"),
        (r"\p{L}" * 10_000, "too large"),
        ("[" + r"\p{L}" * 10_000 + "]", "too large"),
        ("[" + r"\p{L}&&" * 9_000 + "a]", "too large"),
        ("(" * 5000 + ")" * 5000, "more than 200 deep"),
        ("[" * 5000 + "a" + "]" * 5000, "more than 20 deep"),
        ("a" * 70_000, "longer than 65536"),
        ("*", "* has nothing to repeat"),
        ("(", "a group is not closed"),
        ("[z-a]", "z-a is reversed"),
    ],
)
def test_what_is_wrong_or_too_large_is_refused_in_no_time(regex: str, problem: str) -> None:
    start = time.thread_time()
    with pytest.raises(UsageError) as caught:
        compile_java_regex(regex)
    assert time.thread_time() - start < MOMENT_S
    assert problem in caught.value.message
    assert len(caught.value.message) < 300


def test_names_are_selected_until_they_take_too_much_time(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = compile_java_regex("|".join(f"[ab]*a[ab]{{{size}}}" for size in range(1, 200)))
    names = [f"{number:016b}".translate({48: "a", 49: "b"}) * 15 for number in range(10_000)]
    quick = compile_java_regex("x[0-9]+")
    assert quick.select(["x1", "y", "x22"]) == ["x1", "x22"]
    assert quick.select(["x22", "z", "x3"]) == ["x22", "x3"]
    monkeypatch.setattr(pattern, "_MAX_SECONDS", 0.1)
    with pytest.raises(UsageError, match="takes too long"):
        slow.select(names)


def test_a_pattern_travels_to_a_task() -> None:
    sent = pickle.loads(pickle.dumps(compile_java_regex("(?<env>dev|prod)[.](.*)")))
    assert sent.matches("dev.orders") and sent.group_names == {"env": 1}


def test_bytes_that_are_no_text_count_as_one_character() -> None:
    assert compile_java_regex("a.b").matches("a\udcffb")


def test_a_replacement_takes_as_many_digits_as_there_are_groups() -> None:
    regex = compile_java_regex("(?<x>a)(b)")
    assert parse_replacement(r"$12-${x}\$$0", regex).replace_first(regex, "ab") == "a2-a$ab"
    for bad in ("$3", "${y}", "$", "\\"):
        with pytest.raises(UsageError):
            parse_replacement(bad, regex)


def test_a_replacement_by_a_group_inside_of_a_repetition_is_refused() -> None:
    regex = compile_java_regex("(?:([a-z]+)[.])+(.*)")
    assert parse_replacement("$2", regex).replace_first(regex, "a.b.c") == "c"
    with pytest.raises(UsageError, match="group 1 is in a repetition"):
        parse_replacement("$1", regex)


@pytest.mark.parametrize("regex", ["(?!internal).*", "^(?!(internal|__)).*$", "(?=o)(?!int).*"])
def test_a_look_ahead_at_the_start_leaves_names_out(regex: str) -> None:
    names = ["orders", "internal.orders", "o"]
    assert compile_java_regex(regex).select(names) == ["orders", "o"]


@pytest.mark.parametrize(
    ("refused", "instead", "taken", "left"),
    [
        ("orders-(?!dlq$).*", "(?!orders-dlq$)orders-.*", "orders-a", "orders-dlq"),
        (".*(?<!-dlq)", "(?!.*-dlq$).*", "orders", "orders-dlq"),
        ("((?!internal).)*", "(?!.*internal).*", "orders", "my-internal-topic"),
    ],
)
def test_a_refused_look_around_says_what_to_write_instead(
    refused: str, instead: str, taken: str, left: str
) -> None:
    with pytest.raises(UsageError) as caught:
        compile_java_regex(refused)
    assert "at the very start" in (caught.value.hint or "")
    assert re.fullmatch(refused, taken) and not re.fullmatch(refused, left)
    pattern = compile_java_regex(instead)
    assert pattern.matches(taken) and not pattern.matches(left)
