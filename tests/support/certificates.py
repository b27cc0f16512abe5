"""Certificates of a certificate authority that lives for one test, as files like those of an operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trustme

from node.server_tls import TlsFiles


def write_certificate(ca: trustme.CA, directory: Path, *names: str, **options: Any) -> TlsFiles:
    """Write certificate and key for host names or addresses; options as for `trustme.CA.issue_cert`."""
    issued = ca.issue_cert(*names, **options)
    files = TlsFiles(directory / "cert.pem", directory / "key.pem")
    for path in (files.certificate, files.key):
        path.touch(0o600)
    files.certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    files.key.write_bytes(issued.private_key_pem.bytes())
    return files


def write_ca(ca: trustme.CA, path: Path) -> Path:
    """Write the certificate of the authority itself; return where."""
    ca.cert_pem.write_to_path(path)
    return path
