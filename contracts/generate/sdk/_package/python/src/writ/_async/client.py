"""The client."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

import httpx

from .._options import Settings
from ..credentials import Credentials, from_environment
from ..errors import WritError
from .core import Core
from .oauth import AsyncOAuth
from .services import Services
from .tokens import Tokens


class AsyncClient(Services):
    """Calls a server. It is safe for concurrent use.

    What is left out comes from the environment where there is a variable for it; `writ exec` sets
    them all.

    base_url: Where the server is: WRIT_BASE_URL, else OIDC_ISSUER. The host decides which instance
    is called.

    credentials: A personal access token, `ClientCredentials`, a `KeyFile`, a `RefreshToken`, a
    `SystemUser` or a function. Otherwise WRIT_ADMIN_TOKEN, else the client credentials CLIENT_ID and CLIENT_SECRET,
    else none.

    client: Who calls the OAuth endpoints, ID and secret: CLIENT_ID and CLIENT_SECRET.

    timeout: The most seconds that a call may take, with all its attempts and waits.

    retries: How many further attempts there may be after one that failed; 0 switches them off.

    headers: Sent along with each request.

    http: Sends the requests: for proxies, logging and tracing (its event_hooks), and test doubles
    (its transport). It is yours to close; one that the client made is closed with it.
    """

    def __init__(
        self,
        base_url: str | None = None,
        credentials: Credentials | None = None,
        *,
        client: tuple[str, str | None] | None = None,
        timeout: float | None = 60.0,
        retries: int = 2,
        headers: Mapping[str, str] | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        settings = Settings.of(base_url, client, timeout, retries, headers)
        credentials = credentials or from_environment()
        self._http = http or httpx.AsyncClient()
        self._own = http is None
        self._tokens = Tokens(credentials) if credentials else None
        core = Core(settings, self._http, self._tokens)
        super().__init__(core)
        self.oauth: AsyncOAuth = AsyncOAuth(core)
        if self._tokens:
            self._tokens.oauth = self.oauth

    async def access_token(self) -> str:
        """A token of the client's credentials, to use elsewhere."""
        if not self._tokens:
            raise WritError("the client has no credentials")
        return await self._tokens.get()

    async def aclose(self) -> None:
        """Closes the connections."""
        if self._own:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.aclose()
