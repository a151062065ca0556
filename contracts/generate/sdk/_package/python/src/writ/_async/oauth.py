"""The OAuth endpoints, and what is made of several of them."""

from __future__ import annotations

import hashlib
import secrets
from typing import Unpack
from urllib.parse import urlencode

from .._options import Authorization, CallOptions
from ..credentials import base64url
from ..types import TokenReply, TokenRequest
from .services import AsyncOAuthService


class AsyncOAuth(AsyncOAuthService):
    """The OAuth endpoints."""

    async def authorize(self, client_id: str, redirect_uri: str, *, scope: str = "openid", **parameters: str) -> Authorization:
        """Makes the address at which a login begins (authorization code with PKCE).

        What else the endpoint takes (prompt, login_hint, …) are `parameters`.
        """
        endpoint = (await self.get_configuration()).authorization_endpoint
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        query = {
            "client_id": client_id,
            "redirect_uri": redirect_uri,
            "response_type": "code",
            "scope": scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": base64url(hashlib.sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
            **parameters,
        }
        return Authorization(f"{endpoint}?{urlencode(query)}", state, nonce, verifier)

    async def exchange(self, code: str, redirect_uri: str, verifier: str, **call: Unpack[CallOptions]) -> TokenReply:
        """Gets the tokens for the code that came back; `client` names the client.

        What the ID token says is yours to verify, with the keys of `get_keys` and the nonce.
        """
        request = TokenRequest(
            grant_type="authorization_code", code=code, redirect_uri=redirect_uri, code_verifier=verifier
        )
        return await self.token(request, **call)

    async def end_session(
        self, *, id_token: str | None = None, post_logout_redirect_uri: str | None = None, state: str | None = None
    ) -> str:
        """Makes the address at which a browser signs out."""
        query = {"id_token_hint": id_token, "post_logout_redirect_uri": post_logout_redirect_uri, "state": state}
        endpoint = (await self.get_configuration()).end_session_endpoint
        return f"{endpoint}?{urlencode({name: value for name, value in query.items() if value})}"
