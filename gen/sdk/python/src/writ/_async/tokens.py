"""Remembers the token of a client's credentials."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from ..credentials import AccessToken, ClientCredentials, Credentials, KeyFile, RefreshToken, SystemUser, received, signed
from ..errors import WritError
from .io import Lock, finish, value_of

if TYPE_CHECKING:
    from .oauth import AsyncOAuth

#: How many seconds before its end a token is not used any more.
EARLY = 30.0


class Tokens:
    oauth: AsyncOAuth

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._lock = Lock()
        self._token: AccessToken | None = None
        self._good_until = 0.0

    async def get(self) -> str:
        """A token that is still good. One call asks for it, and the others wait."""
        if remembered := self._remembered():
            return remembered
        # A rotation that began is not called off with who first asked: its answer would be lost.
        return await finish(self._ask())

    def _remembered(self) -> str | None:
        return self._token.value if self._token and time.time() < self._good_until else None

    async def _ask(self) -> str:
        async with self._lock:
            if remembered := self._remembered():  # of who had the turn before
                return remembered
            token = await self._source()
            if not token.value or re.search(r"\s", token.value):
                raise WritError("the credentials got no access token")
            self._token = token
            self._good_until = float("inf")
            if token.expires is not None:
                self._good_until = token.expires - min(EARLY, (token.expires - time.time()) / 2)
            return token.value

    async def _source(self) -> AccessToken:
        source = self._credentials
        if isinstance(source, str):
            return AccessToken(source)
        if isinstance(source, ClientCredentials):
            client = (source.id, source.secret)
            return received(await self.oauth.token(source.token_request(), client=client, repeatable=True))
        if isinstance(source, (KeyFile, SystemUser)):
            issuer = source.audience or (await self.oauth.get_configuration()).issuer
            if isinstance(source, SystemUser):
                return signed(source.name, source.key, None, issuer)
            # An assertion is good once, so this is not repeated when its answer was lost.
            return received(await self.oauth.token(source.token_request(issuer), client=("", None)))
        if isinstance(source, RefreshToken):
            await self._save(source)
            reply = await self.oauth.token(source.token_request(), client=(source.client_id, source.client_secret))
            source.rotated(reply)
            await self._save(source)
            return received(reply)
        return await value_of(source())

    async def _save(self, source: RefreshToken) -> None:
        if source.unsaved and source.save:
            await value_of(source.save(source.refresh_token))
        source.unsaved = False

    def drop(self, token: str) -> bool:
        """Forgets a token that was refused, and says whether asking for another may help."""
        if isinstance(self._credentials, str):
            return False
        if self._token and self._token.value == token:
            self._token = None
        return True
