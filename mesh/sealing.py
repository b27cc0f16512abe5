"""Answers that only the asker can read.

A NATS server keeps users apart, not the holders of one login: whoever has the gateway user's address can
listen to the answers of every gateway that has it too.  So a request carries a public key, and its answer is
encrypted to it.  Requests need no such care: only peers may listen to them.

Source: ephemeral-static Diffie-Hellman on X25519 (RFC 7748), the key derived in one step by SHA-256 over the
shared secret and its context (NIST SP 800-56C, section 4), ChaCha20-Poly1305 (RFC 8439).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proto.codec import decode, encode
from proto.errors import ProtocolError
from proto.ids import digest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

ENVELOPE_VERSION: Final = 1
PUBLIC_BYTES: Final = 32
_NONCE: Final = bytes(12)  # constant: each answer has a key of its own


class ReplyKey:
    """The key pair of one asking process.  Loads the cryptography library when made."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._private = X25519PrivateKey.generate()
        self._public = self._private.public_key().public_bytes_raw()

    def wrap(self, request: bytes) -> bytes:
        """Return the message to send for an encoded request."""
        return encode((ENVELOPE_VERSION, self._public, request))

    def open(self, message: bytes, request: bytes) -> bytes:
        """Return the encoded reply that a message holds.

        Args:
            message: as received.
            request: what `wrap` was given.

        Raises:
            ProtocolError: no answer to this request by somebody who received it.
        """
        from cryptography.exceptions import InvalidTag

        public, sealed = _fields(message, "an answer")
        try:
            cipher = _cipher(self._private, public, self._public, public, request)
            reply: bytes = cipher.decrypt(_NONCE, sealed, None)
        except (InvalidTag, ValueError) as error:
            raise ProtocolError("an answer does not belong to its request", definite=False) from error
        return reply


def unwrap(message: bytes) -> tuple[bytes, bytes]:
    """Return the asker's public key and the encoded request.

    Raises:
        ProtocolError: no such message.
    """
    return _fields(message, "a request")


def seal(reply: bytes, asker: bytes, request: bytes) -> bytes:
    """Return the message that answers: readable by the asker only.

    Args:
        reply: encoded.
        asker, request: as `unwrap` returned them.

    Raises:
        ProtocolError: the asker's public key is none.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    private = X25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()
    try:
        cipher = _cipher(private, asker, asker, public, request)
    except ValueError as error:
        raise ProtocolError("the public key of a request is none") from error
    return encode((ENVELOPE_VERSION, public, cipher.encrypt(_NONCE, reply, None)))


def _cipher(private: X25519PrivateKey, other: bytes, asker: bytes, answerer: bytes, request: bytes) -> Any:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    shared = private.exchange(X25519PublicKey.from_public_bytes(other))
    return ChaCha20Poly1305(digest("sealed-reply", shared, asker, answerer, request))


def _fields(message: bytes, what: str) -> tuple[bytes, bytes]:
    fields = decode(message)
    if not isinstance(fields, tuple) or len(fields) != 3 or fields[0] != ENVELOPE_VERSION:
        raise ProtocolError(f"{what} is no envelope of this version")
    _, public, body = fields
    if not isinstance(public, bytes) or len(public) != PUBLIC_BYTES or not isinstance(body, bytes):
        raise ProtocolError(f"{what} holds a field of the wrong type")
    return public, body
