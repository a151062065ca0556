"""How asyncio waits."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

import httpx

T = TypeVar("T")

Lock = asyncio.Lock
sleep = asyncio.sleep


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Does work to its end, also when who asked for it does not wait any more."""
    return await asyncio.shield(asyncio.ensure_future(work))


async def value_of(found: T | Awaitable[T]) -> T:
    """What somebody else's function returns at once or later."""
    waits: Any = found
    value: T = await waits if inspect.isawaitable(waits) else waits
    return value


async def send(http: httpx.AsyncClient, request: httpx.Request, limit: float | None) -> httpx.Response:
    try:
        async with asyncio.timeout(limit):
            return await http.send(request)
    except TimeoutError as error:
        raise httpx.ReadTimeout("the time is over", request=request) from error
