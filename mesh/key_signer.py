"""Signing requests with an agent's key, so that the key itself never travels.

Loads the cryptography library when a signer is made, not before: most gateways never sign.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from typing import Final, Protocol

from proto.errors import Invalid, Unauthenticated
from proto.ids import parse_base32
from proto.messages import Request, SignedCredential, encode_args, encode_request, signed_bytes

NONCE_BYTES: Final = 16
_SEED_BYTES: Final = 32
_KEY: Final = re.compile(r"hyp_([a-z2-7]+)_([a-z2-7]+)")


class Signer(Protocol):
    """Holder of a key: an id that may be shown, and signatures."""

    @property
    def key_id(self) -> str: ...

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte Ed25519 signature of a message."""
        ...


class KeySigner:
    """Signs with the seed in a key text `hyp_<id>_<base32 of 32 bytes>`.

    Raises:
        Unauthenticated: the text is no key; it is not shown.
    """

    def __init__(self, key: str) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        found = _KEY.fullmatch(key)
        try:
            seed = parse_base32(found[2], "key") if found is not None else b""
        except Invalid:
            seed = b""
        if found is None or len(seed) != _SEED_BYTES:
            raise Unauthenticated(
                f"the key given is none: {len(key)} characters, not hyp_<id>_<secret>. Copy it whole."
            )
        self.key_id = found[1]
        self._private = Ed25519PrivateKey.from_private_bytes(seed)

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)


def encode_signed(request: Request, signer: Signer | None) -> bytes:
    """Return the wire form of a request, signed under a fresh nonce; without a signer it goes unsigned."""
    args_bytes = encode_args(request.args)
    if signer is not None:
        nonce = secrets.token_bytes(NONCE_BYTES)
        signature = signer.sign(signed_bytes(request, args_bytes, signer.key_id, nonce))
        request = replace(request, credential=SignedCredential(signer.key_id, nonce, signature))
    return encode_request(request, args_bytes)
