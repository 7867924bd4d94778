"""Tokens that prove that a form was made by this console, for this browser. Pure.

A random cookie names the browser. Each form carries a keyed digest of it. A page of another site
can neither read the cookie nor compute the digest. The key is the same on all workers of a group
and survives a restart, so a form that was open meanwhile can still be sent.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

COOKIE = "kafkeep-console"
FIELD = "csrf"
_COOKIE_FORM = re.compile(r"[0-9a-f]{64}")


def new_cookie() -> str:
    """Return the cookie of a browser that has none."""
    return secrets.token_hex(32)


def is_cookie(text: str | None) -> bool:
    """Return True for a text that ``new_cookie`` may have made."""
    return text is not None and _COOKIE_FORM.fullmatch(text) is not None


class FormTokens:
    """Makes and checks the tokens of forms."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"kafkeep console\0" + secret.encode()).digest()

    def token(self, cookie: str) -> str:
        """Return the token for the forms of a browser."""
        return hmac.new(self._key, cookie.encode(), hashlib.sha256).hexdigest()

    def accepts(self, cookie: str | None, token: str | None) -> bool:
        """Return True when a form's token belongs to the cookie; compared in constant time."""
        if cookie is None or token is None or not is_cookie(cookie):
            return False
        return hmac.compare_digest(self.token(cookie).encode(), token.encode())
