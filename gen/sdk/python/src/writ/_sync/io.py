"""How threads wait."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Awaitable
from typing import Any, TypeVar

import httpx

from ..errors import WritError

T = TypeVar("T")

Lock = threading.Lock
sleep = time.sleep


def finish(done: T) -> T:
    return done


def value_of(found: T | Awaitable[T]) -> T:
    """What somebody else's function returns."""
    waits: Any = found
    if inspect.isawaitable(waits):
        raise WritError("coroutine functions are for AsyncClient")
    value: T = waits
    return value


def send(http: httpx.Client, request: httpx.Request, limit: float | None) -> httpx.Response:
    request.extensions["timeout"] = httpx.Timeout(limit).as_dict()
    return http.send(request)
