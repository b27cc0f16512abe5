"""The three transports to the shared peer: in memory, a real `hyphae mcp serve`, the real HTTP surface."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp_gateway import jsonrpc
from mcp_gateway.calling import Calls
from mcp_gateway.dispatcher import Answer, Dispatcher
from mcp_gateway.eras import Revision
from mcp_gateway.http_caller import Caller
from mcp_gateway.intake import classify
from proto.messages import KeyCredential
from tests.conformance.mcp.harness import Headers
from tests.conformance.mcp.model import MODERN, Transport
from tests.conformance.mcp.reply import Reply
from tests.conformance.mcp.shared_peer import SharedPeer
from tests.support.gateways import SERVE
from tests.support.stdio_process import StdioProcess

ANSWER_S = 30.0


class MemoryLink:
    """Parser, intake and dispatcher in this process, on the service itself: everything but a transport.

    Args:
        peer: whose service is asked.
        key: of the agent.
        dispatcher: another one, for tests of the suite itself.
    """

    name: Transport = "memory"

    def __init__(self, peer: SharedPeer, key: str, dispatcher: Dispatcher | None = None) -> None:
        self._peer = peer
        self._dispatcher = dispatcher or Dispatcher("0", Calls())
        self._caller = Caller(peer.service, KeyCredential(key), None)
        self._agreed: Revision | None = None

    def agree(self, revision: str) -> None:
        self._agreed = self._dispatcher.revisions.find(revision, per_request=False)

    def ask(self, data: bytes, headers: Headers) -> Reply:
        reply = self.tell(data, headers)
        assert reply.raw, "there was no answer"
        return reply

    def tell(self, data: bytes, headers: Headers) -> Reply:
        answer = self._peer.run(self.answer(data))
        if answer is None:
            return Reply(b"")
        self._peer.loop.call_soon_threadsafe(self._caller.confirm, [page for _, page in answer.pages])
        return Reply(jsonrpc.encode(answer.body))

    async def answer(self, data: bytes) -> Answer | None:
        asked = classify(jsonrpc.parse(data), self._dispatcher.revisions, agreed=self._agreed)
        if asked is None:
            return None
        answer = await self._dispatcher.answer(asked, self._caller.door)
        self._agreed = answer.revision or self._agreed
        return answer

    def settle(self) -> None:
        """Every answer is a return value, so none can be left over."""


class StdioLink:
    """A real gateway process on the peer."""

    name: Transport = "stdio"

    def __init__(self, process: StdioProcess) -> None:
        self.process = process
        self._ids = itertools.count()

    def agree(self, revision: str) -> None:
        if revision in MODERN:
            return
        id = f"agree-{next(self._ids)}"
        params = {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }
        self.process.send({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params})
        assert self.process.answer(id)["result"]["protocolVersion"] == revision

    def ask(self, data: bytes, headers: Headers) -> Reply:
        self.process.send_bytes(data + b"\n")
        return Reply(_line(self.process.receive()))

    def tell(self, data: bytes, headers: Headers) -> Reply:
        self.process.send_bytes(data + b"\n")
        stray = self._until_settled()
        return Reply(b"" if not stray else _line(stray[0] if len(stray) == 1 else stray))

    def settle(self) -> None:
        assert self._until_settled() == []

    def _until_settled(self) -> list[Any]:
        """Return what arrives before the answers to a ping and to a call that are sent now."""
        number = next(self._ids)
        barriers = [f"barrier-{number}", f"barrier-call-{number}"]
        self.process.send({"jsonrpc": "2.0", "id": barriers[0], "method": "ping"})
        self.process.call(barriers[1], "list_beacons")
        stray = []
        while barriers:
            message = self.process.receive()
            if isinstance(message, dict) and message.get("id") in barriers:
                barriers.remove(message["id"])
            else:
                stray.append(message)
        return stray


def _line(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode()


def gateway_environment(peer: SharedPeer, key: str | None, **more: str) -> dict[str, str]:
    """Return the variables of a gateway, as the entry of a client has them."""
    environment = {
        "HOME": str(peer.root),
        "HYPHAE_CONFIG_DIR": str(peer.root / "editor"),
        "HYPHAE_URL": peer.url,
        **more,
    }
    return environment if key is None else {**environment, "HYPHAE_API_KEY": key}


def gateway(peer: SharedPeer, key: str | None, **more: str) -> StdioProcess:
    """Start `hyphae mcp serve` on the peer.  Use as a context manager."""
    return StdioProcess(gateway_environment(peer, key, **more), args=SERVE)


class HttpLink:
    """`POST /mcp` of the peer, a connection per message.

    Args:
        url: of the peer.
        key: of the agent; None presents none.
        path: of the endpoint.
    """

    name: Transport = "http"

    def __init__(self, url: str, key: str | None, path: str = "/mcp") -> None:
        self._address = url.removeprefix("http://")
        self._key = key
        self._path = path

    def agree(self, revision: str) -> None:
        """Nothing is agreed on: every request names its revision in a header."""

    def ask(self, data: bytes, headers: Headers) -> Reply:
        return self.exchange("POST", data, headers)

    def tell(self, data: bytes, headers: Headers) -> Reply:
        return self.exchange("POST", data, headers)

    def settle(self) -> None:
        """An answer belongs to its request, so none can be left over."""

    def exchange(self, verb: str, data: bytes | None = None, headers: Headers = (), path: str = "") -> Reply:
        """Make one HTTP request; headers are sent as given, also twice.

        Content-Type and the key are added unless given; a header with an empty name is none, so that
        `("", "content-type")` leaves one out.
        """
        with contextlib.closing(self.connect()) as connection:
            self.begin(connection, verb, data, headers, path)
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.read(), answer.status, names)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._address, timeout=ANSWER_S)

    def begin(
        self,
        connection: http.client.HTTPConnection,
        verb: str,
        data: bytes | None,
        headers: Headers,
        path: str = "",
    ) -> None:
        """Send a request and do not wait for its answer."""
        given = {name.lower() for name, _ in headers} | {value for name, value in headers if not name}
        connection.putrequest(verb, path or self._path, skip_host="host" in given, skip_accept_encoding=True)
        for name, value in self._added(given, data):
            connection.putheader(name, value)
        for name, value in headers:
            if name:
                connection.putheader(name, value)
        connection.endheaders(data)

    def _added(self, given: set[str], data: bytes | None) -> Iterator[tuple[str, str]]:
        if data is not None:
            yield "content-length", str(len(data))
        if data is not None and "content-type" not in given:
            yield "content-type", "application/json"
        if "accept" not in given:
            yield "accept", "application/json, text/event-stream"
        if self._key is not None and not given & {"x-hyphae-key", "authorization"}:
            yield "x-hyphae-key", self._key


def key_file(directory: Path, key: str) -> Path:
    """Return a new file that holds a key, as `HYPHAE_API_KEY_FILE` names one."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{len(list(directory.iterdir()))}.key"
    path.write_text(f"{key}\n")
    path.chmod(0o600)
    return path
