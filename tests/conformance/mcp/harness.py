"""One way to speak to the server over each transport: send bytes, get the answer.

A `Link` is a transport and knows no message; a `Client` is a link and a revision, and knows how messages of
that revision look.  Tests ask a `Client`, and so hold over every transport and revision alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tests.conformance.mcp.model import MODERN, Transport
from tests.conformance.mcp.reply import OK, Reply

PREFIX = "io.modelcontextprotocol/"
VERSION_KEY, CAPABILITIES_KEY = f"{PREFIX}protocolVersion", f"{PREFIX}clientCapabilities"
CLIENT_INFO_KEY, SERVER_INFO_KEY = f"{PREFIX}clientInfo", f"{PREFIX}serverInfo"
CLIENT_INFO = {"name": "conformance", "version": "1"}

Headers = Sequence[tuple[str, str]]


class Link(Protocol):
    """A transport to one running server, under one key."""

    @property
    def name(self) -> Transport:
        """Which transport it is."""

    def agree(self, revision: str) -> None:
        """Make the connection speak a revision, with a handshake where the transport needs one."""

    def ask(self, data: bytes, headers: Headers) -> Reply:
        """Send bytes and return the one answer that they must get."""

    def tell(self, data: bytes, headers: Headers) -> Reply:
        """Send bytes and return what was answered, with an empty body for nothing."""

    def settle(self) -> None:
        """Fail if anything was sent that nobody has received."""


@dataclass(frozen=True, slots=True)
class Client:
    """Somebody who speaks one revision over one transport."""

    link: Link
    revision: str

    @property
    def over_http(self) -> bool:
        return self.link.name == "http"

    @property
    def is_modern(self) -> bool:
        return self.revision in MODERN

    def http(self, *, legacy: int = OK, modern: int = OK) -> int:
        """Return the status that is due in this client's revision."""
        return modern if self.is_modern else legacy

    def meta(self, **more: Any) -> dict[str, Any]:
        """Return the `_meta` that each request of this revision carries."""
        if not self.is_modern:
            return more
        return {
            VERSION_KEY: self.revision,
            CAPABILITIES_KEY: {},
            CLIENT_INFO_KEY: CLIENT_INFO,
            **more,
        }

    def params(self, params: Mapping[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        """Return parameters as this revision sends them."""
        whole = dict(params or {})
        if self.is_modern or meta:
            whole["_meta"] = self.meta(**meta)
        return whole

    def message(self, method: str, params: Mapping[str, Any] | None = None, id: Any = 1) -> dict[str, Any]:
        """Return a request as this revision sends it."""
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": self.params(params)}

    def notice(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return a notification as this revision sends it."""
        message = self.message(method, params)
        del message["id"]
        return message

    def headers(self, message: Any) -> list[tuple[str, str]]:
        """Return the HTTP headers that belong to a message in this revision."""
        headers = [("MCP-Protocol-Version", self.revision)]
        if self.is_modern and isinstance(message, dict):
            method, params = message.get("method"), message.get("params")
            if isinstance(method, str) and method.isascii():
                headers.append(("Mcp-Method", method))
            name = params.get("name") if isinstance(params, dict) else None
            if method == "tools/call" and isinstance(name, str) and name.isascii():
                headers.append(("Mcp-Name", name))
        return headers

    # -- sending

    def ask(self, message: Any, headers: Headers | None = None) -> Reply:
        """Send a message, or bytes as they are, and return its answer."""
        return self.link.ask(_bytes(message), self.headers(message) if headers is None else headers)

    def tell(self, message: Any, headers: Headers | None = None) -> Reply:
        """Send a message, or bytes as they are, that should get no answer; return what came."""
        return self.link.tell(_bytes(message), self.headers(message) if headers is None else headers)

    def request(self, method: str, params: Mapping[str, Any] | None = None, id: Any = 1) -> Reply:
        return self.ask(self.message(method, params, id))

    def call(self, tool: str, arguments: Any = None, id: Any = 1) -> Reply:
        """Call a tool."""
        params = {"name": tool, **({} if arguments is None else {"arguments": arguments})}
        return self.request("tools/call", params, id)

    def lives(self) -> None:
        """Check that the server still answers."""
        tools = self.request("tools/list", id="still there?").result("still there?")["tools"]
        assert len(tools) == 11


def _bytes(message: Any) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()


def with_meta(client: Client, method: str, meta: Any, **params: Any) -> dict[str, Any]:
    """Return a request whose `_meta` is exactly this."""
    return {**client.message(method), "params": {**params, "_meta": meta}}
