r"""Translate Java's pattern syntax to RE2 with the same meaning, or refuse it. Pure.

The syntax is that of Java 9 and later. Sets of characters are expanded here, so that nothing
depends on RE2's meaning of ``.``, ``\s`` or letter case. There is one difference: ``$`` matches
only at the end of the text, but in Java also before a final line terminator.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn

from kafkeep.options.java_regex import char_set
from kafkeep.options.java_regex.char_set import Ranges
from kafkeep.options.java_regex.reader import LINEAR, Flags, Reader

_MAX_DEPTH = 200
_MAX_REPEAT = 1000
_QUOTE = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.", re.DOTALL)
_GROUP_NAME = re.compile(r"([A-Za-z][A-Za-z0-9]*)>")
_INLINE_FLAGS = re.compile(r"([a-zA-Z]*)(-[a-zA-Z]*)?([:)])")
_COUNT = re.compile(r"\{([0-9]{1,9})(?:(,)([0-9]{1,9})?)?\}", re.ASCII)
_LOOK_AROUND = {
    "=": "a look-ahead (?=…)",
    "!": "a look-ahead (?!…)",
    "<=": "a look-behind (?<=…)",
    "<!": "a look-behind (?<!…)",
    ">": "an atomic group (?>…)",
}
_AT_THE_START = (
    "Put a look-ahead at the very start of the pattern: (?!orders-dlq$)orders-.* in place of "
    "orders-(?!dlq$).*, or (?!.*-dlq$).* in place of .*(?<!-dlq)."
)
_START, _END = r"(?:\A)", r"(?:\z)"
_LINE_BREAK = r"(?:\r\n|[\n-\r\x{85}\x{2028}\x{2029}])"


@dataclass(frozen=True, slots=True)
class Translation:
    """A pattern for RE2, and the groups of the original pattern."""

    pattern: str
    group_count: int
    group_names: dict[str, int]
    uncertain_groups: set[int]
    looks: list[tuple[bool, str]]
    """Look-aheads at the start: whether they must match there, and their patterns for RE2."""


@dataclass(slots=True)
class _Group:
    """An open group, or the whole pattern."""

    number: int | None
    flags: Flags
    """The flags around the group, which are active again after it."""
    captures: set[int] = field(default_factory=set)
    branch_is_empty: bool = True
    """True if the current alternative can match nothing."""
    some_branch_is_empty: bool = False
    look: tuple[bool, int] | None = None
    """For a look-ahead: whether it must match, and where it begins in the output."""


@dataclass(slots=True)
class _Atom:
    """The part of a pattern that a quantifier repeats."""

    is_empty: bool = False
    captures: set[int] = field(default_factory=set)
    number: int | None = None
    ranges: Ranges | None = None
    """For a single character: the set it is in."""
    is_required: bool = False
    """True if it must follow, because a possessive quantifier precedes it."""


def translate(text: str) -> Translation:
    """Translate a pattern; UsageError names an invalid or unsupported construct."""
    return _Translator(text).run()


class _Translator:
    def __init__(self, text: str) -> None:
        self.reader = Reader(_unquoted(text), text)
        self.output: list[str] = []
        self.open = [_Group(None, self.reader.flags)]
        self.atom: _Atom | None = None
        self.count = 0
        self.names: dict[str, int] = {}
        self.uncertain: set[int] = set()
        self.looks: list[tuple[bool, str]] = []
        self.possessive: tuple[Ranges, str] | None = None
        """The last part that a possessive quantifier repeated, and the quantifier."""

    def run(self) -> Translation:
        reader = self.reader
        while reader.skip_comments() and not reader.at_end:
            self._step(reader.take())
        if len(self.open) > 1:
            reader.fail("a group is not closed")
        self._end_atom()
        pattern = "".join(self.output)
        return Translation(pattern, self.count, self.names, self.uncertain, self.looks)

    def _step(self, char: str) -> None:
        """Translate the construct that begins with ``char``."""
        if self.possessive and char in "(|)":
            self._refuse_possessive(self.possessive[1])
        match char:
            case "(":
                self._open_group()
            case ")":
                self._close_group()
            case "|":
                if self.looks and len(self.open) == 1:
                    self.reader.refuse("a look-ahead in one of several alternatives", LINEAR)
                self._end_branch()
                self.output.append("|")
            case "*" | "+" | "?" | "{":
                self._quantify(char)
            case "[":
                self._add_set(self.reader.char_class())
            case ".":
                self._add_set(self._any_char())
            case "^":
                self._add(_START, is_empty=True)
            case "$":
                self._add(_END, is_empty=True)
            case "\\":
                self._escape()
            case _:
                self._add_char(ord(char))

    def _add(self, piece: str, *, is_empty: bool = False, ranges: Ranges | None = None) -> None:
        self._end_atom()
        self.reader.spend(len(piece))
        self.output.append(piece)
        self.atom = _Atom(is_empty, ranges=ranges, is_required=self.possessive is not None)
        if self.possessive is not None and piece != _END:
            before, sign = self.possessive
            if ranges is None or char_set.intersection(before, ranges):
                self._refuse_possessive(sign)
        self.possessive = None

    def _refuse_possessive(self, sign: str) -> NoReturn:
        self.reader.refuse(f"a possessive quantifier ({sign}+)", f"write {sign} if that suffices")

    def _add_set(self, ranges: Ranges) -> None:
        self._add(char_set.to_re2(ranges), ranges=ranges)

    def _add_char(self, point: int) -> None:
        if self.reader.flags.any_case and chr(point).isascii() and chr(point).isalpha():
            self._add_set(char_set.with_both_cases(((point, point),)))
        else:
            self._add(rf"\x{{{point:x}}}", ranges=((point, point),))

    def _any_char(self) -> Ranges:
        flags = self.reader.flags
        if flags.dot_all:
            return char_set.complement(())
        return char_set.complement(char_set.NEWLINE if flags.unix_lines else char_set.LINE_ENDS)

    def _end_atom(self) -> None:
        """Record that the last part has no quantifier."""
        if self.atom is not None:
            self.open[-1].branch_is_empty &= self.atom.is_empty
            self.open[-1].captures |= self.atom.captures
        self.atom = None

    def _end_branch(self) -> None:
        self._end_atom()
        group = self.open[-1]
        group.some_branch_is_empty |= group.branch_is_empty
        group.branch_is_empty = True

    def _open_group(self) -> None:
        self._end_atom()
        reader = self.reader
        if len(self.open) > _MAX_DEPTH:
            reader.fail(f"groups are nested more than {_MAX_DEPTH} deep")
        if not reader.take_if("?"):
            self._begin_capture()
            return
        for sign, name in sorted(_LOOK_AROUND.items(), reverse=True):
            if reader.take_if(sign):
                self._begin_look(sign, name)
                return
        if reader.take_if("<"):
            named = reader.take_match(_GROUP_NAME) or reader.fail("a group has no valid name")
            if named[1] in self.names:
                reader.fail(f"two groups have the name {named[1]}")
            self._begin_capture()
            self.names[named[1]] = self.count
            return
        self._inline_flags()

    def _begin_look(self, sign: str, name: str) -> None:
        """Begin a look-ahead at the start of the pattern; it becomes a separate pattern."""
        if sign not in ("=", "!") or len(self.open) > 1 or set(self.output) - {_START}:
            self.reader.refuse(name, LINEAR, hint=None if sign == ">" else _AT_THE_START)
        self.open.append(_Group(None, self.reader.flags, look=(sign == "=", len(self.output))))

    def _begin_capture(self) -> None:
        self.count += 1
        self.output.append("(")
        self.open.append(_Group(self.count, self.reader.flags))

    def _inline_flags(self) -> None:
        reader = self.reader
        found = reader.take_match(_INLINE_FLAGS) or reader.fail("(? begins no valid construct")
        around = reader.flags
        reader.flags = around.changed(found[1], (found[2] or "").removeprefix("-"), reader)
        if found[3] == ":":
            self.output.append("(?:")
            self.open.append(_Group(None, around))

    def _close_group(self) -> None:
        if len(self.open) == 1:
            self.reader.fail("a ) has no matching (")
        self._end_branch()
        group = self.open.pop()
        self.reader.flags = group.flags
        if group.look is not None:
            wanted, start = group.look
            self.looks.append((wanted, "".join(self.output[start:])))
            del self.output[start:]
            self.uncertain |= {0} if group.captures else set()  # group numbers would change
            return
        self.output.append(")")
        own = set() if group.number is None else {group.number}
        self.atom = _Atom(group.some_branch_is_empty, group.captures | own, group.number)

    def _quantify(self, char: str) -> None:
        reader, atom = self.reader, self.atom
        if atom is None:
            raise reader.error(f"{char} has nothing to repeat")
        least, most, sign = self._count(char)
        reader.skip_comments()
        if reader.take_if("+"):
            if atom.ranges is None:
                self._refuse_possessive(sign)
            self.possessive = (atom.ranges, sign)
        if atom.is_required and least == 0:
            self._refuse_possessive("*")
        lazy = "?" if not self.possessive and reader.take_if("?") else ""
        self.output.append(sign + lazy)
        if atom.is_empty and least > 1:
            reader.refuse(f"{sign} after a part that can match nothing", "Java stops it early")
        if most is None or most > 1:
            self._note_repetition(atom)
        atom.is_empty |= least == 0
        self._end_atom()

    def _note_repetition(self, atom: _Atom) -> None:
        """Record groups whose capture may differ between Java and RE2.

        Java does not reset a group inside a repetition when it backtracks out of that repetition.
        It also ends a repetition that matches nothing at a different place than RE2.
        """
        self.uncertain |= {0, *atom.captures} if atom.is_empty else atom.captures - {atom.number}

    def _count(self, char: str) -> tuple[int, int | None, str]:
        """Return the minimum, the maximum, and the quantifier in the syntax of RE2."""
        reader = self.reader
        if char != "{":
            return int(char == "+"), 1 if char == "?" else None, char
        reader.step_back()
        found = reader.take_match(_COUNT) or reader.fail("{ does not begin a count such as {2,5}")
        least = int(found[1])
        most = least if not found[2] else int(found[3]) if found[3] else None
        if most is not None and most < least:
            reader.fail(f"the bounds of {found[0]} are reversed")
        if max(least, most or 0) > _MAX_REPEAT:
            reader.fail(f"{found[0]} repeats more than {_MAX_REPEAT} times")
        return least, most, found[0]

    def _escape(self) -> None:
        reader = self.reader
        if (ranges := reader.shorthand()) is not None:
            self._add_set(ranges)
        elif reader.take_if("R"):
            self._add(_LINE_BREAK)
        elif reader.take_if("A"):
            self._add(_START, is_empty=True)
        elif reader.take_if("z") or reader.take_if("Z"):
            self._add(_END, is_empty=True)
        elif reader.peek() in ("b", "B"):
            letter = reader.take()
            if reader.take_if("{g}"):
                reader.refuse(f"\\{letter}{{g}}")
            self._add(rf"(?:\{letter})", is_empty=True)
        else:
            self._add_char(reader.escaped_char())


def _unquoted(text: str) -> str:
    r"""Replace ``\Q…\E`` by its content, with a backslash before each special character."""

    def plain(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        return "".join(
            char if char.isalnum() or not char.isascii() else f"\\{char}" for char in found[1]
        )

    return _QUOTE.sub(plain, text)
