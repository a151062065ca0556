"""Calls Writ, an identity platform, over HTTP and JSON.

    from writ import Client

    with Client("https://login.example.com", "writ_pat_…") as client:
        for user in client.users.search_users():
            print(user.user.username)

`AsyncClient` is the same for asyncio.
"""

from . import reasons, types
from ._async.client import AsyncClient
from ._async.search import AsyncSearch
from ._options import Answer, Authorization, CallOptions
from ._sync.client import Client
from ._sync.search import Search
from ._version import __version__
from .credentials import API_SCOPE, AccessToken, ClientCredentials, KeyFile, RefreshToken, SystemUser
from .errors import (
    AlreadyExistsError,
    ApiError,
    ConnectionError,
    FailedPreconditionError,
    FieldViolation,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OAuthError,
    PermissionDeniedError,
    ResourceExhaustedError,
    TimeoutError,
    UnauthenticatedError,
    UnavailableError,
    WritError,
)
from .webhooks import SignatureError, WebhookVerifier

__all__ = [
    "API_SCOPE",
    "AccessToken",
    "AlreadyExistsError",
    "Answer",
    "ApiError",
    "AsyncClient",
    "AsyncSearch",
    "Authorization",
    "CallOptions",
    "Client",
    "ClientCredentials",
    "ConnectionError",
    "FailedPreconditionError",
    "FieldViolation",
    "InternalError",
    "InvalidArgumentError",
    "KeyFile",
    "NotFoundError",
    "OAuthError",
    "PermissionDeniedError",
    "RefreshToken",
    "ResourceExhaustedError",
    "Search",
    "SignatureError",
    "SystemUser",
    "TimeoutError",
    "UnauthenticatedError",
    "UnavailableError",
    "WebhookVerifier",
    "WritError",
    "__version__",
    "reasons",
    "types",
]
