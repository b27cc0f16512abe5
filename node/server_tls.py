"""The certificate of a peer's HTTP surface, and the rule that keys do not travel in clear.

It loads, checks and renews; listening is `node.surfaces`'s.  A renewed certificate is taken up without a restart:
new connections get it.  A file that is wrong at that moment changes nothing.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path

import structlog

from proto.errors import Invalid

NOTHING_STARTED = "Nothing was started."

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where certificate and key lie.

    Args:
        certificate: PEM, with the intermediate ones after it.
        key: PEM, without a passphrase.
    """

    certificate: Path
    key: Path


class ServerTls:
    """Loads on construction.

    Raises:
        Invalid: the files cannot be used; the message says which and why.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen = _stamp(files)
        self.context = _load(files)

    def renew(self) -> None:
        """Take up files that have changed since the last look.  On the event loop, as handshakes are."""
        try:
            seen = _stamp(self._files)
            if seen == self._seen:
                return
            _load(self._files)  # into a context of its own first: half a pair must not reach the living one
            self.context.load_cert_chain(self._files.certificate, self._files.key, _no_passphrase)
        except (Invalid, OSError) as error:
            _log.warning("certificate_not_renewed", reason=str(error))
            return
        self._seen = seen
        _log.info("certificate_renewed", file=str(self._files.certificate))


def files_of(certificate: Path | None, key: Path | None) -> TlsFiles | None:
    """Return the files that the settings name, or None for plain HTTP.

    Raises:
        Invalid: one is named without the other.
    """
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        given, missing = ("cert", "key") if key is None else ("key", "cert")
        raise Invalid(
            f"HYPHAE_TLS_{given.upper()} is set and HYPHAE_TLS_{missing.upper()} is not. {NOTHING_STARTED} Set both."
        )
    return TlsFiles(certificate, key)


def check_exposure(host: str, *, tls: bool, allow_plain_http: bool) -> None:
    """Check that keys do not travel in clear beyond this machine.

    Raises:
        Invalid: they would, and nobody said that they may.
    """
    if not (tls or allow_plain_http or is_loopback(host)):
        raise Invalid(
            f"{host} can be reached from other machines, and over plain HTTP keys and memories travel in clear. "
            f"{NOTHING_STARTED} Set HYPHAE_TLS_CERT and HYPHAE_TLS_KEY; or HYPHAE_ALLOW_PLAIN_HTTP=true "
            "where a proxy speaks TLS or the network is private."
        )


def is_loopback(host: str) -> bool:
    """Tell whether an address to listen on is this machine's alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _load(files: TlsFiles) -> ssl.SSLContext:
    _check_private(files.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(files.certificate, files.key, _no_passphrase)
    except ssl.SSLError as error:
        raise Invalid(_what_is_wrong(files, error)) from error
    except OSError as error:
        raise Invalid(f"{files.certificate} cannot be read: {error.strerror}. {NOTHING_STARTED}") from error
    return context


def _check_private(key: Path) -> None:
    try:
        with key.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
    except OSError as error:
        raise Invalid(f"{key} cannot be read: {error.strerror}. {NOTHING_STARTED}") from error
    if mode & stat.S_IRWXO:
        raise Invalid(
            f"{key} can be read or written by every user of this machine (mode {stat.S_IMODE(mode):04o}). "
            f"{NOTHING_STARTED} Close it with `chmod o= {key}`."
        )


def _what_is_wrong(files: TlsFiles, error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"{files.key} is not the key of the certificate in {files.certificate}. {NOTHING_STARTED}"
    why = f" ({error.reason})" if error.reason else ""
    return f"{files.certificate} and {files.key} are no certificate and key in PEM{why}. {NOTHING_STARTED}"


def _no_passphrase() -> str:
    raise Invalid(f"the key of TLS has a passphrase, which nobody can type here. {NOTHING_STARTED}")


def _stamp(files: TlsFiles) -> tuple[tuple[int, int], ...]:
    """Return what changes when a file is written or replaced; (0, 0) for one that is missing."""
    out = []
    for path in (files.certificate, files.key):
        try:
            found = path.stat()
            out.append((found.st_mtime_ns, found.st_ino))
        except OSError:
            out.append((0, 0))
    return tuple(out)
