"""Addresses of NATS servers, and the subjects on which answers may go."""

from __future__ import annotations

import pytest

from mesh.nats_address import (
    format_nats_url,
    gateway_echo,
    gateway_reply_prefix,
    is_reply_subject,
    parse_nats_url,
    peer_reply_prefix,
)
from mesh.transport import check_subject
from proto.errors import Invalid
from proto.ids import PeerId


@pytest.mark.parametrize("password", ["plain", "with:colon", "with@at/and?more#", "ключ", "%41", ""])
def test_credentials_survive_the_form_of_a_url(password: str) -> None:
    url = format_nats_url("127.0.0.1", 4333, "gate way", password)
    parsed = parse_nats_url(url)
    assert (parsed.url, parsed.user, parsed.password) == ("nats://127.0.0.1:4333", "gate way", password)
    assert password == "" or password not in repr(parsed)


@pytest.mark.parametrize(
    ("text", "url", "user"),
    [
        ("host", "nats://host:4222", None),
        ("host:1", "nats://host:1", None),
        ("nats://[::1]", "nats://[::1]:4222", None),
        ("tls://u:p@host", "tls://host:4222", "u"),
        ("nats://token@host", "nats://host:4222", "token"),
    ],
)
def test_short_forms_are_completed(text: str, url: str, user: str | None) -> None:
    assert (parse_nats_url(text).url, parse_nats_url(text).user) == (url, user)


@pytest.mark.parametrize(
    "text", ["", "nats://", "http://u:pw-7731@h", "nats://u:pw-7731@h:x", "nats://u:pw-7731@"]
)
def test_what_is_no_address_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_nats_url(text)
    assert "pw-7731" not in refused.value.message


@pytest.mark.parametrize("user", [None, "", "gateway", "a.b", ">", "*", "ключ", "a b"])
def test_a_reply_prefix_is_always_two_tokens(user: str | None) -> None:
    prefix = gateway_reply_prefix(user)
    check_subject(prefix, literal=True)
    assert prefix.count(".") == 1
    check_subject(gateway_echo(prefix, "c1"), literal=True)


def test_answers_go_below_the_prefixes_of_peers_and_gateways_only() -> None:
    assert is_reply_subject(peer_reply_prefix(PeerId(bytes(16))) + ".c.t")
    assert is_reply_subject(gateway_reply_prefix("gateway") + ".c.t")
    for subject in ("", "_GW", "_GWX.y", "_INBOX.x", "hyphae.m.ev.0.p", "$SYS.x"):
        assert not is_reply_subject(subject)
