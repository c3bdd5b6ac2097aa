"""The webhook's FastAPI application.

Strategy: FastAPI is the frame. The three review paths are ASGI endpoints that never raise, so
they are called before its middleware, which would take a fifth of the time of a review.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from app.core.admission.validate import Phase
from app.web.endpoints import ReviewEndpoint
from app.web.protocol import Write
from app.web.reviews import Reviewer


class Webhook(FastAPI):
    """A FastAPI application with endpoints that stand before everything else."""

    def __init__(self, endpoints: Mapping[str, ReviewEndpoint], title: str) -> None:
        super().__init__(title=title, openapi_url=None, redirect_slashes=False)
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, a review first."""
        endpoint = self._endpoints.get(scope["path"]) if scope["type"] == "http" else None
        await (endpoint or super().__call__)(scope, receive, send)

    def at_once(self, scope: Mapping[str, Any], body: bytes, began: float, write: Write) -> None:
        """Answer a review that is there as a whole, unless this takes longer."""
        endpoint = self._endpoints.get(scope["path"])
        if endpoint is not None:
            endpoint.at_once(scope, body, began, write)


def webhook(reviewer: Reviewer) -> Webhook:
    """Return the application behind the HTTPS port."""
    mutate = ReviewEndpoint(reviewer, Phase.MUTATING)
    endpoints = {
        "/mutate": mutate,
        "/validate": ReviewEndpoint(reviewer, Phase.VALIDATING),
        "/": mutate,  # upstream's configuration names no path
    }
    return Webhook(endpoints, "Plumbline admission webhook")
