"""Verifies what targets are called with (Standard Webhooks)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import WritError

_KEY = re.compile(r"whsec_([A-Za-z0-9+/]+={0,2})")
_TIME = re.compile(r"[0-9]{1,12}")


class SignatureError(WritError):
    """A delivery that was not signed with the key, or too long ago."""


class WebhookVerifier:
    """Verifies the calls of a target.

    key: The signing key of the target (whsec_…), or both of them while it is being rotated. A
    ValueError says that there is none, or that one is not whsec_ and the base64 of at least
    24 bytes.

    tolerance: How many seconds old a delivery may be.
    """

    def __init__(self, key: str | Sequence[str], *, tolerance: float = 300.0) -> None:
        keys = [key] if isinstance(key, str) else list(key)
        if not keys:
            raise ValueError("there is no signing key to verify deliveries with")
        self._keys = [_secret(number, each) for number, each in enumerate(keys, 1)]
        self._tolerance = tolerance

    def verify(self, body: str | bytes, headers: Mapping[str, str]) -> Any:
        """Returns the body of a delivery, parsed, or raises a SignatureError.

        body: What was received, before anything parsed it.

        headers: Those of the request: webhook-id, webhook-timestamp and webhook-signature.

        The body of an event is `writ.types.EventPayload.from_dict(…)` of what is returned.
        """
        found = {name.lower(): value for name, value in headers.items()}
        id, timestamp = found.get("webhook-id", ""), found.get("webhook-timestamp", "")
        if not id or not _TIME.fullmatch(timestamp) or abs(time.time() - int(timestamp)) > self._tolerance:
            raise SignatureError("the delivery has no ID, or is not of now")
        content = _bytes(body) if isinstance(body, str) else body
        signed = _bytes(f"{id}.{timestamp}.") + content
        given = [_bytes(each[3:]) for each in found.get("webhook-signature", "").split(" ") if each.startswith("v1,")]
        for key in self._keys:
            right = base64.b64encode(hmac.digest(key, signed, hashlib.sha256))
            if any(hmac.compare_digest(right, signature) for signature in given):
                return json.loads(content)
        raise SignatureError("the delivery was not signed with this key")


def _secret(number: int, key: str) -> bytes:
    found = _KEY.fullmatch(key)
    if found and len(found[1]) % 4 == 0:
        secret = base64.b64decode(found[1])
        if len(secret) >= 24:
            return secret
    raise ValueError(f"signing key {number} is not whsec_ and the base64 of at least 24 bytes")


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
