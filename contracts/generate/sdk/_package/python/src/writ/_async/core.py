"""Sends the calls of all services."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import httpx

from .._codec import Model, decode
from .._options import Answer, Auth, CallOptions, Deadline, Settings, again, pause
from ..errors import ConnectionError, TimeoutError, WritError, refusal
from .io import send, sleep
from .tokens import Tokens

T = TypeVar("T")


class Core:
    def __init__(self, settings: Settings, http: httpx.AsyncClient, tokens: Tokens | None) -> None:
        self._settings, self._http, self._tokens = settings, http, tokens

    async def call(
        self,
        reply: type[T] | None,
        verb: str,
        path: str,
        args: Sequence[str] = (),
        *,
        body: Any = None,
        form: Model | None = None,
        query: Mapping[str, Any] | None = None,
        header: Mapping[str, str | None] | None = None,
        repeatable: bool = False,
        auth: Auth = "bearer",
        options: CallOptions,
    ) -> T:
        deadline = Deadline(options.get("timeout", self._settings.timeout), f"{verb} {path}")
        request = self._settings.request(
            verb, path, args, body=body, form=form, query=query, header=header, auth=auth, options=options
        )
        response = await self._attempts(request, auth, repeatable or options.get("repeatable", False), deadline, options)
        if on_answer := options.get("on_answer"):
            on_answer(Answer(response.status_code, response.headers, response.content))
        if reply is None:
            return None  # type: ignore[return-value]
        try:
            return decode(reply, json.loads(response.content or b"{}"))
        except (ValueError, TypeError, AttributeError) as error:
            raise WritError(f"{verb} {path} answered what is not of the contract") from error

    async def _attempts(
        self, what: dict[str, Any], auth: Auth, repeatable: bool, deadline: Deadline, options: CallOptions
    ) -> httpx.Response:
        """Makes attempts until one is answered for good."""
        retries = options.get("retries", self._settings.retries)
        refreshed = False
        attempt = 0
        while True:
            request = self._http.build_request(**what)
            token = None
            if auth == "bearer" and self._tokens and "authorization" not in request.headers:
                token = await self._tokens.get()
                request.headers["authorization"] = f"Bearer {token}"
            response: httpx.Response | None = None
            failure: WritError
            try:
                response = await send(self._http, request, deadline.left())
                if response.status_code < 300:
                    return response
                if response.status_code == 401 and token and self._tokens and not refreshed and self._tokens.drop(token):
                    refreshed = True  # the token was revoked: the next one is asked for, once
                    continue
                failure = refusal(response)
                if not again(response, repeatable):
                    raise failure
            except httpx.TransportError as error:
                if deadline.left() == 0:
                    raise TimeoutError(f"{deadline.call} took more than {deadline.timeout} s") from error
                failure = ConnectionError(f"no answer of {request.url.copy_with(query=None)}: {error!r}")
                failure.__cause__ = error
                unsent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
                if not (repeatable or unsent):
                    raise failure
            wait, left = pause(attempt, response), deadline.left()
            if attempt >= retries or wait is None or (left is not None and wait > left):
                raise failure
            await sleep(wait)
            attempt += 1
