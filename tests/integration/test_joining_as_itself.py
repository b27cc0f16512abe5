"""A peer that is invited where each peer has a user of its own at NATS: it logs in as itself from the first word."""

from __future__ import annotations

from tests.support.hyphae_command import eventually
from tests.support.places import short_directory
from tests.support.prepared_mesh import loopback_plan, prepared_servers
from tests.support.running_mesh import RunningPeer


def test_a_newcomer_joins_under_its_own_user_whoever_invites_it() -> None:
    with short_directory() as root, prepared_servers(loopback_plan(root, peers=2, servers=1)):
        first = RunningPeer(root, "--nats-url", f"@{root}/peer-1/secrets/nats-url", name="peer-1")
        second = RunningPeer(root, name="peer-2")
        try:
            url = (root / "peer-1" / "secrets" / "nats-url").read_text()
            assert "peer-1:" in url
            first.start()
            token = first.operator()("invite_peer")["token"]
            second.options = ("--join", token)
            second.start()
            operator = second.caller(first.secret("operator"))
            node = operator("store", content="I am here", cell_type="Fact")["node_id"]
            there = first.operator()
            eventually(lambda: there.ask("get_node", {"node_id": node}).result is not None, "it is heard")
        finally:
            second.kill()
            first.kill()
