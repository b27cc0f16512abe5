"""One peer, one gateway process, and clients of every transport and revision that a test is marked with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.mcp.harness import Client, Link
from tests.conformance.mcp.links import HttpLink, MemoryLink, StdioLink, gateway
from tests.conformance.mcp.model import claims_of
from tests.conformance.mcp.shared_peer import SharedPeer, shared_peer
from tests.support.stdio_process import StdioProcess

AGENT, OTHER_AGENT = "asking-agent", "other-agent"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `client` once per transport and revision that it is marked with."""
    claims = claims_of(metafunc.function)
    if claims is None or "client" not in metafunc.fixturenames:
        return
    pairs = [(transport, revision) for transport in claims.over for revision in claims.revisions]
    metafunc.parametrize("client", pairs, indirect=True, ids=[f"{t}-{r}" for t, r in pairs])


@pytest.fixture(scope="session")
def peer() -> Iterator[SharedPeer]:
    with shared_peer() as peer:
        yield peer


@pytest.fixture(scope="session")
def key(peer: SharedPeer) -> str:
    """The key of the agent that asks."""
    return peer.key(AGENT)


@pytest.fixture(scope="session")
def other_key(peer: SharedPeer) -> str:
    """The key of somebody else."""
    return peer.key(OTHER_AGENT)


@pytest.fixture(scope="session")
def gateways(peer: SharedPeer, key: str) -> Iterator[list[StdioProcess]]:
    """The gateway that all tests share, last in the list; one that has ended is followed by a new one."""
    started: list[StdioProcess] = []
    yield started
    for process in started:
        process.__exit__()


@pytest.fixture
def stdio(peer: SharedPeer, key: str, gateways: list[StdioProcess]) -> StdioLink:
    """The shared gateway process."""
    if not gateways or gateways[-1].process.poll() is not None:
        gateways.append(gateway(peer, key))
    return StdioLink(gateways[-1])


@pytest.fixture
def http(peer: SharedPeer, key: str) -> HttpLink:
    """`POST /mcp` of the peer."""
    return HttpLink(peer.url, key)


@pytest.fixture
def memory(peer: SharedPeer, key: str) -> MemoryLink:
    """The dispatcher in this process."""
    return MemoryLink(peer, key)


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """Somebody who speaks the revision over the transport that the test is run for."""
    transport, revision = request.param
    link: Link = request.getfixturevalue(transport)
    link.agree(revision)
    yield Client(link, revision)
    link.settle()
