"""Emulators of Google Cloud Storage and Azure, with a bucket or container each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from azure.storage.blob import (
    AccountSasPermissions,
    BlobServiceClient,
    ResourceTypes,
    generate_account_sas,
)

from kafkeep.dev import emulators
from kafkeep.options.clouds import AzureOptions, GoogleOptions

CONTAINER = "kafka-backup"


@contextmanager
def fake_gcs(folder: Path) -> Iterator[GoogleOptions]:
    """Yield how to reach a bucket."""
    with emulators.fake_gcs(folder, CONTAINER) as host:
        yield GoogleOptions(emulator=host)


@contextmanager
def azurite(folder: Path) -> Iterator[AzureOptions]:
    """Yield how to reach a container."""
    with emulators.azurite(folder) as endpoint:
        key = emulators.AZURITE_KEY
        BlobServiceClient(endpoint, key).create_container(CONTAINER)
        yield AzureOptions(account=emulators.AZURITE_ACCOUNT, key=key, endpoint=endpoint)


def account_token(options: AzureOptions) -> str:
    """Return a SAS token for everything in the account."""
    return generate_account_sas(
        account_name=str(options.account),
        account_key=str(options.key),
        resource_types=ResourceTypes(container=True, object=True),
        permission=AccountSasPermissions(
            read=True, write=True, delete=True, list=True, create=True
        ),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
