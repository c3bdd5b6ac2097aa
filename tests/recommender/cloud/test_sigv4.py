"""Signatures are those of the test vectors that AWS publishes.

They are all cases of its Signature Version 4 test suite, as botocore 1.34.99 has it in
tests/unit/auth/aws4_testsuite; headers of one name stand together here, as a client sends them.
"signed body" is of the suite in aws-c-auth, tests/aws-signing-test-suite/v4.
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
FORM_UTF8: Final = HOST | {"Content-Type": "application/x-www-form-urlencoded; charset=utf8"}
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

VANILLA: Final = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
POSTED: Final = "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
VECTORS: Final = {
    "get-vanilla": (
        AwsRequest("GET", "/", "", HOST),
        VANILLA,
    ),
    "get-vanilla-query": (
        AwsRequest("GET", "/", "", HOST),
        VANILLA,
    ),
    "get-vanilla-empty-query-key": (
        AwsRequest("GET", "/", "Param1=value1", HOST),
        "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb",
    ),
    "get-vanilla-query-order-key": (
        AwsRequest("GET", "/", "Param1=value2&Param1=Value1", HOST),
        "eedbc4e291e521cf13422ffca22be7d2eb8146eecf653089df300a15b2382bd1",
    ),
    "get-vanilla-query-order-key-case": (
        AwsRequest("GET", "/", "Param2=value2&Param1=value1", HOST),
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    "get-vanilla-query-order-value": (
        AwsRequest("GET", "/", "Param1=value2&Param1=value1", HOST),
        "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694",
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
    "get-space": (
        AwsRequest("GET", "/example space/", "", HOST),
        "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
    ),
    "get-special-character": (
        AwsRequest("GET", "/example/$delete", "", HOST),
        "a853c9b21b528b19643d00910d35b83a10c366a10833ceefb45edd6c80e40f27",
    ),
    "get-relative": (
        AwsRequest("GET", "/example/..", "", HOST),
        VANILLA,
    ),
    "get-relative-relative": (
        AwsRequest("GET", "/example1/example2/../..", "", HOST),
        VANILLA,
    ),
    "get-slash": (
        AwsRequest("GET", "//", "", HOST),
        VANILLA,
    ),
    "get-slash-dot-slash": (
        AwsRequest("GET", "/./", "", HOST),
        VANILLA,
    ),
    "get-slash-pointless-dot": (
        AwsRequest("GET", "/./example", "", HOST),
        "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5",
    ),
    "get-slashes": (
        AwsRequest("GET", "//example//", "", HOST),
        "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
    ),
    "get-header-key-duplicate": (
        AwsRequest("GET", "/", "", HOST | {"My-Header1": "value2,value2,value1"}),
        "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
    ),
    "get-header-value-multiline": (
        AwsRequest("GET", "/", "", HOST | {"My-Header1": "value1\n  value2\n     value3"}),
        "cfd34249e4b1c8d6b91ef74165d41a32e5fab3306300901bb65a51a73575eefd",
    ),
    "get-header-value-order": (
        AwsRequest("GET", "/", "", HOST | {"My-Header1": "value4,value1,value3,value2"}),
        "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01",
    ),
    "get-header-value-trim": (
        AwsRequest("GET", "/", "", HOST | {"My-Header1": " value1", "My-Header2": ' "a   b   c"'}),
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    ),
    "post-vanilla": (
        AwsRequest("POST", "/", "", HOST),
        POSTED,
    ),
    "post-header-key-case": (
        AwsRequest("POST", "/", "", HOST),
        POSTED,
    ),
    "post-sts-header-after": (
        AwsRequest("POST", "/", "", HOST),
        POSTED,
    ),
    "post-header-key-sort": (
        AwsRequest("POST", "/", "", HOST | {"My-Header1": "value1"}),
        "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
    ),
    "post-header-value-case": (
        AwsRequest("POST", "/", "", HOST | {"My-Header1": "VALUE1"}),
        "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
    ),
    "post-vanilla-query": (
        AwsRequest("POST", "/", "Param1=value1", HOST),
        "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
    ),
    "post-vanilla-empty-query-value": (
        AwsRequest("POST", "/", "Param1=value1", HOST),
        "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
    ),
    "post-x-www-form-urlencoded": (
        AwsRequest("POST", "/", "", FORM, b"Param1=value1"),
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    ),
    "post-x-www-form-urlencoded-parameters": (
        AwsRequest("POST", "/", "", FORM_UTF8, b"Param1=value1"),
        "1a72ec8f64bd914b0e42e42607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe",
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
