"""What --debug, tracebacks and loggers of libraries show: never a credential."""

from __future__ import annotations

import base64
import hashlib
import io
import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from kafkeep import redact as redact_module
from kafkeep.connect.safety.secrets import SecretRedactor
from kafkeep.connect.service.loggers import Loggers
from kafkeep.errors import KafkeepError
from kafkeep.options.storage import StorageOptions
from kafkeep.redact import MASK, redact, remember
from kafkeep.store.s3.store import S3Store

KEY = bytes(range(65, 97))
SECRET, TOKEN = "aVerySecretKey/For+Tests", "FwoGZXIvYXdzEXAMPLE/TOKEN+0123456789=="
SHOWN_NEVER = [
    KEY.decode(),
    base64.b64encode(KEY).decode(),
    KEY.hex(),
    base64.b64encode(hashlib.md5(KEY).digest()).decode(),
    SECRET,
    TOKEN,
    "AWS4-HMAC-SHA256 Credential",
]


LOG = "prefix/_kafkeep/backup/"
LISTED = (
    "<ListBucketResult><IsTruncated>false</IsTruncated>"
    f"<CommonPrefixes><Prefix>{LOG}</Prefix></CommonPrefixes>"
    f"<Contents><Key>{LOG}log/{0:020}.json</Key><Size>9</Size>"
    "<LastModified>2025-01-01T00:00:00Z</LastModified></Contents></ListBucketResult>"
)


class Echo(BaseHTTPRequestHandler):
    """Lists a log, refuses to read it, and says in its answer what it was sent, as stores do."""

    def do_GET(self) -> None:
        if "list-type=2" in self.path:
            self.send_response(200)
            self.send_header("Content-Length", str(len(LISTED)))
            self.end_headers()
            self.wfile.write(LISTED.encode())
            return
        sent = "".join(f"{name}:{value}\n" for name, value in self.headers.items())
        body = f"<Error><Code>AccessDenied</Code><Message>{sent}</Message></Error>".encode()
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_HEAD = do_POST = do_GET

    def log_message(self, *_words: Any) -> None: ...


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def shown(text: str) -> list[str]:
    signatures = re.findall(r"Signature[=:]\s*[0-9a-f]+", text)
    return [*signatures, *(secret for secret in SHOWN_NEVER if secret in text)]


def test_debug_prints_neither_the_sse_c_key_nor_the_session_token(endpoint: str) -> None:
    command = [sys.executable, "-m", "kafkeep.cli.main", "--debug", "info"]
    ran = subprocess.run(
        [*command, "--archive", "s3://bucket/prefix"],
        env={
            **os.environ,
            "AWS_ENDPOINT_URL_S3": endpoint,
            "AWS_ACCESS_KEY_ID": "an-id",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_SESSION_TOKEN": TOKEN,
            "KAFKEEP_S3_SSE_CUSTOMER_KEY": base64.b64encode(KEY).decode(),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 12
    assert "Traceback" in ran.stderr
    assert "error: " in ran.stderr
    assert f"encryption-customer-key:{MASK}" in ran.stderr.lower()
    assert shown(ran.stderr + ran.stdout) == []
    assert "DEBUG:botocore" not in ran.stderr


@pytest.mark.parametrize("logger", ["root", "botocore", "urllib3"])
def test_a_library_set_to_debug_over_rest_shows_no_credential(endpoint: str, logger: str) -> None:
    options = StorageOptions(
        endpoint=endpoint,
        access_key="an-id",
        secret_key=SECRET,
        session_token=TOKEN,
        customer_key=KEY,
        region="r",
    )
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(name)s %(message)s"))
    levels = {one: logging.getLogger(one).level for one in logging.Logger.manager.loggerDict}
    root = logging.getLogger()
    before = root.level
    undo = SecretRedactor().install()
    root.addHandler(handler)
    try:
        Loggers(lambda: 1).set(logger, "DEBUG")
        store = S3Store("bucket", "prefix", options)
        for call in (store.get, store.head, lambda key: store.put_new(key, b"x")):
            with pytest.raises(KafkeepError) as caught:
                call("a")
            assert shown(caught.value.message) == []
    finally:
        root.removeHandler(handler)
        undo()
        root.setLevel(before)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
    assert "bucket/prefix" in written.getvalue()
    assert shown(written.getvalue()) == []


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("at http://me:hush@proxy:1/x", f"at http://{MASK}@proxy:1/x"),
        ("?X-Amz-Signature=ab12&a=1", f"?X-Amz-Signature={MASK}&a=1"),
        ("X-Amz-Security-Token=Fw%2F&b", f"X-Amz-Security-Token={MASK}&b"),
        ("{'Authorization': b'AWS4 x, y', 'b': 1}", f"{{'Authorization': {MASK}, 'b': 1}}"),
        ("x-amz-security-token:Fwo\nhost:a", f"x-amz-security-token:{MASK}\nhost:a"),
        ("{'SSECustomerKey': b'a\\'b', 'c': 2}", f"{{'SSECustomerKey': {MASK}, 'c': 2}}"),
        (
            'Login required username="u" password="p;q";',
            f'Login required username="u" password={MASK};',
        ),
        ("there is no topic called token or key", "there is no topic called token or key"),
        ("s3://bucket/a:b@c/d", "s3://bucket/a:b@c/d"),
    ],
)
def test_credentials_are_known_by_their_places(text: str, clean: str) -> None:
    assert redact(text) == clean


def test_long_texts_take_no_long_time() -> None:
    text = "a.b-" * 50_000 + "://" * 10_000 + "x" * 100_000
    began = time.process_time()
    assert redact(text) == text
    assert time.process_time() - began < 10


def test_values_are_hidden_in_every_form() -> None:
    remember("p@ss/word with äöü", None, "")
    for form in ("p@ss/word with äöü", "p%40ss%2Fword%20with%20%C3%A4%C3%B6%C3%BC"):
        assert redact(f"x {form} y") == f"x {MASK} y"
    remember("pass")
    assert redact("pass is passed") == f"{MASK} is passed"


@pytest.fixture
def no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact_module, "_words", {})
    monkeypatch.setattr(redact_module, "_known", ())


@pytest.mark.usefixtures("no_words")
def test_many_secrets_are_remembered_without_a_pattern_of_them_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[str] = []

    def spy(pattern: str, *flags: Any) -> Any:
        compiled.append(pattern)
        assert len(pattern) < 100
        return re.compile(pattern, *flags)

    seen = SimpleNamespace(compile=spy, escape=re.escape)
    monkeypatch.setattr(redact_module, "re", seen)
    for number in range(2_000):
        remember(f"secret-{number:04}-value")
    assert redact("nothing to hide") == "nothing to hide"
    assert compiled == []
    assert redact("secret-0007-value, secret-1999-value") == f"{MASK}, {MASK}"
    assert len(compiled) == 1


@pytest.mark.usefixtures("no_words")
def test_of_too_many_words_the_oldest_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redact_module, "_MOST", 100)
    remember("told-again")
    remember("told-once")
    for number in range(100):
        remember(f"token-{number:04}-value")
        remember("told-again")
    assert len(redact_module._known) == 100
    said = redact("told-again told-once token-0099-value")
    assert said == f"{MASK} told-once {MASK}"


@pytest.mark.usefixtures("no_words")
def test_words_inside_others_and_like_the_mask_are_masked_once() -> None:
    remember("***", "inner-word", "an-inner-word-of-more", "x" * 2_000)
    assert redact("an-inner-word-of-more inner-word ***") == f"{MASK} {MASK} {MASK}"
    assert redact("x" * 2_000) == MASK
