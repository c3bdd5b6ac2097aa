"""Credentials get into requests as each kind of server and cloud wants them.

Strategy: a server on loopback answers what a cloud is documented to answer: AWS STS and container
credentials as botocore 1.34.99 has them (data/sts, ContainerMetadataFetcher), Google's metadata
server and Microsoft's token endpoint as google-auth 2.62 and azure-identity 1.9 read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson
import pytest

from app.model.errors import ClusterError, Refused, Unavailable
from app.ports import Json
from app.recommender.cloud.aws import aws_region
from app.recommender.cloud.identity import CloudIdentity
from app.recommender.prometheus import PrometheusServer
from app.recommender.prometheus_connection import PrometheusConnection
from app.recommender.source_flags import CloudProvider
from tests.cases import cases
from tests.prometheus_server import Asked, Reply, prometheus
from tests.prometheus_server import PrometheusServer as Server
from tests.stepped_clock import SteppedClock

AT: Final = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
GOOGLE_PATH: Final = "/computeMetadata/v1/instance/service-accounts/default/token"
STS: Final = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult>
    <SubjectFromWebIdentityToken>system:serviceaccount:kube-system:vpa</SubjectFromWebIdentityToken>
    <Audience>sts.amazonaws.com</Audience>
    <AssumedRoleUser>
      <Arn>arn:aws:sts::123456789012:assumed-role/vpa/plumbline</Arn>
      <AssumedRoleId>AROACLKWSDQRAOEXAMPLE:plumbline</AssumedRoleId>
    </AssumedRoleUser>
    <Credentials>
      <SessionToken>%s</SessionToken>
      <SecretAccessKey>wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY</SecretAccessKey>
      <Expiration>2026-03-01T13:00:00Z</Expiration>
      <AccessKeyId>ASgeIAIOSFODNN7EXAMPLE</AccessKeyId>
    </Credentials>
    <Provider>arn:aws:iam::123456789012:oidc-provider/oidc.example</Provider>
  </AssumeRoleWithWebIdentityResult>
  <ResponseMetadata><RequestId>ad4156e9-bce1-11e2-82e6-6b6efEXAMPLE</RequestId></ResponseMetadata>
</AssumeRoleWithWebIdentityResponse>"""
STS_REFUSAL: Final = b"""<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <Error><Type>Sender</Type><Code>InvalidIdentityToken</Code>
    <Message>No OpenIDConnect provider found in your account for https://oidc.example</Message>
  </Error><RequestId>b5e8a3f1</RequestId></ErrorResponse>"""
AZURE_REFUSAL: Final[Json] = {
    "error": "invalid_client",
    "error_description": "AADSTS700211: No matching federated identity record found.",
    "error_codes": [700211],
}


@pytest.fixture
def server() -> Iterator[Server]:
    """A Prometheus on loopback."""
    with prometheus() as found:
        yield found


@pytest.fixture
def cloud() -> Iterator[Server]:
    """A cloud on loopback."""
    with prometheus() as found:
        yield found


def tokens(reply: Json, headers: Mapping[str, str] | None = None) -> Reply:
    """Return what tells a token."""
    return Reply(orjson.dumps(reply), headers=headers or {})


def google(text: str) -> Reply:
    """Return the answer of the metadata server."""
    told = {"access_token": text, "expires_in": 3599, "token_type": "Bearer"}
    return tokens(told, {"Metadata-Flavor": "Google", "Content-Type": "application/json"})


def azure(text: str) -> Reply:
    """Return the answer of the token endpoint."""
    told = {"token_type": "Bearer", "expires_in": 3599, "ext_expires_in": 3599}
    return tokens({**told, "access_token": text})


def lent(text: str) -> Reply:
    """Return the answer of EKS Pod Identity."""
    told = {"AccessKeyId": "ASIA", "SecretAccessKey": "secret", "Token": text}
    return tokens({**told, "AccountId": "123456789012", "Expiration": "2026-03-01T18:00:00Z"})


