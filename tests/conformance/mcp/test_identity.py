"""Who calls comes from a key, whatever the message says."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mcp_gateway.specs import Hints
from mcp_gateway.tools import TOOLS
from tests.conformance.mcp.harness import Client
from tests.conformance.mcp.links import HttpLink, MemoryLink, StdioLink, gateway, key_file
from tests.conformance.mcp.model import BOTH, HTTP, LATEST_LEGACY, MEMORY, STDIO, requirement
from tests.conformance.mcp.shared_peer import SharedPeer
from tests.conformance.mcp.test_tools_list import ELEVEN


def author_of(client: Client, node_id: str) -> str:
    (hit,) = client.call("recall", {"query": node_id, "include_content": True}).content()["results"]
    return str(hit["source_agent"])


@requirement("identity.stamped", "seed.stamped", "seed.no-pretending", revisions=BOTH)
def test_what_is_stored_is_signed_with_the_agent_of_the_key(client: Client) -> None:
    arguments = {"content": f"signed {client.link.name} {client.revision}", "cell_type": "Fact"}
    node_id = client.call("store", arguments).content()["node_id"]
    assert author_of(client, node_id) == "asking-agent"
    assert client.call("list_beacons").content()["agent"] == "asking-agent"


@requirement("identity.no-argument", "seed.no-pretending", "seed.no-identity-argument", revisions=BOTH)
@pytest.mark.parametrize("name", ["source_agent", "tenant_id", "agent", "owner"])
def test_an_argument_that_claims_an_identity_is_refused_and_nothing_happens(
    client: Client, peer: SharedPeer, name: str
) -> None:
    arguments = {"content": "not mine", "cell_type": "Fact", name: "other-agent"}
    with peer.asked() as asked:
        text = client.call("store", arguments).refusal()
    assert text.startswith(f"invalid: store has no argument {name}")
    assert "Nothing was stored." in text
    assert "store" not in [method for method, _ in asked]
    assert client.call("recall", {"query": "x", name: "other-agent"}).refusal().startswith("invalid: ")


@requirement("identity.no-metadata", revisions=BOTH)
def test_no_metadata_can_claim_an_identity(client: Client) -> None:
    message = client.message("tools/call", {"name": "list_beacons", "source_agent": "other-agent"})
    message["params"]["_meta"] = client.meta(source_agent="other-agent", agent="other-agent")
    assert client.ask({**message, "agent": "other-agent"}).content()["agent"] == "asking-agent"


@requirement("identity.per-request", "seed.http-independent", over=HTTP)
def test_over_http_each_request_is_whoever_its_key_says(peer: SharedPeer, key: str, other_key: str) -> None:
    nobody = HttpLink(peer.url, None)
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_beacons"}}'
    for _ in range(3):
        for each, agent in ((key, "asking-agent"), (other_key, "other-agent")):
            for header in (("x-hyphae-key", each), ("Authorization", f"Bearer {each}")):
                assert nobody.exchange("POST", call, [header]).content()["agent"] == agent
        assert nobody.exchange("POST", call).status == 401


@requirement("identity.per-request", "seed.http-independent", over=HTTP)
def test_over_http_no_other_header_can_claim_an_identity(http: HttpLink) -> None:
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_beacons"}}'
    claims = [(f"x-hyphae-{name}", "other-agent") for name in ("agent", "owner", "tenant", "source-agent")]
    assert http.exchange("POST", call, claims).content()["agent"] == "asking-agent"


@requirement("identity.fixed", "seed.identity-fixed", over=STDIO)
def test_over_stdio_the_identity_of_a_process_never_changes(
    peer: SharedPeer, key: str, other_key: str
) -> None:
    path = key_file(peer.root / "keys", key)
    with gateway(peer, None, HYPHAE_API_KEY_FILE=str(path)) as process:
        link = StdioLink(process)
        for revision in ("2025-11-25", "2026-07-28", "2024-11-05"):
            link.agree(revision)
            client = Client(link, revision)
            assert client.call("list_beacons").content()["agent"] == "asking-agent"
            path.write_text(other_key)  # what the file says later is for the next process


@requirement("identity.one-process", "seed.identity-fixed", "seed.process-per-agent", over=STDIO)
def test_two_processes_are_two_agents(peer: SharedPeer, key: str, other_key: str) -> None:
    with gateway(peer, key) as one, gateway(peer, other_key) as other:
        for process, agent in ((one, "asking-agent"), (other, "other-agent"), (one, "asking-agent")):
            assert Client(StdioLink(process), "2025-11-25").call("list_beacons").content()["agent"] == agent


@requirement("identity.hints-decide-nothing", "seed.hints-advisory", over=MEMORY, revisions=LATEST_LEGACY)
def test_access_is_the_same_when_every_hint_is_turned_round(
    client: Client, peer: SharedPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Client(MemoryLink(peer, peer.key("hint-reader", scopes=["read"])), client.revision)

    def outcomes() -> list[Any]:
        store = reader.call("store", {"content": "x", "cell_type": "Fact"}).body["error"]["code"]
        reads = [reader.call(t, {"query": "x"}).result()["isError"] for t in ("recall",)]
        lists = [reader.call(t).result()["isError"] for t in ("list_beacons", "list_scenes", "drain_inbox")]
        return [store, *reads, *lists]

    before = outcomes()
    for name in ELEVEN:
        old = TOOLS[name].hints
        turned = Hints(not old.read_only, not old.destructive, not old.idempotent, not old.open_world)
        monkeypatch.setitem(TOOLS, name, dataclasses.replace(TOOLS[name], hints=turned))
    assert outcomes() == before == [4030, False, False, False, False]
