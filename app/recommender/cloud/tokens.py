"""Tokens of Google, by its metadata server, and of Azure, by workload identity."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import httpx

from app.model.errors import Refused, Unavailable
from app.recommender.cloud.exchange import CloudToken, exchanged, secret_in, token_of
from app.recommender.cloud.identity import CloudIdentity

_GOOGLE: Final = "Google's metadata server"
_GOOGLE_PATH: Final = "/computeMetadata/v1/instance/service-accounts/default/token"
_FLAVOR: Final = {"Metadata-Flavor": "Google"}
_AZURE: Final = "Azure's token endpoint"
_WORKLOAD: Final = ("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE")
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def google_token(identity: CloudIdentity, now: datetime) -> CloudToken:
    """Ask the metadata server of a machine or pod for the token of its service account.

    Raises:
        ClusterError: there is none.
    """
    host = identity.told("GCE_METADATA_HOST", "metadata.google.internal")
    url = f"http://{host}{_GOOGLE_PATH}"
    response = exchanged(_GOOGLE, httpx.Request("GET", url, headers=_FLAVOR), is_near=True)
    if response.headers.get("Metadata-Flavor") != "Google":
        raise Unavailable(f"{_GOOGLE}: {host} is another server")
    return token_of(_GOOGLE, response, now)


def azure_token(identity: CloudIdentity, now: datetime) -> CloudToken:
    """Change the token of a service account for one of Azure.

    Raises:
        ClusterError: there is none.
    """
    client, tenant, path = (identity.told(name) for name in _WORKLOAD)
    if missing := [name for name in _WORKLOAD if not identity.told(name)]:
        raise Refused(f"{_AZURE}: {', '.join(missing)} of workload identity is not set")
    form = {
        "grant_type": "client_credentials",
        "client_id": client,
        "scope": identity.azure_scope,
        "client_assertion_type": _ASSERTION,
        "client_assertion": secret_in("token", path),
    }
    authority = identity.told("AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com")
    url = f"{authority.rstrip('/')}/{tenant}/oauth2/v2.0/token"
    return token_of(_AZURE, exchanged(_AZURE, httpx.Request("POST", url, data=form)), now)
