"""Where a Prometheus is, and who we are to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.recommender.cloud.identity import CloudIdentity
from app.recommender.source_flags import PrometheusAccessFlags, PrometheusFlags


@dataclass(frozen=True, slots=True)
class PrometheusConnection:
    """Where a Prometheus is, and who we are to it: whom a cloud takes us for, a token, a user."""

    address: str
    timeout_seconds: float = 300.0
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    password_file: str = ""
    ca_file: str = ""
    is_insecure: bool = False
    tenant: str = ""
    certificate_file: str = ""
    key_file: str = ""
    cloud: CloudIdentity = field(default_factory=CloudIdentity)


def connection_of(flags: PrometheusFlags, whose: PrometheusAccessFlags) -> PrometheusConnection:
    """Return the connection that flags tell."""
    return PrometheusConnection(
        flags.address,
        flags.query_timeout.span.total_seconds(),
        whose.username,
        whose.password,
        whose.token,
        whose.token_file,
        whose.password_file,
        flags.ca_file,
        flags.insecure,
        whose.tenant,
        whose.client_certificate,
        whose.client_key,
        CloudIdentity(whose.cloud, whose.aws_region, whose.azure_scope),
    )
