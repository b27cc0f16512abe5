"""Asking running peers how they are, all of them at once, none of them for longer than a few seconds.

The only part of a diagnosis that speaks to peers.  It judges nothing: what was answered, and what was not, is
handed to `peers`, `keys` and `clients`.
"""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mesh import wall_clock
from mesh.client_tls import client_context
from mesh.http_connection import HttpTarget, parse_target
from mesh.requester_http import HttpRequester
from node.data_directory import RunFile
from proto.errors import HyphaeError
from proto.messages import KeyCredential, LocalUser, Request

ASK_S = 4.0


@dataclass(frozen=True, slots=True)
class Door:
    """The way to one peer.

    Args:
        target: its address, or the path of its socket.
        key: to present; None acts as the owner of the machine, which only a socket accepts.
        ca: for https, file of the certificates that alone are trusted; None for those of the system.
    """

    target: str
    key: str | None = None
    ca: str | None = None

    async def ask(
        self, method: str, args: Mapping[str, Any] | None = None, key: str | None = None
    ) -> dict[str, Any]:
        """Return the result of one call, made within `ASK_S`; with another key if one is given.

        Raises:
            HyphaeError: what the peer, or the way to it, answered.
        """
        presented = key or self.key
        credential = LocalUser() if presented is None else KeyCredential(presented)
        deadline_ms = wall_clock.now_ms() + int(ASK_S * 1000)
        requester = HttpRequester(self.target, ca=self.ca)
        try:
            reply = await requester.request(Request(method, args or {}, deadline_ms, credential))
            return dict(reply.unwrap())
        finally:
            await requester.close()


@dataclass(frozen=True, slots=True)
class SeenPeer:
    """What one peer answered.

    Args:
        name: for people.
        door: how it was asked.
        run: its run file; None of a distant peer.
        status: as `hyphae status` shows it; None when it did not answer.
        members: as it sees them; empty when it does not tell.
        trouble: why it did not answer, or None.
        silent_http: why its HTTP address does not answer, or None.
    """

    name: str
    door: Door
    run: RunFile | None = None
    status: Mapping[str, Any] | None = None
    members: tuple[Mapping[str, Any], ...] = ()
    trouble: str | None = None
    silent_http: str | None = None


def look_at_peers(running: Sequence[RunFile], ca: str | None) -> tuple[SeenPeer, ...]:
    """Return what the running peers of a data directory answer.

    Args:
        running: those that are up.
        ca: file of the certificates that alone are trusted for their https, or None for those of the system.
    """
    return _look_at_all(
        [SeenPeer(f"{run.name} (process {run.pid})", Door(run.socket), run) for run in running], ca
    )


def look_at_distant(url: str, read_key: Callable[[], str] | None, ca: str | None) -> tuple[SeenPeer, ...]:
    """Return what the peer at `HYPHAE_URL` answers; see `look_at_peers`.

    Args:
        read_key: reads the key that is configured, or None where none is.
    """
    try:
        door = Door(url, read_key() if read_key is not None else None, ca)
        return _look_at_all([SeenPeer(parse_target(url).shown, door)], ca)
    except HyphaeError as error:
        return (SeenPeer("the peer at HYPHAE_URL", Door(""), trouble=error.message),)


def _look_at_all(peers: list[SeenPeer], ca: str | None) -> tuple[SeenPeer, ...]:
    async def look() -> list[SeenPeer]:
        return await asyncio.gather(*(_look(peer, ca) for peer in peers))

    return tuple(asyncio.run(look()))


def ask(door: Door, method: str, key: str | None = None) -> dict[str, Any]:
    """Return the result of one call without arguments; see `Door.ask`."""
    return asyncio.run(door.ask(method, key=key))


def http_trouble(url: str, ca: str | None) -> str | None:
    """Return why nobody answers `GET /healthz` at an address within `ASK_S`, or None."""
    try:
        target = parse_target(url)
        status, body = _get(target, "/healthz", ca)
    except HyphaeError as error:
        return error.message
    except (OSError, http.client.HTTPException) as error:
        return f"nobody answers at {target.shown} ({type(error).__name__})"
    try:
        if status == 200 and json.loads(body) == {"status": "ok"}:
            return None
    except ValueError:
        pass
    return f"what answers at {target.shown} is no peer (status {status})"


async def _look(peer: SeenPeer, ca: str | None) -> SeenPeer:
    url = peer.door.target if peer.run is None else peer.run.http_url
    silent = asyncio.create_task(asyncio.to_thread(http_trouble, url, ca))
    try:
        status = await peer.door.ask("status")
        peer = replace(peer, status=status, members=await _members(peer.door))
    except HyphaeError as error:
        peer = replace(peer, trouble=error.message)
    return replace(peer, silent_http=await silent)


async def _members(door: Door) -> tuple[Mapping[str, Any], ...]:
    try:
        return tuple((await door.ask("peers"))["peers"])
    except HyphaeError:  # a key without admin, over a URL
        return ()


def _get(target: HttpTarget, path: str, ca: str | None) -> tuple[int, bytes]:
    connection = (
        http.client.HTTPSConnection(target.host, target.port, timeout=ASK_S, context=client_context(ca))
        if target.tls
        else http.client.HTTPConnection(target.host, target.port, timeout=ASK_S)
    )
    try:
        connection.request("GET", target.prefix + path, headers={"Host": target.authority})
        response = connection.getresponse()
        return response.status, response.read(1_000)
    finally:
        connection.close()
