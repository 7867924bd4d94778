"""How to reach Google Cloud Storage and Azure Blob Storage, from the clouds' own variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec

from kafkeep.errors import EnvironmentFault

_CLIENTS = {
    "gs": ("google.cloud.storage", "Google Cloud Storage", "gcs"),
    "az": ("azure.storage.blob", "Azure Blob Storage", "azure"),
}


def require_client(kind: str) -> None:
    """Raise EnvironmentFault if this kind of address needs a client that is not installed."""
    if kind not in _CLIENTS:
        return
    module, cloud, extra = _CLIENTS[kind]
    try:
        found = find_spec(module)
    except ModuleNotFoundError:  # not even the package around it
        found = None
    if found is None:
        raise EnvironmentFault(
            f"the client of {cloud} is not installed",
            hint=f"Install it: pip install 'kafkeep[{extra}]'.",
        )


@dataclass(frozen=True, kw_only=True)
class GoogleOptions:
    """How to reach Google Cloud Storage.

    Without a file of credentials, Google's library searches for those of ``gcloud``, of the
    workload or of the virtual machine. The file must exist wherever a task runs.
    """

    credentials_file: str | None = None
    emulator: str | None = None
    """The address of an emulator, which gets no credentials."""

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> GoogleOptions:
        """Read Google's standard variables."""
        return cls(
            credentials_file=env.get("GOOGLE_APPLICATION_CREDENTIALS") or None,
            emulator=_with_scheme(env.get("STORAGE_EMULATOR_HOST") or None),
        )


def _with_scheme(host: str | None) -> str | None:
    return host if host is None or "://" in host else f"http://{host}"


@dataclass(frozen=True, kw_only=True)
class AzureOptions:
    """How to reach Azure Blob Storage: by a connection string, or by an account.

    An account needs its key, a SAS token, or an identity that Azure's library finds: variables of
    a service principal, workload identity, managed identity, or ``az login``.
    """

    connection_string: str | None = field(default=None, repr=False)
    account: str | None = None
    key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    endpoint: str | None = None
    """The address of the blob service, if it is not that of the account in Azure's public cloud."""

    @property
    def account_url(self) -> str | None:
        """The address of the account's blob service, None when no account is named."""
        if self.endpoint is not None or self.account is None:
            return self.endpoint
        return f"https://{self.account}.blob.core.windows.net"

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> AzureOptions:
        """Read Azure's standard variables."""
        return cls(
            connection_string=env.get("AZURE_STORAGE_CONNECTION_STRING") or None,
            account=env.get("AZURE_STORAGE_ACCOUNT") or None,
            key=env.get("AZURE_STORAGE_KEY") or None,
            sas_token=env.get("AZURE_STORAGE_SAS_TOKEN") or None,
            endpoint=env.get("AZURE_STORAGE_SERVICE_ENDPOINT") or None,
        )
