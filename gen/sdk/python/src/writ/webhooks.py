"""Verifies what targets are called with (Standard Webhooks)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import WritError


class SignatureError(WritError):
    """A delivery that was not signed with the key, or too long ago."""


def verify_webhook(
    body: str | bytes, headers: Mapping[str, str], key: str | Sequence[str], *, tolerance: float = 300.0
) -> Any:
    """Verifies a call of a target and returns its body, parsed.

    body: What was received, before anything parsed it.

    headers: Those of the request: webhook-id, webhook-timestamp and webhook-signature.

    key: The signing key of the target (whsec_…), or both of them while it is being rotated.

    tolerance: How many seconds old it may be.

    The body of an event is `writ.types.EventPayload.from_dict(…)` of what is returned.
    """
    found = {name.lower(): value for name, value in headers.items()}
    id, timestamp = found.get("webhook-id", ""), found.get("webhook-timestamp", "")
    if not id or not timestamp.isdigit() or abs(time.time() - int(timestamp)) > tolerance:
        raise SignatureError("the delivery has no ID, or is not of now")
    content = body.encode() if isinstance(body, str) else body
    signed = f"{id}.{timestamp}.".encode() + content
    given = [each[3:] for each in found.get("webhook-signature", "").split(" ") if each.startswith("v1,")]
    for each in [key] if isinstance(key, str) else key:
        try:
            secret = base64.b64decode(each.removeprefix("whsec_"))
        except binascii.Error as error:
            raise SignatureError("the signing key is not whsec_ and base64") from error
        right = base64.b64encode(hmac.digest(secret, signed, hashlib.sha256))
        if any(hmac.compare_digest(right, signature.encode()) for signature in given):
            return json.loads(content)
    raise SignatureError("the delivery was not signed with this key")
