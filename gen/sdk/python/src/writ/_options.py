"""What the client for asyncio and the one without have in common."""

from __future__ import annotations

import base64
import json
import os
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict
from urllib.parse import quote, quote_plus

import httpx

from ._codec import Model, encode
from ._version import __version__
from .errors import WritError, retry_after

Auth = Literal["bearer", "client", "none"]

# Seconds that are waited between attempts, and at most when the server says how long.
FIRST_PAUSE = 0.5
MOST_PAUSE = 8.0
MOST_ASKED = 60.0


@dataclass(frozen=True)
class Answer:
    """What a call was answered with."""

    status: int
    headers: httpx.Headers
    body: bytes


class CallOptions(TypedDict, total=False):
    """What any call takes besides."""

    timeout: float | None
    """The most seconds that the call may take, with all its attempts and waits; None is no limit."""
    retries: int
    """How many further attempts there may be."""
    headers: Mapping[str, str]
    """Sent along."""
    repeatable: bool
    """The call may be repeated when its answer was lost, although it may have happened: otherwise
    only reads, PUT and DELETE are."""
    client: tuple[str, str | None]
    """Who calls an OAuth endpoint: ID and secret. A public client has no secret."""
    on_answer: Callable[[Answer], None]
    """Sees what was answered."""


@dataclass(frozen=True)
class Authorization:
    """A login that begins: send the browser to `url`, remember the rest in its session, and compare
    `state` with what comes back before you call `exchange`."""

    url: str
    state: str
    nonce: str
    verifier: str


@dataclass(frozen=True)
class Settings:
    """What a client was told."""

    base_url: str
    client: tuple[str, str | None] | None
    timeout: float | None
    retries: int
    headers: Mapping[str, str]

    @classmethod
    def of(
        cls,
        base_url: str | None,
        client: tuple[str, str | None] | None,
        timeout: float | None,
        retries: int,
        headers: Mapping[str, str] | None,
    ) -> Settings:
        base_url = base_url or os.environ.get("WRIT_BASE_URL") or os.environ.get("OIDC_ISSUER")
        if not base_url:
            raise WritError("base_url is missing: say where the server is, or set WRIT_BASE_URL")
        if not re.match(r"https?://[^/]", base_url):
            raise WritError(f"base_url {base_url!r} is not an absolute http or https URL")
        if client is None and os.environ.get("CLIENT_ID"):
            client = (os.environ["CLIENT_ID"], os.environ.get("CLIENT_SECRET"))
        return cls(base_url.rstrip("/"), client, timeout, retries, headers or {})

    def request(
        self,
        verb: str,
        path: str,
        args: Sequence[str],
        *,
        body: Any,
        form: Model | None,
        query: Mapping[str, Any] | None,
        header: Mapping[str, str | None] | None,
        auth: Auth,
        options: CallOptions,
    ) -> dict[str, Any]:
        """What httpx is asked to send."""
        left = list(args)
        for arg in left:
            if not isinstance(arg, str) or arg in ("", ".", ".."):
                raise WritError(f"{verb} {path}: {arg!r} is not an ID")
        path = re.sub(r"\{[^}]*\}", lambda _: quote(left.pop(0), safe=""), path)
        headers = {"user-agent": f"writ-sdk-python/{__version__}", **_lower(self.headers), **_lower(options.get("headers"))}
        headers["accept"] = "application/json"
        headers.update({name: value for name, value in (header or {}).items() if value is not None})
        content: bytes | None = None
        client = options.get("client", self.client)
        if form is not None:
            fields = form.to_dict()
            if client and not client[1]:
                fields.setdefault("client_id", client[0])
            pairs = [
                (name, text) for name, value in fields.items() for text in (value if isinstance(value, list) else [value])
            ]
            content = "&".join(f"{quote_plus(name)}={quote_plus(str(text))}" for name, text in pairs if text != "").encode()
            headers["content-type"] = "application/x-www-form-urlencoded"
        elif body is not None:
            content = json.dumps(encode(body)).encode()
            headers["content-type"] = "application/json"
        if auth == "client" and client and client[1] and "authorization" not in headers:
            basic = f"{quote_plus(client[0])}:{quote_plus(client[1])}".encode()
            headers["authorization"] = "Basic " + base64.b64encode(basic).decode()
        params = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        return {"method": verb, "url": self.base_url + path, "params": params, "headers": headers, "content": content}


def _lower(headers: Mapping[str, str] | None) -> dict[str, str]:
    return {name.lower(): value for name, value in (headers or {}).items()}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(encode(value))


class Deadline:
    """When a call has to be over."""

    def __init__(self, timeout: float | None, call: str) -> None:
        self.timeout, self.call = timeout, call
        self._end = None if timeout is None else time.monotonic() + timeout

    def left(self) -> float | None:
        return None if self._end is None else max(0.0, self._end - time.monotonic())


def again(response: httpx.Response, repeatable: bool) -> bool:
    """Whether another attempt may help, and cannot do twice what should be done once."""
    # With 429 nothing was done yet.
    return response.status_code == 429 or (repeatable and response.status_code in (502, 503, 504))


def pause(attempt: int, response: httpx.Response | None) -> float | None:
    """How many seconds to wait; None is too long."""
    asked = retry_after(response.headers) if response is not None else None
    if asked is not None:
        return asked if asked <= MOST_ASKED else None
    most: float = min(FIRST_PAUSE * 2**attempt, MOST_PAUSE)
    return most / 2 + random.uniform(0, most / 2)