def environ(kind: CloudProvider, cloud: Server, folder: Path) -> dict[str, str]:
    """Return the environment of a pod in a cloud."""
    (folder / "jwt").write_text("eyJhbGciOi.eyJpc3Mi.sig\n")
    return {
        CloudProvider.GOOGLE: {"GCE_METADATA_HOST": cloud.url.removeprefix("http://")},
        CloudProvider.AWS: {
            "AWS_REGION": "eu-west-1",
            "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/vpa",
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(folder / "jwt"),
            "AWS_ENDPOINT_URL_STS": cloud.url,
            "AWS_SHARED_CREDENTIALS_FILE": str(folder / "none"),
        },
        CloudProvider.AZURE: {
            "AZURE_CLIENT_ID": "client",
            "AZURE_TENANT_ID": "tenant",
            "AZURE_FEDERATED_TOKEN_FILE": str(folder / "jwt"),
            "AZURE_AUTHORITY_HOST": f"{cloud.url}/",
        },
    }[kind]


def connection(
    server: Server, kind: CloudProvider, variables: Mapping[str, str]
) -> PrometheusConnection:
    """Return the way to a Prometheus with the credentials of a cloud."""
    identity = CloudIdentity(kind, azure_scope="https://scope/.default", environ=variables)
    return PrometheusConnection(server.url, 5.0, cloud=identity)


def ask(access: PrometheusConnection, *pauses: float) -> None:
    """Ask once, and again after each pause."""
    clock = SteppedClock(AT)
    with closing(PrometheusServer(access, lambda *_: None, clock=clock)) as client:
        client.query("up", AT)
        for seconds in pauses:
            clock.wait(seconds)
            client.query("up", AT)


def shown(asked: list[Asked], header: str = "Authorization") -> list[str]:
    """Return what was shown to a server."""
    return [one.headers.get(header, "") for one in asked]


def test_google(server: Server, cloud: Server, tmp_path: Path) -> None:
    """The metadata server is asked as it wants to be, and again before a token ends."""
    cloud.ready.extend([google("one"), google("two")])
    ask(
        connection(server, CloudProvider.GOOGLE, environ(CloudProvider.GOOGLE, cloud, tmp_path)),
        60,
        3300,
    )
    assert shown(server.asked) == ["Bearer one", "Bearer one", "Bearer two"]
    assert [(one.method, one.path) for one in cloud.asked] == [("GET", GOOGLE_PATH)] * 2
    assert shown(cloud.asked, "Metadata-Flavor") == ["Google", "Google"]


def test_azure(server: Server, cloud: Server, tmp_path: Path) -> None:
    """The token of the service account is changed for one of Azure."""
    cloud.ready.append(azure("one"))
    ask(connection(server, CloudProvider.AZURE, environ(CloudProvider.AZURE, cloud, tmp_path)), 60)
    assert shown(server.asked) == ["Bearer one", "Bearer one"]
    (asked,) = cloud.asked
    assert (asked.method, asked.path) == ("POST", "/tenant/oauth2/v2.0/token")
    assert asked.told == {
        "grant_type": "client_credentials",
        "client_id": "client",
        "scope": "https://scope/.default",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": "eyJhbGciOi.eyJpc3Mi.sig",
    }


def test_aws_by_web_identity(server: Server, cloud: Server, tmp_path: Path) -> None:
    """A role is assumed; its keys sign requests of the service and region."""
    cloud.ready.append(Reply((STS % "session").encode()))
    ask(connection(server, CloudProvider.AWS, environ(CloudProvider.AWS, cloud, tmp_path)), 60)
    (asked,) = cloud.asked
    assert asked.told == {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": "arn:aws:iam::123456789012:role/vpa",
        "RoleSessionName": "plumbline",
        "WebIdentityToken": "eyJhbGciOi.eyJpc3Mi.sig",
    }
    for told in shown(server.asked):
        scope = "Credential=ASgeIAIOSFODNN7EXAMPLE/20260301/eu-west-1/aps/aws4_request, "
        names = "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, "
        assert told.startswith(f"AWS4-HMAC-SHA256 {scope}{names}Signature=")
    assert shown(server.asked, "x-amz-security-token") == ["session", "session"]
    assert shown(server.asked, "x-amz-date") == ["20260301T120000Z", "20260301T120100Z"]


