"""Keep credentials out of logs, tracebacks and error messages, including those of libraries.

Two rules find them: the values that were passed to clients in this process (``remember``), and the
names of the fields in which HTTP and S3 libraries write credentials. Users send the output of
``--debug`` to others.
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
"""Shorter values are not masked. Short ones are masked only as whole words, because they may be
part of ordinary words."""
_LONG = 1000
"""Longer words are replaced one by one: compiling a pattern of a megabyte takes seconds."""
_MOST = 20_000
"""The maximum number of remembered words. New clients with new tokens keep adding some."""

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
"""Ordered by the time of the last ``remember``."""
_known: tuple[str, ...] = ()
"""The same words, read without a lock: any thread may create a log record."""


def remember(*secrets: str | bytes | None) -> None:
    """Register values that ``redact`` must mask. Thread-safe.

    The newest values are kept; registering a value again makes it new.
    """
    global _known  # noqa: PLW0603
    forms = {word for secret in secrets if secret for word in _forms(secret)}
    with _lock:
        is_known = forms <= _words.keys()
        for word in forms:
            _words.pop(word, None)
            _words[word] = None
        if is_known:
            return
        for oldest in list(_words)[:-_MOST]:
            del _words[oldest]
        _known = tuple(_words)


def mask_words(text: str, words: Iterable[str], *, alone_below: int) -> str:
    """Return ``text`` with each word masked; the longest where several words match.

    Words shorter than ``alone_below`` are masked only as whole words. The pattern contains only
    words that occur in the text: compiling one of all secrets takes seconds.
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
    """Return ``text`` with every recognised credential masked."""
    text = mask_words(text, _known, alone_below=_SHORT)
    for place in _PLACES:
        text = place.sub(rf"\1\2{MASK}", text)
    return _LOGIN.sub(rf"\1{MASK}@", text)


def install(clean: Callable[[str], str] = redact) -> Callable[[], None]:
    """Clean every log record that this process creates from now on; return a function to undo it.

    A filter of the root logger would not see the records of other loggers. So records are cleaned
    when they are created, including tracebacks.
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
    """Apply ``clean`` to the message, arguments and traceback of a log record."""
    try:
        message = record.getMessage()
    except (TypeError, ValueError):
        return  # an invalid logging call; logging itself reports it
    cleaned = clean(message)
    if cleaned != message:
        _rewrite(record, cleaned, clean)
    if record.exc_info and not record.exc_text:
        trace = logging.Formatter().formatException(record.exc_info)
        if (cleaned := clean(trace)) != trace:
            record.exc_text, record.exc_info = cleaned, None


def _rewrite(record: logging.LogRecord, cleaned: str, clean: Callable[[str], str]) -> None:
    """Keep the arguments if they can be cleaned: the formatter of an access log unpacks them."""
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
    """Yield the forms of a secret: plain, Base64, URL-encoded, repr and digest."""
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
