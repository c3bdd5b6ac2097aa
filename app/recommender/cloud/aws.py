"""Keys of AWS, where its own tools look for them, in their order.

Environment; web identity, as a service account has it by IRSA; the credentials file; what EKS Pod
Identity and ECS lend to a container.
"""

from __future__ import annotations

import configparser
import re
from datetime import datetime
from pathlib import Path
from typing import Final

import httpx

from app.kube.failures import cause_of
from app.model.errors import BadObject, Refused, Unavailable
from app.model.fields import time_at
from app.recommender.cloud.exchange import exchanged, json_of, secret_in, xml_texts
from app.recommender.cloud.identity import CloudIdentity
from app.recommender.cloud.sigv4 import AwsKeys, AwsRequest, AwsScope, signed_headers

_STS: Final = "AWS STS"
_LENDER: Final = "AWS container credentials"
_ECS: Final = "http://169.254.170.2"
_SERVICE: Final = "aps"  # Amazon Managed Service for Prometheus
_SESSION: Final = "plumbline"
_HOST: Final = re.compile(r"aps-workspaces(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")
_SIGNED: Final = ("host", "content-type")


def aws_region(identity: CloudIdentity, host: str) -> str:
    """Return the region of a workspace.

    Raises:
        Refused: nothing tells it.
    """
    found = _HOST.fullmatch(host)
    region = identity.aws_region or (found[1] if found else "") or identity.told("AWS_REGION")
    region = region or identity.told("AWS_DEFAULT_REGION")
    if not region:
        raise Refused("no AWS region is known; name it with --prometheus-aws-region")
    return region


def sign_for_aws(
    request: httpx.Request, keys: AwsKeys, identity: CloudIdentity, now: datetime
) -> None:
    """Add the headers of a signature to a request.

    Raises:
        Refused: the region is not known.
    """
    path, _, query = request.url.raw_path.decode("ascii").partition("?")
    headers = {name: request.headers[name] for name in _SIGNED if name in request.headers}
    signed = AwsRequest(request.method, path, query, headers, request.content)
    scope = AwsScope(aws_region(identity, request.url.host), _SERVICE)
    request.headers.update(signed_headers(signed, keys, scope, now))


def aws_keys(identity: CloudIdentity, host: str) -> AwsKeys:
    """Return the keys that are found first.

    Raises:
        ClusterError: there are none.
    """
    key, secret = identity.told("AWS_ACCESS_KEY_ID"), identity.told("AWS_SECRET_ACCESS_KEY")
    if key and secret:
        return AwsKeys(key, secret, identity.told("AWS_SESSION_TOKEN"))
    if identity.told("AWS_ROLE_ARN") and identity.told("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return _by_web_identity(identity, aws_region(identity, host))
    if (keys := _by_file(identity)) is not None:
        return keys
    if url := _lender(identity):
        return _lent(identity, url)
    raise Refused(
        "no AWS keys are found: neither in the environment nor by web identity (AWS_ROLE_ARN, "
        "AWS_WEB_IDENTITY_TOKEN_FILE), in a credentials file or lent to this container"
    )


def _by_web_identity(identity: CloudIdentity, region: str) -> AwsKeys:
    suffix = ".cn" if region.startswith("cn-") else ""
    form = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": identity.told("AWS_ROLE_ARN"),
        "RoleSessionName": identity.told("AWS_ROLE_SESSION_NAME", _SESSION),
        "WebIdentityToken": secret_in("token", identity.told("AWS_WEB_IDENTITY_TOKEN_FILE")),
    }
    url = identity.told("AWS_ENDPOINT_URL_STS", f"https://sts.{region}.amazonaws.com{suffix}/")
    found = xml_texts(exchanged(_STS, httpx.Request("POST", url, data=form)).content)
    return _keys(_STS, found, "SessionToken")


def _by_file(identity: CloudIdentity) -> AwsKeys | None:
    path = Path(identity.told("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")).expanduser()
    profile = identity.told("AWS_PROFILE", "default")
    files = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        files.read_string(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Refused(f"{path}: cannot be read: {cause_of(error)}") from None
    except configparser.Error:
        raise Refused(f"{path}: is no credentials file") from None
    if profile not in files:
        return None
    found = files[profile]
    if not found.get("aws_access_key_id") or not found.get("aws_secret_access_key"):
        raise Refused(f"{path}: profile {profile} has no keys")
    token = found.get("aws_session_token", "")
    return AwsKeys(found["aws_access_key_id"], found["aws_secret_access_key"], token)


def _lender(identity: CloudIdentity) -> str:
    if path := identity.told("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        return f"{_ECS}{path}"
    return identity.told("AWS_CONTAINER_CREDENTIALS_FULL_URI")


def _lent(identity: CloudIdentity, url: str) -> AwsKeys:
    token = identity.told("AWS_CONTAINER_AUTHORIZATION_TOKEN")
    if path := identity.told("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        token = secret_in("token", path)
    headers = {"Authorization": token} if token else {}
    request = httpx.Request("GET", url, headers=headers)
    found = json_of(_LENDER, exchanged(_LENDER, request, is_near=True))
    return _keys(_LENDER, {key: str(text) for key, text in found.items()}, "Token")


def _keys(what: str, found: dict[str, str], token: str) -> AwsKeys:
    try:
        expires = time_at(dict(found), "Expiration", "")
        keys = found["AccessKeyId"], found["SecretAccessKey"], found[token]
    except (KeyError, BadObject):
        raise Unavailable(f"{what}: the answer has no keys") from None
    return AwsKeys(*keys, expires)
