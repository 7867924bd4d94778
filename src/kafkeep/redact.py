"""Keeps credentials out of logs, tracebacks and error messages, whoever writes them.

Two nets: the values that clients of this process were given (``remember``), and the places where
HTTP and S3 libraries write credentials, known by their names. What ``--debug`` shows is meant to
be sent to others.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

MASK = "******"
_SHORTEST, _SHORT = 3, 8
"""Shorter values are not looked for; short ones only where they stand alone, or ordinary words
would be torn apart."""

_HEADERS = (
    r"(?:proxy-)?authorization|(?:set-)?cookie|x-amz-security-token"
    r"|x-amz-(?:copy-source-)?server-side-encryption-customer-key(?:-md5)?"
)
_FIELDS = (
    r"(?:CopySource)?SSECustomerKey(?:MD5)?|SecretAccessKey|SessionToken"
    r"|(?:aws_)?(?:secret_access_key|session_token|secret_key|customer_key)|password"
)
_QUOTED = r"""b?'(?:[^'\\]|\\.)*'|b?"(?:[^"\\]|\\.)*\""""
_HEADER = rf"""(?i)({_HEADERS})(['"]?\s*:\s*)(?:{_QUOTED}|[^\s'"][^\r\n\\]*)"""
"""``{'Authorization': b'AWS4…'}``, or ``Authorization: …`` up to the end of the line."""
_FIELD = rf"""(?i)({_FIELDS})(['"]\s*:\s*|\s*=\s*)(?:{_QUOTED}|[^\s,;&'")}}]+)"""
"""``{'SSECustomerKey': b'…'}``, ``password="…"``, ``session_token=…``."""
_SIGNED_URL = r"(?i)(X-Amz-(?:Signature|Credential|Security-Token))(=)[^&\s'\"]+"
_SIGNATURE = r"(Signature)(=|:\s*)[0-9A-Za-z%+/=]{16,}"
_PLACES = tuple(map(re.compile, (_HEADER, _FIELD, _SIGNED_URL, _SIGNATURE)))
_LOGIN = re.compile(r"(://)[^/\s:@'\"]{0,256}:[^/\s@'\"]{0,1024}@")

_lock = threading.Lock()
_words: set[str] = set()
_known: re.Pattern[str] | None = None


def remember(*secrets: str | bytes | None) -> None:
    """Let ``redact`` know values that must never be shown; may be called from any thread."""
    global _known  # noqa: PLW0603
    new = {word for secret in secrets if secret for word in _forms(secret)}
    with _lock:
        if new <= _words:
            return
        _words.update(new)
        longest_first = sorted(_words, key=len, reverse=True)
        _known = re.compile("|".join(map(_pattern, longest_first)))


def _pattern(word: str) -> str:
    exact = re.escape(word)
    return exact if len(word) >= _SHORT else rf"(?<!\w){exact}(?!\w)"


def redact(text: str) -> str:
    """Return ``text`` with a mask in place of every credential that can be recognised."""
    if _known is not None:
        text = _known.sub(MASK, text)
    for place in _PLACES:
        text = place.sub(rf"\1\2{MASK}", text)
    return _LOGIN.sub(rf"\1{MASK}@", text)


def install(clean: Callable[[str], str] = redact) -> Callable[[], None]:
    """Clean every log record that this process makes from now on; returns what undoes it.

    A filter of the root logger would not see what other loggers write, so records are cleaned
    where they are made, tracebacks included.
    """
    before = logging.getLogRecordFactory()
    if getattr(before, "clean", None) == clean:
        return lambda: None

    def make(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = before(*args, **kwargs)
        clean_record(record, clean)
        return record

    make.clean = clean  # type: ignore[attr-defined]
    logging.setLogRecordFactory(make)
    return lambda: logging.setLogRecordFactory(before)


def clean_record(record: logging.LogRecord, clean: Callable[[str], str]) -> None:
    """Change a record where it shows what ``clean`` takes out."""
    try:
        message = record.getMessage()
    except (TypeError, ValueError):
        return  # a broken call, which logging itself reports
    cleaned = clean(message)
    if cleaned != message:
        _rewrite(record, cleaned, clean)
    if record.exc_info and not record.exc_text:
        trace = logging.Formatter().formatException(record.exc_info)
        if (cleaned := clean(trace)) != trace:
            record.exc_text, record.exc_info = cleaned, None


def _rewrite(record: logging.LogRecord, cleaned: str, clean: Callable[[str], str]) -> None:
    """Keep the arguments where they can be cleaned: an access log's formatter unpacks them."""
    if isinstance(record.args, tuple):
        record.args = tuple(_clean_argument(one, clean) for one in record.args)
        if record.getMessage() == cleaned:
            return
    record.msg, record.args = cleaned, ()


def _clean_argument(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, int | float):
        return value
    text = str(value)
    return value if clean(text) == text else clean(text)


def _forms(secret: str | bytes) -> Iterator[str]:
    """Yield a secret as it may be written: in Base64, in a URL, in a repr, as its digest."""
    raw = secret if isinstance(secret, bytes) else secret.encode()
    digest = hashlib.md5(raw, usedforsecurity=False)
    plain = {
        raw.decode("latin-1") if isinstance(secret, bytes) else secret,
        repr(raw)[2:-1],
        raw.hex(),
        base64.b64encode(raw).decode(),
        base64.b64encode(digest.digest()).decode(),
        digest.hexdigest(),
    }
    for form in plain:
        for word in (form, quote(form, safe=""), json.dumps(form)[1:-1]):
            if len(word) >= _SHORTEST:
                yield word
