"""Searches that read page after page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Generic, TypeVar

from .._options import CallOptions
from .core import Core

Reply = TypeVar("Reply")
Item = TypeVar("Item")


class AsyncSearch(Generic[Reply, Item]):
    """A search: go through it for all matches, or ask for one `page()`.

    Pages are read one after the other as they are needed, at the offset of what came before: who
    changes what the search is about collects first (`to_list`).
    """

    def __init__(
        self,
        core: Core,
        reply: type[Reply],
        verb: str,
        path: str,
        args: tuple[str, ...],
        *,
        query: dict[str, Any],
        options: CallOptions,
        **call: Any,
    ) -> None:
        self._core, self._reply, self._verb, self._path, self._args = core, reply, verb, path, args
        self._query, self._options, self._call = query, options, call

    async def page(self) -> Reply:
        """One page, with its details."""
        return await self._read(self._query)

    async def _read(self, query: dict[str, Any]) -> Reply:
        return await self._core.call(
            self._reply, self._verb, self._path, self._args, query=query, options=self._options, **self._call
        )

    async def pages(self) -> AsyncIterator[Reply]:
        """All pages, one after the other."""
        query = dict(self._query)
        while True:
            reply: Any = await self._read(query)
            yield reply
            if query.get("after") is not None:
                query["after"] = reply.details.position
            elif not reply.result:
                return
            else:
                query["query.offset"] = (query["query.offset"] or 0) + len(reply.result)
            if reply.details.end_of_list:
                return

    async def __aiter__(self) -> AsyncIterator[Item]:
        async for reply in self.pages():
            page: Any = reply
            for item in page.result:
                yield item

    async def to_list(self) -> list[Item]:
        """All matches at once."""
        return [item async for item in self]
