"""Make what a mesh needs before its first start: identities, passwords, invitations.  Run again, it changes nothing.

`python -m deploy.prepare --root DIR` fills DIR/peer-1 ... (data directories) and DIR/nats-1 ... (a configuration
each), all 0600 for the user that runs it.  deploy/compose.yaml runs it before everything else, with the volumes of
the others mounted there.  Identities come first, because the servers' rules name the peers' ids.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deploy.mesh_files import Passwords, Server, read_passwords, render_server
from mesh.joining import JoinToken, invitation_secret
from mesh.nats_address import format_nats_url
from mesh.nats_config import GATEWAY_USER
from node.data_directory import PeerDirectory
from node.identity import Identity, load_identity, save_identity
from node.private_files import make_directory, write_private
from proto.errors import Corrupted, HyphaeError
from proto.ids import MeshId

INVITATION_HOURS = 24
CONFIG = "nats.conf"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is wanted.

    Args:
        root: the directories of all are below.
        servers: of the NATS cluster, at least one; peer K logs in at server K, counted around.
        nats_host: one name that stands for all servers; None for each peer to begin at its own.
        gateways: users for gateways that speak NATS.
    """

    root: Path
    peers: int
    servers: Sequence[Server]
    nats_host: str | None = None
    gateways: Sequence[str] = (GATEWAY_USER,)

    def peer(self, number: int) -> PeerDirectory:
        return PeerDirectory(self.root / f"peer-{number}")

    def config(self, number: int) -> Path:
        return self.root / f"nats-{number}" / CONFIG

    def nats_url(self, number: int, user: str, password: str) -> str:
        server = self.servers[(number - 1) % len(self.servers)]
        return format_nats_url(self.nats_host or server.host, server.client_port, user, password)


def prepare(plan: Plan, now_ms: int) -> list[str]:
    """Make what is missing; return what was done, one line each.  Safe while the mesh runs.

    Raises:
        HyphaeError: a file cannot be read or written; the message names it, what was made before stays.
    """
    done: list[str] = []
    identities = _identities(plan)
    passwords = _passwords(plan, identities)
    for number, (name, identity) in enumerate(identities.items(), 1):
        url = plan.nats_url(number, name, passwords.users[name])
        identities[name] = _settle(plan.peer(number), replace(identity, nats_url=url), identity, done)
    _invite(plan, identities, now_ms, done)
    peers = {name: identity.peer for name, identity in identities.items()}
    for number, server in enumerate(plan.servers, 1):
        _write(plan.config(number), render_server(server, plan.servers, peers, passwords), done)
    for user in plan.gateways:
        url = plan.nats_url(1, user, passwords.users[user]) + "\n"
        _write(plan.peer(1).secrets / f"nats-{user}.url", url, done)
    return done


def _identities(plan: Plan) -> dict[str, Identity]:
    """Return who the peers are, by name; where nobody has a mesh, the first one founds it.

    A first peer whose disk was lost is a newcomer like any other: a second mesh beside the first helps nobody.
    """
    found: dict[str, Identity] = {}
    for number in range(1, plan.peers + 1):
        directory = plan.peer(number)
        directory.prepare()
        found[f"peer-{number}"] = load_identity(directory, f"peer-{number}")
    if all(identity.mesh is None for identity in found.values()):
        first = found["peer-1"]
        found["peer-1"] = first.in_mesh(MeshId(secrets.token_bytes(16)), first.peer)
    return found


def _passwords(plan: Plan, peers: Mapping[str, Identity]) -> Passwords:
    """Return the passwords that there are, and new ones for who has none."""
    path = plan.config(1)
    try:
        known = read_passwords(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = Passwords({}, secrets.token_urlsafe(32))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Corrupted(
            f"{path} cannot be read ({type(error).__name__}). Nothing was changed. Remove it to make new passwords."
        ) from error
    users = {u: known.users.get(u) or secrets.token_urlsafe(32) for u in (*peers, *plan.gateways)}
    return Passwords(users, known.route)


def _settle(directory: PeerDirectory, wanted: Identity, read: Identity, done: list[str]) -> Identity:
    if wanted != read or not directory.identity.exists():
        save_identity(directory, wanted)
        done.append(f"{directory.identity}: {wanted.name}")
    return wanted


def _invite(plan: Plan, identities: Mapping[str, Identity], now_ms: int, done: list[str]) -> None:
    """Write an invitation by a member for each that belongs to no mesh yet.

    Members have one too, so that all are started alike; nobody needs it.
    """
    member = next(identity for identity in identities.values() if identity.mesh is not None)
    assert member.mesh is not None
    expires_ms = now_ms + INVITATION_HOURS * 3_600_000
    secret = invitation_secret(member.seed, member.mesh, expires_ms)
    for number, identity in enumerate(identities.values(), 1):
        path = plan.peer(number).secrets / "invitation"
        if identity.nats_url is not None and (identity.mesh is None or not path.exists()):
            token = JoinToken(member.mesh, member.peer, expires_ms, identity.nats_url, secret)
            _write(path, token.format() + "\n", done)


def _write(path: Path, text: str, done: list[str]) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        make_directory(path.parent)
        write_private(path, text)
        done.append(str(path))


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.prepare", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--root", type=Path, required=True, help="where the directories of all are")
    parser.add_argument("--peers", type=int, default=3)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--nats-host", default="nats", help="a name that stands for all servers")
    given = parser.parse_args(arguments)
    servers = [Server(f"nats-{n}", f"nats-{n}") for n in range(1, given.servers + 1)]
    plan = Plan(given.root, given.peers, servers, given.nats_host)
    try:
        done = prepare(plan, time.time_ns() // 1_000_000)
    except HyphaeError as error:
        print(f"error: {error.message}", file=sys.stderr)  # noqa: T201 - a command
        return 1
    print("\n".join(done) if done else "Nothing was missing.")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
