"""Hosts and origins, allowed and foreign."""

from __future__ import annotations

import pytest

from mcp_gateway.http_guard import build_guard

GUARD = build_guard(
    ["Mesh.Example", "other.example:8443"], ["https://app.example", "http://dev.example:3000"]
)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:4974",
        "127.1.2.3:80",
        "localhost",
        "LOCALHOST:1",
        "localhost.",
        "[::1]",
        "[::1]:4974",
        "mesh.example",
        "mesh.example:443",
        "other.example:8443",
    ],
)
def test_loopback_and_configured_hosts_are_allowed(host: str) -> None:
    assert GUARD.refusal([host], []) is None


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        [""],
        ["evil.example"],
        ["evil.example:4974"],
        ["127.0.0.1.evil.example"],
        ["localhost.evil.example"],
        ["notlocalhost"],
        ["other.example"],
        ["other.example:1"],
        ["user@localhost"],
        ["[::2]"],
        ["[localhost]"],
        ["127.0.0.1:4974:1"],
        ["127.0.0.1", "evil.example"],
        ["0.0.0.0"],
    ],
)
def test_foreign_hosts_are_refused(hosts: list[str]) -> None:
    assert GUARD.refusal(hosts, []) is not None


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost",
        "http://localhost:1",
        "https://127.0.0.1:8080",
        "http://[::1]:3000",
        "https://app.example",
        "https://app.example:443",
        "HTTPS://App.Example",
        "http://dev.example:3000",
    ],
)
def test_loopback_and_configured_origins_are_allowed(origin: str) -> None:
    assert GUARD.refusal(["localhost"], [origin]) is None


@pytest.mark.parametrize(
    "origins",
    [
        ["null"],
        [""],
        ["https://evil.example"],
        ["http://localhost.evil.com"],
        ["http://app.example"],
        ["https://app.example:8443"],
        ["http://dev.example"],
        ["https://mesh.example"],
        ["file://localhost"],
        ["http://user@localhost"],
        ["http://localhost/path"],
        ["http://localhost", "https://evil.example"],
    ],
)
def test_foreign_origins_are_refused(origins: list[str]) -> None:
    assert GUARD.refusal(["localhost"], origins) is not None


def test_a_star_allows_every_host_and_no_origin() -> None:
    guard = build_guard(["*"], [])
    assert guard.refusal(["anything.example:1"], []) is None
    assert guard.refusal(["anything.example"], ["https://evil.example"]) is not None


def test_on_a_socket_only_the_origin_counts() -> None:
    guard = build_guard([], [], checks_host=False)
    assert guard.refusal(["peer"], []) is None
    assert guard.refusal([], ["https://evil.example"]) is not None


@pytest.mark.parametrize(
    ("hosts", "origins"), [(["http://x"], []), ([""], []), ([], ["app.example"]), ([], ["*"])]
)
def test_a_wrong_configuration_is_refused_at_the_start(hosts: list[str], origins: list[str]) -> None:
    with pytest.raises(ValueError):
        build_guard(hosts, origins)
