"""Who is calling: the Authorization header, checked in constant time."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError

from kafkeep.connect.rest.security import RestSecurity, Role, token_digest


@dataclass(frozen=True, slots=True)
class Caller:
    """Someone who said who they are; ``role`` is None for one who has not said it yet."""

    name: str
    role: Role | None


EVERYONE = Caller("everyone", Role.ADMIN)
NOBODY = Caller("nobody", None)


class Authenticator:
    """Turns an Authorization header into a caller.

    argon2 takes tens of milliseconds by design, so a password that was right is remembered as a
    keyed digest: a page that asks every second does not pay for it every time.
    """

    def __init__(self, security: RestSecurity) -> None:
        self._security = security
        self._hasher = PasswordHasher()
        self._key = secrets.token_bytes(32)
        self._right: dict[str, bytes] = {}

    def known(self, header: str | None) -> Caller | None:
        """Return the caller if that is cheap to tell: no password has to be checked."""
        if not self._security.has_auth:
            return EVERYONE
        if header is None:
            return NOBODY
        scheme, _, value = header.partition(" ")
        if scheme.lower() == "bearer":
            return self._bearer(value.strip())
        if scheme.lower() == "basic":
            name, password = _parse_basic(value)
            if hmac.compare_digest(self._right.get(name, b""), self._digest(name, password)):
                return Caller(name, self._security.basic_users[name][1])
        return None

    def check(self, header: str) -> Caller | None:
        """Check a password the slow way; None when the credentials are wrong."""
        scheme, _, value = header.partition(" ")
        users = self._security.basic_users
        if scheme.lower() != "basic" or not users:
            return None
        name, password = _parse_basic(value)
        # An unknown name costs as much as a wrong password, so that names cannot be guessed.
        stored, role = users.get(name) or next(iter(users.values()))
        try:
            self._hasher.verify(stored, password)
        except VerificationError:
            return None
        if name not in users:
            return None
        self._right[name] = self._digest(name, password)
        return Caller(name, role)

    def _bearer(self, token: str) -> Caller | None:
        digest = token_digest(token)
        found = None
        for stored, role in self._security.bearer_tokens.items():
            if hmac.compare_digest(stored, digest):
                found = Caller(f"token {digest[:8]}", role)
        return found

    def _digest(self, name: str, password: str) -> bytes:
        text = f"{name}\0{password}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, text, hashlib.sha256).digest()


def _parse_basic(value: str) -> tuple[str, str]:
    try:
        text = base64.b64decode(value.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return "", ""
    name, _, password = text.partition(":")
    return name, password
