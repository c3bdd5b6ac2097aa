"""What a request says besides its review: the trace that it belongs to."""

from __future__ import annotations

import pytest

from app.model.fields import Json
from app.runtime.http_requests import traceparent
from tests import make
from tests.admission.test_app import JSON, POD, VPA, of_containers, request, response_of, send
from tests.cases import cases
from tests.runtime.reviewing import WEB, Lines, desk, logged

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@cases(
    "given told",
    {
        "sampled": (TRACE, TRACE),
        "not sampled": (f"{TRACE[:-2]}00", f"{TRACE[:-2]}00"),
        "a later version": (f"cc{TRACE[2:]}", f"cc{TRACE[2:]}"),
        "a later version that says more": (f"cc{TRACE[2:]}-more", f"cc{TRACE[2:]}"),
        "none": (None, ""),
        "empty": ("", ""),
        "the version that is none": (f"ff{TRACE[2:]}", ""),
        "more than the first version says": (f"{TRACE}-more", ""),
        "no separator": (f"cc{TRACE[2:]}x", ""),
        "capital letters": (TRACE.upper(), ""),
        "no trace": (f"00-{'0' * 32}{TRACE[35:]}", ""),
        "no parent": (f"{TRACE[:36]}{'0' * 16}-01", ""),
        "too short": (TRACE[:-1], ""),
        "words": ("a" * 10_000, ""),
        "not ASCII": (f"{TRACE[:-1]}\u00b2", ""),
    },
)
def test_valid_traces(given: str | None, told: str) -> None:
    """A trace is taken as the first version of the standard says it; what is not valid is none."""
    headers = {} if given is None else {b"traceparent": given.encode("latin-1")}
    assert traceparent(headers) == told


@pytest.mark.parametrize("trace", [TRACE, TRACE.upper()])
@cases(
    "review path",
    {
        "a pod": (POD, "/mutate"),
        "a pod to be judged": (POD, "/validate"),
        "a VPA": (VPA, "/mutate"),
        "a pod without time": (of_containers(100), "/mutate?timeout=0s"),
        "no review": ({}, "/mutate"),
    },
)
def test_traces(review: Json, path: str, trace: str) -> None:
    """The trace that a call belongs to comes back as an audit annotation, if it is valid."""
    headers = JSON | {"traceparent": trace}
    response = response_of(send(desk(*WEB), review, path=path, headers=headers))
    told = response.get("auditAnnotations", {}).get("traceparent")
    assert told == (trace if trace == TRACE else None)


@cases(
    "review message",
    {
        "a pod": (POD, "pod sized"),
        "a pod that cannot be read": (request(object="x"), "pod admitted unchanged"),
        "a VPA": (make.review_json(make.vpa_json(mode="x")), "VPA refused"),
        "no review": ({}, "review not readable"),
    },
)
def test_traces_are_logged(review: Json, message: str) -> None:
    """A line about a review has the trace that its call belongs to."""
    for headers, told in ((JSON, None), (JSON | {"traceparent": TRACE}, TRACE)):
        lines = Lines()
        with logged(lines):
            send(desk(*WEB), review, headers=headers)
        (record,) = lines.records
        assert (record.getMessage(), record.__dict__.get("traceparent")) == (message, told)
