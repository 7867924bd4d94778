"""Users and tokens of the REST API, from their files; ``kafkeep user`` makes a user's line.

The files hold no password: users have an argon2 hash, tokens may have their SHA-256.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafkeep.config.path import load_text
from kafkeep.connect.rest.security import Role, hash_password, parse_role, token_digest
from kafkeep.errors import UsageError

_SHORTEST_TOKEN = 16


def read_users(path: str) -> Mapping[str, tuple[str, Role]]:
    """Read ``name:role:argon2 hash`` lines; UsageError tells the line, and no secret."""
    users: dict[str, tuple[str, Role]] = {}
    for number, line in _lines(path):
        name, role, stored = [*line.split(":", 2), "", ""][:3]
        if not name or not stored:
            raise UsageError(f"{path}, line {number}: a user is name:role:argon2 hash")
        if name in users:
            raise UsageError(f"{path}, line {number}: {name} is there twice")
        users[name] = (stored.strip(), _role(path, number, role))
    return users


def read_tokens(path: str) -> Mapping[str, Role]:
    """Read ``role:token`` or ``role:sha256:digest`` lines, as digests."""
    tokens: dict[str, Role] = {}
    for number, line in _lines(path):
        role, _, token = line.partition(":")
        if token.startswith("sha256:"):
            digest = token.removeprefix("sha256:").strip().lower()
        elif len(token.strip()) < _SHORTEST_TOKEN:
            raise UsageError(
                f"{path}, line {number}: a token has {_SHORTEST_TOKEN} characters or more",
                hint="Make one with: openssl rand -hex 32",
            )
        else:
            digest = token_digest(token.strip())
        tokens[digest] = _role(path, number, role)
    return tokens


def _lines(path: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(load_text(path).splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.strip()


def _role(path: str, number: int, text: str) -> Role:
    try:
        return parse_role(text)
    except UsageError as error:
        raise UsageError(f"{path}, line {number}: {error.message}", hint=error.hint) from error


def user_line(name: str, role: str, password: str) -> str:
    """Return the line of a user."""
    if not name or ":" in name:
        raise UsageError("a user's name is not empty and has no colon")
    if not password:
        raise UsageError("the password is empty")
    return f"{name}:{parse_role(role).name.lower()}:{hash_password(password)}"
