"""TLS towards a peer: whom a client trusts, and what a failed handshake means in words.

Certificates are always verified; there is no switch to turn that off.  Light to import: the stdio gateway
lives on this.
"""

from __future__ import annotations

import ssl
from typing import Final

from proto.errors import Invalid

SETTING: Final = "HYPHAE_TLS_CA"

_EXPIRED, _NOT_YET = 10, 9  # X509_V_ERR_...: openssl-verification-options(1)
_WRONG_NAME = frozenset({62, 64})  # host name, IP address
_UNKNOWN_CA = frozenset({18, 19, 20, 21})  # self-signed, self-signed in the chain, no issuer, one alone


def client_context(ca: str | None) -> ssl.SSLContext:
    """Return the context of all connections to one peer.

    Args:
        ca: file of the certificates that alone are trusted, in PEM; None for those of the system.

    Raises:
        Invalid: the file cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=ca)
    except ssl.SSLError as error:
        raise Invalid(f"{SETTING} is {ca}, which holds no certificate in PEM. Nothing was sent.") from error
    except OSError as error:
        raise Invalid(
            f"{SETTING} is {ca}, which cannot be read: {error.strerror}. Nothing was sent."
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def what_failed(error: ssl.SSLError, shown: str, host: str, ca: str | None) -> str:
    """Return why a handshake failed, and what to do.

    Args:
        error: as the handshake raised it.
        shown: the peer, for messages.
        host: the name that its certificate must have.
        ca: as for `client_context`.
    """
    if not isinstance(error, ssl.SSLCertVerificationError):
        return f"{shown} does not speak TLS as it should ({error.reason}). Nothing was sent. Is it http://?"
    code = error.verify_code
    if code == _EXPIRED:
        why = "has expired. Its operator has to renew it."
    elif code == _NOT_YET:
        why = "is not valid yet. Compare the clocks of the two machines."
    elif code in _WRONG_NAME:
        why = f'is not for "{host}". Use a name that it was issued for.'
    elif code in _UNKNOWN_CA:
        trusted = f"{ca} did not sign" if ca else "nobody signed whom this system trusts"
        why = f"is one that {trusted}. Name the file of the right certificate authority in {SETTING}."
    else:
        why = f"is not accepted: {error.verify_message}."
    return f"the certificate of {shown} {why} Nothing was sent."
