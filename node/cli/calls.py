"""How a command asks a peer: the running one over its socket, a distant one by URL, or the log itself.

Tools act as the key that is configured, administration acts as the owner of the machine; over a URL there
is only the key.  A socket without a key is this user's own peer, who may do everything there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from mcp_gateway.authentication import parse_key
from mesh import wall_clock
from mesh.ports import Requester
from mesh.requester_http import HttpRequester
from node.background import find_local_peer
from node.cli.options import Place
from node.data_directory import peers_of
from node.locations import configured_key, named_file, plain_setting, read_settings_file
from proto.errors import Invalid, Unavailable
from proto.messages import KeyCredential, LocalUser, Request

CALL_S = 30.0
VERIFY_S = 3600.0

T = TypeVar("T")


class Caller:
    """Calls of one command to one peer.

    Args:
        requester: the way to the peer.
        key: presented with each call; None acts as the owner of the machine.
        project: of calls that name none.
        offline: the log is read directly, because no peer runs.
    """

    def __init__(
        self, requester: Requester, key: str | None, project: str | None, *, offline: bool = False
    ) -> None:
        self._requester = requester
        self._credential = LocalUser() if key is None else KeyCredential(key)
        self._project = project
        self.offline = offline

    async def call(
        self, method: str, args: Mapping[str, Any], timeout_s: float = CALL_S, key: str | None = None
    ) -> dict[str, Any]:
        """Return the result of one call, made with another key if one is given.

        Raises:
            Invalid: an argument is no text; nothing was sent.
            HyphaeError: what the peer, or the way to it, answered.
        """
        _check_texts(args)
        deadline_ms = wall_clock.now_ms() + int(timeout_s * 1000)
        credential = self._credential if key is None else KeyCredential(key)
        request = Request(method, args, deadline_ms, credential, default_project=self._project)
        return dict((await self._requester.request(request)).unwrap())

    async def pages(self, method: str, args: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
        """Return the whole list that a method gives page by page.

        Args:
            method: takes `cursor` where it has answered with `next_cursor`.
            args: of each call.
            name: of the list in the result.
        """
        found: list[dict[str, Any]] = []
        page = await self.call(method, args)
        found += page[name]
        while page.get("next_cursor"):
            page = await self.call(method, {**args, "cursor": page["next_cursor"]})
            found += page[name]
        return found


def _check_texts(args: Mapping[str, Any]) -> None:
    """Refuse what the shell handed over as bytes that are not UTF-8, which Python keeps as half characters."""
    for name, value in args.items():
        for text in value if isinstance(value, (list, tuple)) else (value,):
            try:
                str(text).encode()
            except UnicodeEncodeError as error:
                raise Invalid(
                    f"{name} is not UTF-8: character {error.start} is wrong. Nothing was sent."
                ) from None


def talk(
    where: Place,
    conversation: Callable[[Caller], Awaitable[T]],
    *,
    as_owner: bool = False,
    offline: bool = False,
) -> T:
    """Have a conversation with a peer and return its outcome.

    Args:
        where: which peer.
        conversation: makes the calls.
        as_owner: administration: on a local peer no key is presented, even if one is configured.
        offline: may read the log itself when no peer runs.

    Raises:
        HyphaeError: no peer was found, or a call failed.
    """

    async def run() -> T:
        async with _caller(where, as_owner, offline) as caller:
            return await conversation(caller)

    return asyncio.run(run())


def call(
    where: Place, method: str, args: Mapping[str, Any], *, as_owner: bool = False, offline: bool = False
) -> dict[str, Any]:
    """Make one call and return its result; see `talk`."""
    return talk(where, lambda c: c.call(method, args), as_owner=as_owner, offline=offline)


@asynccontextmanager
async def _caller(where: Place, as_owner: bool, offline: bool) -> AsyncIterator[Caller]:
    from_file = read_settings_file(os.environ, where.config)
    project = plain_setting("project", os.environ, from_file)
    read_key = configured_key(os.environ, where.config, from_file)
    key = read_key() if read_key is not None and (where.url or not as_owner) else None
    target = where.url or _socket(where)
    if target is None and offline and peers_of(where.data):
        from node.peer import open_offline

        async with open_offline(peers_of(where.data)[0].path) as requester:
            yield Caller(requester, None, project, offline=True)
        return
    if target is None:
        raise no_peer(where)
    requester = HttpRequester(target, ca=named_file(plain_setting("tls_ca", os.environ, from_file)))
    try:
        yield Caller(requester, key, project)
    finally:
        await requester.close()


def key_id_of(where: Place) -> str:
    """Return the id of the key that tools act as, or an empty text for the owner of the machine."""
    read_key = configured_key(os.environ, where.config, read_settings_file(os.environ, where.config))
    return parse_key(read_key()).id if read_key is not None else ""


def no_peer(where: Place) -> Unavailable:
    """Return the error that no peer runs in a data directory, with what to do."""
    return Unavailable(
        f"no peer runs in {where.data}. Start one with `hyphae up --data-dir {where.data}`, "
        "or name a distant one in HYPHAE_URL."
    )


def _socket(where: Place) -> str | None:
    run = find_local_peer(where.data)
    return None if run is None else run.socket
