"""What kafkeep sends to Azure Blob Storage, and what it makes of the answers."""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Iterator

import pytest
from tests.support.faults.canned_server import CannedServer

from kafkeep.errors import (
    AccessDeniedError,
    EnvironmentFault,
    KafkeepError,
    KeyExistsError,
    KeyMissingError,
    NoSuchArchiveError,
    TransientError,
    UnknownOutcomeError,
    UsageError,
)
from kafkeep.options.clouds import AzureOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.redact import redact
from kafkeep.store.azure.store import AzureStore, decode_names, encode_names

KEY = "c2VjcmV0LWtleS1vZi10aGUtYWNjb3VudA=="
MD5 = base64.b64encode(hashlib.md5(b"body").digest()).decode()
STAMP = {"ETag": '"e"', "Last_Modified": "Wed, 01 Jan 2025 00:00:00 GMT"}


@pytest.fixture
def server() -> Iterator[CannedServer]:
    running = CannedServer()
    yield running
    running.stop()


def reach(server: CannedServer, **more: object) -> StorageOptions:
    azure = AzureOptions(account="account", key=KEY, endpoint=f"{server.url}/account")
    return StorageOptions(azure=azure, **more)  # type: ignore[arg-type]


@pytest.fixture
def store(server: CannedServer) -> AzureStore:
    return AzureStore("container", "p", reach(server, retry_deadline_ms=50))


def test_an_object_is_created_on_the_condition_that_there_is_none(
    store: AzureStore, server: CannedServer
) -> None:
    server.tell(201, **STAMP)
    store.put_new("a", b"body", {"kafkeep-by": "test"}, tags={"team": "shop"})
    (created,) = server.requests
    assert created.target == "/account/container/p/a" and created.body == b"body"
    assert created.headers["if-none-match"] == "*"
    assert created.headers["x-ms-blob-content-md5"] == MD5
    assert created.headers["x-ms-meta-kafkeep_by"] == "test"
    assert created.headers["x-ms-tags"] == "team=shop"


def test_blocks_are_committed_on_the_condition_that_there_is_no_object(
    store: AzureStore, server: CannedServer
) -> None:
    server.tell(201, **STAMP)
    writer = store.create_in_parts("a")
    writer.write(b"body")
    writer.finish()
    block, commit = server.requests
    assert "comp=block&" in f"{block.target}&" and "if-none-match" not in block.headers
    assert block.headers["content-md5"] == MD5
    assert "comp=blocklist" in commit.target and commit.headers["if-none-match"] == "*"


def test_two_writers_of_a_key_name_their_blocks_differently(
    store: AzureStore, server: CannedServer
) -> None:
    server.tell(201, **STAMP)
    for _ in range(2):
        writer = store.create_in_parts("a")
        writer.write(b"body")
        writer.finish()
    blocks = [one.target for one in server.requests if "comp=blocklist" not in one.target]
    assert len(set(blocks)) == 2 and len({len(one) for one in blocks}) == 1


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "AuthenticationFailed", AccessDeniedError),
        (403, "AuthorizationPermissionMismatch", AccessDeniedError),
        (404, "BlobNotFound", KeyMissingError),
        (404, "ContainerNotFound", NoSuchArchiveError),
        (409, "BlobArchived", EnvironmentFault),
        (429, "TooManyRequests", TransientError),
        (500, "InternalError", TransientError),
        (500, "OperationTimedOut", TransientError),
        (503, "ServerBusy", TransientError),
    ],
)
def test_answers_to_reads_become_errors(
    store: AzureStore, server: CannedServer, status: int, code: str, kind: type[KafkeepError]
) -> None:
    server.tell(status, x_ms_error_code=code)
    for call in (lambda: store.get("a"), lambda: store.head("a")):
        with pytest.raises(kind) as caught:
            call()
        assert type(caught.value) is kind
        assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (409, "BlobAlreadyExists", KeyExistsError),
        (412, "ConditionNotMet", KeyExistsError),
        (400, "Md5Mismatch", TransientError),
        (500, "InternalError", UnknownOutcomeError),
        (409, "FeatureNotYetSupported", EnvironmentFault),
    ],
)
def test_answers_to_creates_become_errors(
    store: AzureStore, server: CannedServer, status: int, code: str, kind: type[KafkeepError]
) -> None:
    server.tell(status, x_ms_error_code=code)
    with pytest.raises(kind) as caught:
        store.put_new("a", b"x")
    assert type(caught.value) is kind


def test_a_create_whose_answer_was_lost_has_an_unknown_outcome(
    store: AzureStore, server: CannedServer
) -> None:
    server.lose()
    with pytest.raises(UnknownOutcomeError):
        store.put_new("a", b"x")
    server.answers.clear()
    server.lose()
    with pytest.raises(TransientError) as caught:
        store.get("a")
    assert type(caught.value) is TransientError


def test_an_object_is_stored_without_tags_that_the_account_refuses(
    store: AzureStore, server: CannedServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.tell(409, x_ms_error_code="FeatureNotSupportedForHierarchicalNamespace")
    server.tell(201, **STAMP)
    with caplog.at_level(logging.WARNING):
        store.put_new("a", b"x", tags={"team": "shop"})
    assert "x-ms-tags" not in server.requests[-1].headers
    assert "a has no tags" in caplog.text


def test_metadata_names_are_identifiers_and_come_back() -> None:
    metadata = {"kafkeep-topic-id": "x", "1st-name": "y", "plain": ""}
    encoded = encode_names(metadata)
    assert all(name.isidentifier() for name in encoded)
    assert decode_names(encoded) == metadata


def test_an_address_without_an_account_is_refused() -> None:
    with pytest.raises(UsageError, match="name of a storage account") as caught:
        AzureStore("container", "p", StorageOptions())
    assert "AZURE_STORAGE_ACCOUNT" in (caught.value.hint or "")


def test_credentials_are_neither_shown_nor_logged(server: CannedServer) -> None:
    token = "sv=2024-01-01&sig=c2lnbmF0dXJlLW9mLXNhcw%3D%3D"
    connection = f"BlobEndpoint={server.url};SharedAccessSignature={token}"
    for azure in (
        AzureOptions(account="account", key=KEY, endpoint=server.url),
        AzureOptions(account="account", sas_token=token, endpoint=server.url),
        AzureOptions(connection_string=connection),
    ):
        options = StorageOptions(azure=azure)
        server.tell(201, **STAMP)
        AzureStore("container", "p", options).put_new("a", b"x")
        said = repr(options)
        assert KEY not in said and "c2lnbmF0dXJl" not in said
    masked = redact(f"{KEY} {token} {server.url}/a?{token} {connection}")
    assert KEY not in masked and "c2lnbmF0dXJl" not in masked
