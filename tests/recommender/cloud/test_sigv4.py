"""Signatures are those of the test vectors that AWS publishes.

They are the cases of its Signature Version 4 test suite that a client of Prometheus can meet.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from app.recommender.cloud.sigv4 import AwsKeys, AwsRequest, AwsScope, signed_headers
from tests.cases import cases

KEY: Final = "AKIDEXAMPLE"
SECRET: Final = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
NOW: Final = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
SCOPE: Final = AwsScope("us-east-1", "service")
HOST: Final = {"Host": "example.amazonaws.com"}
LETTERS: Final = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
FORM: Final = HOST | {"Content-Type": "application/x-www-form-urlencoded"}
FORM_LENGTH: Final = FORM | {
    "Content-Length": "13",
    "x-amz-content-sha256": "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e",
}
STS: Final = (
    "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfI"
    "eoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0"
    "wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDry"
    "pNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
)
TOKEN: Final = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"

VECTORS: Final = {
    "get-vanilla": (
        AwsRequest("GET", "/", "", HOST),
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    "get-vanilla-query-order-key-case": (
        AwsRequest("GET", "/", "Param2=value2&Param1=value1", HOST),
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    "get-vanilla-query-order-encoded": (
        AwsRequest("GET", "/", "Param-3=Value3&Param=Value2&%E1%88%B4=Value1", HOST),
        "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
    ),
    "get-vanilla-query-unreserved": (
        AwsRequest("GET", "/", f"{LETTERS}={LETTERS}", HOST),
        "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
    ),
    "get-vanilla-utf8-query": (
        AwsRequest("GET", "/", "ሴ=bar", HOST),
        "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
    ),
    "get-unreserved": (
        AwsRequest("GET", f"/{LETTERS}", "", HOST),
        "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
    ),
    "get-utf8": (
        AwsRequest("GET", "/ሴ", "", HOST),
        "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
    ),
    "get-header-value-trim": (
        AwsRequest("GET", "/", "", HOST | {"My-Header1": " value1", "My-Header2": ' "a   b   c"'}),
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    ),
    "post-vanilla": (
        AwsRequest("POST", "/", "", HOST),
        "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    ),
    "post-vanilla-query": (
        AwsRequest("POST", "/", "Param1=value1", HOST),
        "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
    ),
    "post-x-www-form-urlencoded": (
        AwsRequest("POST", "/", "", FORM, b"Param1=value1"),
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    ),
    "post-x-www-form-urlencoded, signed body": (
        AwsRequest("POST", "/", "", FORM_LENGTH, b"Param1=value1"),
        "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b",
    ),
}


@cases("request_ signature", VECTORS)
def test_vectors(request_: AwsRequest, signature: str) -> None:
    """What AWS has published comes out."""
    headers = signed_headers(request_, AwsKeys(KEY, SECRET), SCOPE, NOW)
    assert headers["x-amz-date"] == "20150830T123600Z"
    assert headers["Authorization"].endswith(f"Signature={signature}")
    scope = f"AWS4-HMAC-SHA256 Credential={KEY}/20150830/us-east-1/service/aws4_request, "
    assert headers["Authorization"].startswith(scope)


@cases(
    "method token signature",
    {
        "get-vanilla-with-session-token": (
            "GET",
            TOKEN,
            "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
        ),
        "post-sts-header-before": (
            "POST",
            STS,
            "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
        ),
    },
)
def test_lent_keys(method: str, token: str, signature: str) -> None:
    """The token of keys that are lent is signed too."""
    keys = AwsKeys(KEY, SECRET, token)
    headers = signed_headers(AwsRequest(method, "/", "", HOST), keys, SCOPE, NOW)
    assert headers["x-amz-security-token"] == token
    assert "SignedHeaders=host;x-amz-date;x-amz-security-token" in headers["Authorization"]
    assert headers["Authorization"].endswith(f"Signature={signature}")


def test_secrets_are_not_shown() -> None:
    """Neither the secret nor the token is part of what is printed."""
    shown = repr(AwsKeys(KEY, SECRET, TOKEN))
    assert SECRET not in shown
    assert TOKEN not in shown