KEYS: Final = {"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "secret"}


@cases(
    "variables key",
    {
        "environment": (KEYS, "AKIAENV"),
        "file": ({"AWS_SHARED_CREDENTIALS_FILE": "{folder}/keys"}, "AKIAFILE"),
        "profile": (
            {"AWS_SHARED_CREDENTIALS_FILE": "{folder}/keys", "AWS_PROFILE": "other"},
            "AKIAOTHER",
        ),
        "EKS Pod Identity": (
            {
                "AWS_CONTAINER_CREDENTIALS_FULL_URI": "{cloud}/v1/credentials",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "{folder}/jwt",
            },
            "ASIA",
        ),
        "a token in the environment": (
            {
                "AWS_CONTAINER_CREDENTIALS_FULL_URI": "{cloud}/v1/credentials",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN": "jwt",
            },
            "ASIA",
        ),
    },
)
def test_where_aws_keys_are_found(
    server: Server, cloud: Server, tmp_path: Path, variables: Mapping[str, str], key: str
) -> None:
    """Keys are found where the tools of AWS find them."""
    (tmp_path / "jwt").write_text("jwt")
    (tmp_path / "keys").write_text(
        "[default]\naws_access_key_id = AKIAFILE\naws_secret_access_key=a%b\n"
        "[other]\naws_access_key_id=AKIAOTHER\naws_secret_access_key=c\naws_session_token=d\n"
    )
    cloud.ready.append(lent("token"))
    told = {
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "AWS_DEFAULT_REGION": "eu-west-1",
    }
    told |= {k: text.format(folder=tmp_path, cloud=cloud.url) for k, text in variables.items()}
    ask(connection(server, CloudProvider.AWS, told))
    assert f"Credential={key}/20260301/eu-west-1/aps" in shown(server.asked)[0]
    if cloud.asked:
        assert shown(cloud.asked) == ["jwt"]


def test_tokens_that_are_refused(server: Server, cloud: Server, tmp_path: Path) -> None:
    """What a cloud has taken back is replaced at once, and only once."""
    cloud.ready.extend(map(google, ("old", "new", "newer", "newest")))
    access = connection(
        server, CloudProvider.GOOGLE, environ(CloudProvider.GOOGLE, cloud, tmp_path)
    )
    server.ready.append(Reply(b"", 401))
    ask(access)
    assert shown(server.asked) == ["Bearer old", "Bearer new"]
    server.ready.extend([Reply(b"", 401)] * 2)
    with pytest.raises(Refused, match="HTTP status 401"):
        ask(access)


def test_a_cloud_that_is_away_for_a_while(server: Server, cloud: Server, tmp_path: Path) -> None:
    """A token that still holds is used while there is no other one."""
    cloud.ready.append(google("one"))
    cloud.otherwise = lambda _: Reply(b"busy", 503)
    access = connection(
        server, CloudProvider.GOOGLE, environ(CloudProvider.GOOGLE, cloud, tmp_path)
    )
    ask(access, 3400)
    assert shown(server.asked) == ["Bearer one", "Bearer one"]
    cloud.ready.append(google("one"))
    with pytest.raises(Unavailable, match="Google's metadata server: HTTP status 503: busy"):
        ask(access, 3600)


GOOGLE, AWS, AZURE = CloudProvider.GOOGLE, CloudProvider.AWS, CloudProvider.AZURE


@cases(
    "kind reply error said",
    {
        "another server": (GOOGLE, Reply(b"<html>"), Unavailable, "is another server"),
        "no service account": (GOOGLE, Reply(b"Not Found", 404), Refused, "status 404: Not Found"),
        "no JSON": (AZURE, Reply(b"<html>"), Unavailable, "Azure.*: the answer is no JSON object"),
        "no token": (AZURE, tokens({"expires_in": 9}), Unavailable, "has no token that ends"),
        "no end": (
            AZURE,
            tokens({"access_token": "a", "expires_in": "soon"}),
            Unavailable,
            "has no token that ends",
        ),
        "not federated": (
            AZURE,
            Reply(orjson.dumps(AZURE_REFUSAL), 401),
            Refused,
            "HTTP status 401: AADSTS700211: No matching",
        ),
        "no provider": (
            AWS,
            Reply(STS_REFUSAL, 400),
            Refused,
            "AWS STS: HTTP status 400: No OpenIDConnect provider found",
        ),
        "no keys": (AWS, Reply(b"<a/>"), Unavailable, "AWS STS: the answer has no keys"),
        "throttled": (AWS, Reply(b"", 429), Unavailable, "AWS STS: HTTP status 429$"),
    },
)
def test_clouds_that_lend_nothing(
    server: Server,
    cloud: Server,
    tmp_path: Path,
    kind: CloudProvider,
    reply: Reply,
    error: type[ClusterError],
    said: str,
) -> None:
    """A sentence names the cloud and what it said; Prometheus is not asked."""
    cloud.otherwise = lambda _: reply
    with pytest.raises(error, match=rf"Prometheus at .*: query: .*{said}"):
        ask(connection(server, kind, environ(kind, cloud, tmp_path)))
    assert not server.asked


@cases(
    "kind variables said",
    {
        "Azure": (
            AZURE,
            {"AZURE_CLIENT_ID": "a"},
            "AZURE_TENANT_ID, AZURE_FEDERATED",
        ),
        "no keys": (AWS, {}, "no AWS keys are found"),
        "no region": (AWS, KEYS, "no AWS region is known; name it with --prometheus-aws-region"),
        "no such token": (
            AWS,
            {"AWS_ROLE_ARN": "a", "AWS_WEB_IDENTITY_TOKEN_FILE": "/no/such", "AWS_REGION": "r"},
            "the token in /no/such cannot be read: no such file",
        ),
        "a file without keys": (
            AWS,
            {"AWS_SHARED_CREDENTIALS_FILE": "{folder}/empty"},
            "profile default has no keys",
        ),
        "a profile that does not exist": (
            AWS,
            {"AWS_SHARED_CREDENTIALS_FILE": "{folder}/empty", "AWS_PROFILE": "none"},
            "no AWS keys are found",
        ),
        "another file": (
            AWS,
            {"AWS_SHARED_CREDENTIALS_FILE": "{folder}/other"},
            "is no credentials file",
        ),
        "a folder": (AWS, {"AWS_SHARED_CREDENTIALS_FILE": "{folder}"}, "cannot be read: is a dir"),
    },
)
def test_what_a_cloud_needs(
    server: Server, tmp_path: Path, kind: CloudProvider, variables: Mapping[str, str], said: str
) -> None:
    """What is missing is named."""
    (tmp_path / "empty").write_text("[default]\nregion = eu-west-1\n")
    (tmp_path / "other").write_text("no section\n")
    told = {"AWS_SHARED_CREDENTIALS_FILE": "/no/such"}
    told |= {key: text.format(folder=tmp_path) for key, text in variables.items()}
    with pytest.raises(Refused, match=said):
        ask(connection(server, kind, told))


def test_the_region_is_in_the_address() -> None:
    """The address of a workspace tells its region; a flag counts more."""
    host = "aps-workspaces.us-east-2.amazonaws.com"
    assert aws_region(CloudIdentity(AWS, environ={"AWS_REGION": "r"}), host) == "us-east-2"
    assert aws_region(CloudIdentity(AWS, "eu-west-1", environ={}), host) == "eu-west-1"


def test_a_tenant(server: Server) -> None:
    """The tenant stands in a header, beside other credentials."""
    ask(PrometheusConnection(server.url, 5.0, tenant="team-a", token="t"))
    assert shown(server.asked, "X-Scope-OrgID") == ["team-a"]
    assert shown(server.asked) == ["Bearer t"]


def test_secrets_are_not_shown() -> None:
    """Nothing that is printed has the environment in it."""
    assert "secret" not in repr(CloudIdentity(AWS, environ={"AWS_SECRET_ACCESS_KEY": "secret"}))
