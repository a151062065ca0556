"""Who calls."""

from __future__ import annotations

import base64
import json
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from .errors import WritError
from .types import TokenReply, TokenRequest

#: Asks for a token that the resource API accepts.
API_SCOPE = "openid urn:service:iam:org:project:id:service:aud"


@dataclass(frozen=True)
class AccessToken:
    """What a source of tokens gets."""

    value: str
    expires: float | None = None
    """When it ends, as time.time() tells it; None if it does not."""


@dataclass(frozen=True)
class ClientCredentials:
    """The ID and secret of a service user (client_credentials)."""

    id: str
    secret: str = field(repr=False)
    scope: str = API_SCOPE

    def token_request(self) -> TokenRequest:
        return TokenRequest(grant_type="client_credentials", scope=self.scope)


@dataclass(frozen=True)
class KeyFile:
    """A service user that signs for itself with the key of its key file (JWT profile, RFC 7523).

    It needs the package cryptography: pip install "writ-sdk[keys]".
    """

    key_id: str
    key: str = field(repr=False)
    """The private key in PEM."""
    user_id: str
    scope: str = API_SCOPE
    audience: str | None = None
    """The issuer that the assertion is for; discovered when it is None."""

    @classmethod
    def parse(cls, text: str | bytes, *, scope: str = API_SCOPE) -> KeyFile:
        """Reads what create_machine_key answers in key_details."""
        try:
            content = json.loads(text)
            return cls(key_id=content["keyId"], key=content["key"], user_id=content["userId"], scope=scope)
        except (KeyError, TypeError, ValueError) as error:
            raise WritError("the key file is not a JSON object with keyId, key and userId") from error

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, scope: str = API_SCOPE) -> KeyFile:
        """Reads a key file."""
        with open(path, encoding="utf-8") as file:
            return cls.parse(file.read(), scope=scope)

    def token_request(self, issuer: str) -> TokenRequest:
        assertion = signed(self.user_id, self.key, self.key_id, issuer).value
        grant_type = "urn:ietf:params:oauth:grant-type:jwt-bearer"
        return TokenRequest(grant_type=grant_type, assertion=assertion, scope=self.scope)


@dataclass(frozen=True)
class SystemUser:
    """A user of the installation (`writ serve --system-users`), who signs tokens for itself.

    It needs the package cryptography: pip install "writ-sdk[keys]".
    """

    name: str
    key: str = field(repr=False)
    """The private key in PEM."""
    audience: str | None = None
    """The issuer of the instance that is called; discovered when it is None."""


def signed(name: str, pem: str, key_id: str | None, issuer: str) -> AccessToken:
    """A JWT that somebody signs about itself, for five minutes."""
    try:
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
    except ImportError as error:
        raise WritError('keys need the package cryptography: pip install "writ-sdk[keys]"') from error
    key = serialization.load_pem_private_key(pem.encode(), password=None)
    head = {"alg": "RS256", "typ": "JWT"}
    if isinstance(key, ec.EllipticCurvePrivateKey):
        head["alg"] = "ES256"
    elif isinstance(key, ed25519.Ed25519PrivateKey):
        head["alg"] = "EdDSA"
    if key_id:
        head["kid"] = key_id
    now = int(time.time())
    claims = {"iss": name, "sub": name, "aud": issuer, "iat": now, "exp": now + 300, "jti": secrets.token_urlsafe(16)}
    text = ".".join(base64url(json.dumps(each).encode()) for each in (head, claims))
    if isinstance(key, rsa.RSAPrivateKey):
        signature = key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    elif isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        r, s = utils.decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    elif isinstance(key, ed25519.Ed25519PrivateKey):
        signature = key.sign(text.encode())
    else:
        raise WritError("the private key is neither RSA, P-256 nor Ed25519")
    return AccessToken(f"{text}.{base64url(signature)}", now + 300.0)


@dataclass
class RefreshToken:
    """A refresh token of an app. Each use gives another one and ends it.

    However many calls want a token, one asks. Give it to one client only. `save` stores the token
    that comes next, before the access token that came along is used: a process that starts again
    needs it. When it fails, the call does, and the next one saves first.
    """

    client_id: str
    refresh_token: str = field(repr=False)
    client_secret: str | None = field(default=None, repr=False)
    """A public client has none."""
    save: Callable[[str], None | Awaitable[None]] | None = None
    """With AsyncClient it may be a coroutine function."""
    unsaved: bool = field(default=False, init=False, repr=False)

    def token_request(self) -> TokenRequest:
        return TokenRequest(grant_type="refresh_token", refresh_token=self.refresh_token)

    def rotated(self, reply: TokenReply) -> None:
        """Takes the token that comes next."""
        if reply.refresh_token and reply.refresh_token != self.refresh_token:
            self.refresh_token, self.unsaved = reply.refresh_token, True


#: A personal access token, one of the sources here, or a function that gets tokens from elsewhere
#: (with AsyncClient it may be a coroutine function).
Credentials = (
    str | ClientCredentials | KeyFile | RefreshToken | SystemUser | Callable[[], AccessToken | Awaitable[AccessToken]]
)


def from_environment() -> Credentials | None:
    """WRIT_ADMIN_TOKEN, else the client credentials CLIENT_ID and CLIENT_SECRET."""
    token, id, secret = (os.environ.get(name) for name in ("WRIT_ADMIN_TOKEN", "CLIENT_ID", "CLIENT_SECRET"))
    if token:
        return token
    return ClientCredentials(id, secret) if id and secret else None


def received(reply: TokenReply) -> AccessToken:
    """The access token of an answer."""
    return AccessToken(reply.access_token, time.time() + reply.expires_in)


def base64url(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()
