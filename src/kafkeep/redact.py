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
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import quote

MASK = "******"
_SHORTEST, _SHORT = 3, 8
"""Shorter values are not looked for; short ones only where they stand alone, or ordinary words
would be torn apart."""
_LONG = 1000
"""Longer words are replaced one by one: to compile a pattern of a megabyte takes seconds."""
_MOST = 20_000
"""How many words are remembered; clients that are made anew with new tokens add more forever."""

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
_words: dict[str, None] = {}
"""In the order in which they were last remembered."""
_known: tuple[str, ...] = ()
"""The same, read without a lock: a log record may be made anywhere."""


def remember(*secrets: str | bytes | None) -> None:
    """Let ``redact`` know values that must never be shown; may be called from any thread.

    The newest are kept; one that is remembered again counts as new.
    """
    global _known  # noqa: PLW0603
    told = {word for secret in secrets if secret for word in _forms(secret)}
    with _lock:
        is_known = told <= _words.keys()
        for word in told:
            _words.pop(word, None)
            _words[word] = None
        if is_known:
            return
        for oldest in list(_words)[:-_MOST]:
            del _words[oldest]
        _known = tuple(_words)


def mask_words(text: str, words: Iterable[str], *, alone_below: int) -> str:
    """Return ``text`` with a mask in place of each word, the longest where several begin.

    Words shorter than ``alone_below`` are masked only where they stand alone. A pattern is made
    of the words that are in the text, and of no others: one of all secrets takes seconds.
    """
    found = sorted(filter(text.__contains__, words), key=len, reverse=True)
    patterns = []
    for word in found:
        if len(word) > _LONG:
            text = text.replace(word, MASK)
        else:
            exact = re.escape(word)
            patterns.append(exact if len(word) >= alone_below else rf"(?<!\w){exact}(?!\w)")
    return re.compile("|".join(patterns)).sub(MASK, text) if patterns else text


def redact(text: str) -> str:
    """Return ``text`` with a mask in place of every credential that can be recognised."""
    text = mask_words(text, _known, alone_below=_SHORT)
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
