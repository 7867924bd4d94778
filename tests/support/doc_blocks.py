"""The fenced blocks of a document, with what the comment above each says about it.

``<!-- run -->`` runs in order; ``<!-- run, expect: TEXT -->`` also looks for a text in the output.
``<!-- run until: TEXT -->`` runs again until its output has the text. ``<!-- run once -->`` runs
when it comes first, and not again on other pages that show the same block. ``<!-- run last -->``
runs once, after all pages. ``<!-- not run: REASON -->`` cannot run here.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!-- ((?:not )?run.*?) -->\s*\Z")
_MARK = re.compile(r"(not run|run until|run once|run last|run)(?:(?:, expect)?: (.+))?")
_CONTROL = {"|", "||", "&&", "&", ";", ">", ">>", "<", "<<", "2>", "(", ")", ";;"}
_ASIDE = re.compile(r" {3,}\S.*$")


class Mark(StrEnum):
    RUN = "run"
    UNTIL = "run until"
    ONCE = "run once"
    LAST = "run last"
    NOT = "not run"


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; ``text`` is what it expects, waits for, or why it does not run."""

    page: Path
    line: int
    language: str
    body: str
    mark: Mark | None
    text: str

    @property
    def is_shell(self) -> bool:
        return self.language in ("bash", "sh", "shell", "console")


def blocks(page: Path) -> list[Block]:
    """Return all fenced blocks of a page, in order; an unknown mark is an error."""
    text = page.read_text()
    return [_block(page, text, fence) for fence in _FENCE.finditer(text)]


def _block(page: Path, text: str, fence: re.Match[str]) -> Block:
    line = text.count("\n", 0, fence.start()) + 1
    comment = _COMMENT.search(text[: fence.start()])
    mark, argument = None, ""
    if comment:
        parsed = _MARK.fullmatch(comment[1])
        assert parsed, f"{page.name}:{line}: what is <!-- {comment[1]} -->?"
        mark, argument = Mark(parsed[1]), parsed[2] or ""
        needs = mark in (Mark.UNTIL, Mark.NOT)
        assert argument or not needs, f"{page.name}:{line}: `{mark}` needs a text"
    return Block(page, line, fence[2], textwrap.dedent(fence[3]), mark, argument)


def kafkeep_commands(block: Block) -> Iterator[list[str]]:
    """Yield the arguments of each ``kafkeep …`` line, without pipes, redirections and asides."""
    for line in re.sub(r"\\\n\s*", " ", block.body).splitlines():
        bare = line.strip().removeprefix("$ ")
        if bare.startswith("kafkeep "):
            yield _arguments(bare)


def _arguments(line: str) -> list[str]:
    lexer = shlex.shlex(_ASIDE.sub("", line), posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    found = []
    for word in lexer:
        if word in _CONTROL:
            break
        found.append(word)
    return found[1:]
