"""The certificate of a peer: what is refused and why, its renewal, and when plain HTTP is."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from node.server_tls import ServerTls, TlsFiles, check_exposure, files_of
from proto.errors import Invalid
from tests.support.certificates import write_certificate

CA = trustme.CA()


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    return write_certificate(CA, tmp_path, "localhost")


def test_a_pair_is_loaded_and_old_protocols_are_refused(files: TlsFiles) -> None:
    assert ServerTls(files).context.minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("which", ["certificate", "key"])
def test_a_file_that_is_missing_or_no_pem_is_named(files: TlsFiles, which: str) -> None:
    path: Path = getattr(files, which)
    path.write_text("junk")
    with pytest.raises(Invalid, match="no certificate and key in PEM"):
        ServerTls(files)
    path.unlink()
    with pytest.raises(Invalid, match=f"{path.name} cannot be read: No such file"):
        ServerTls(files)


def test_a_key_of_another_certificate_is_refused(files: TlsFiles, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = write_certificate(CA, tmp_path / "other", "localhost")
    with pytest.raises(Invalid, match="is not the key of the certificate"):
        ServerTls(TlsFiles(files.certificate, other.key))


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602])
def test_a_key_that_everybody_can_read_is_refused_with_the_command_that_closes_it(
    files: TlsFiles, mode: int
) -> None:
    files.key.chmod(mode)
    with pytest.raises(Invalid, match=r"chmod o= .*key\.pem"):
        ServerTls(files)


def test_a_key_that_a_group_can_read_is_taken(files: TlsFiles) -> None:
    files.key.chmod(0o640)
    ServerTls(files)


@pytest.mark.parametrize(("certificate", "key"), [(Path("a"), None), (None, Path("a"))])
def test_one_of_the_two_files_alone_is_refused(certificate: Path | None, key: Path | None) -> None:
    with pytest.raises(Invalid, match="Set both"):
        files_of(certificate, key)


def test_half_a_replaced_pair_changes_nothing_until_the_other_half_is_there(
    files: TlsFiles, tmp_path: Path
) -> None:
    tls = ServerTls(files)
    (tmp_path / "new").mkdir()
    new = write_certificate(CA, tmp_path / "new", "renewed.example")
    new.certificate.replace(files.certificate)
    tls.renew()
    assert "localhost" in names(tls.context)
    new.key.replace(files.key)
    tls.renew()
    assert "renewed.example" in names(tls.context)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_tls(host: str) -> None:
    check_exposure(host, tls=False, allow_plain_http=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "mesh.example", "localhost.example"])
def test_other_addresses_need_tls_or_somebody_who_says_that_they_do_not(host: str) -> None:
    check_exposure(host, tls=True, allow_plain_http=False)
    check_exposure(host, tls=False, allow_plain_http=True)
    with pytest.raises(Invalid, match="HYPHAE_ALLOW_PLAIN_HTTP=true"):
        check_exposure(host, tls=False, allow_plain_http=False)


def names(context: ssl.SSLContext) -> list[str]:
    """Return the names of the certificate that a server shows, by a handshake in memory."""
    client = ssl.create_default_context()
    CA.configure_trust(client)
    client.check_hostname = False
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (client.wrap_bio(to_client, to_server), context.wrap_bio(to_server, to_client, server_side=True))
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    shown = ends[0].getpeercert() or {}
    return [str(pair[1]) for pair in shown["subjectAltName"]]
