"""An agent of a real peer, at each of its doors: `POST /mcp`, REST, and the wire messages of gateways.

One kept connection and one key.  Whatever door, a call ends as an `Answer`, so that one test can be asked of
all of them.
"""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from mcp_gateway.rest import ROUTES
from mcp_gateway.tools import TOOLS
from proto.messages import Request, decode_reply, encode_request

CALL_S = 60.0
REFUSAL = "refusal"  # of the arguments: an `isError` result over MCP
ERROR = "error"  # of the service
PROTOCOL = "protocol"  # of JSON-RPC

_ROUTES = {route.call: route for route in ROUTES}
_ROUTES["list_beacons"] = _ROUTES["page_beacons"]  # REST pages them


@dataclass(frozen=True, slots=True)
class Answer:
    """How a call ended.

    Args:
        result: of a call that succeeded.
        code: code word of the error, else empty; the number of a JSON-RPC error without one.
        text: what a model reads of the error.
        kind: REFUSAL, ERROR or PROTOCOL, else empty.
        status: of HTTP.
    """

    result: dict[str, Any] | None
    code: str = ""
    text: str = ""
    kind: str = ""
    status: int = 200
    data: Mapping[str, Any] | None = None

    def ok(self) -> dict[str, Any]:
        """Return the result of a call that must have succeeded."""
        assert self.result is not None, f"refused: {self.code}: {self.text}"
        return self.result

    def refused(self, code: str) -> str:
        """Return the text of an error that must have this code."""
        assert self.code == code, f"expected {code}, got {self.code or self.result}: {self.text}"
        return self.text


class HttpAgent:
    """Calls one peer.

    Args:
        url: of the peer.
        key: of the agent; None presents none.
        headers: sent with every request.
        timeout_s: for each step of an exchange.
    """

    def __init__(
        self,
        url: str,
        key: str | None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = CALL_S,
    ) -> None:
        self.url, self.key = url, key
        self._headers = {**({} if key is None else {"x-hyphae-key": key}), **(headers or {})}
        self._connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=timeout_s)

    def close(self) -> None:
        self._connection.close()

    def hang_up(self) -> None:
        """Leave in the middle of a call that another thread waits for."""
        if self._connection.sock is not None:
            self._connection.sock.shutdown(socket.SHUT_RDWR)

    def __call__(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Return the result of a tool, called as agents do; of another operation, called over the wire."""
        return self.ask(method, arguments).ok()

    def refused(self, method: str, code: str, **arguments: Any) -> str:
        """Return the text of the error that a call must end with."""
        return self.ask(method, arguments).refused(code)

    def ask(self, method: str, arguments: Mapping[str, Any]) -> Answer:
        return self.by_mcp(method, arguments) if method in TOOLS else self.by_wire(method, arguments)

    # -- the doors

    def by_mcp(self, method: str, arguments: Any) -> Answer:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        return self.post_mcp(json.dumps({**message, "params": {"name": method, "arguments": arguments}}))

    def post_mcp(self, body: str | bytes) -> Answer:
        """Send any body to /mcp, and read the answer as that of one tool call."""
        status, data = self.send("POST", "/mcp", body)
        answer = json.loads(data)
        if "error" in answer:
            error = answer["error"]
            code = (error.get("data") or {}).get("code")
            kind = ERROR if code else PROTOCOL
            text = error["message"].partition(": ")[2] if code else error["message"]
            return Answer(None, code or str(error["code"]), text, kind, status, error.get("data"))
        result = answer["result"]
        if result.get("isError"):
            code, _, text = result["content"][0]["text"].partition(": ")
            return Answer(None, code, text, REFUSAL, status)
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return Answer(result["structuredContent"], status=status)

    def by_rest(self, method: str, arguments: Mapping[str, Any]) -> Answer:
        route = _ROUTES[method]
        path, rest = route.template, dict(arguments)
        for name in [n for n in rest if f"{{{n}}}" in path]:
            path = path.replace(f"{{{name}}}", str(rest.pop(name)))
        if route.verb == "POST":
            return self.rest(route.verb, path, rest)
        fields = {n: json.dumps(v) if isinstance(v, (list, dict, bool)) else v for n, v in rest.items()}
        return self.rest(route.verb, f"{path}?{urlencode(fields)}" if fields else path)

    def rest(self, verb: str, path: str, body: Any = None) -> Answer:
        status, data = self.send(verb, path, None if body is None else json.dumps(body))
        answer = json.loads(data)
        if status < 300:
            return Answer(answer, status=status)
        error = answer["error"]
        return Answer(None, error["code"], error["message"], ERROR, status, error)

    def by_wire(self, method: str, arguments: Mapping[str, Any], **fields: Any) -> Answer:
        deadline_ms = time.time_ns() // 1_000_000 + int(CALL_S * 1000)
        return self.post_wire(encode_request(Request(method, arguments, deadline_ms, None, **fields)))

    def post_wire(self, body: bytes) -> Answer:
        """Send any bytes to /v1/request."""
        status, data = self.send("POST", "/v1/request", body, "application/msgpack")
        reply = decode_reply(data)
        if reply.error is None:
            return Answer(json.loads(json.dumps(reply.result)), status=status)
        error = reply.error
        return Answer(None, error.code, error.message, ERROR, status, {"definite": error.definite})

    def send(
        self, verb: str, path: str, body: str | bytes | None, media_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """Return status and body of one exchange; a connection that the peer has closed is opened again."""
        data = body.encode() if isinstance(body, str) else body
        headers = self._headers if data is None else {"content-type": media_type, **self._headers}
        try:
            self._connection.request(verb, path, data, headers)
            response = self._connection.getresponse()
            return response.status, response.read()
        except (http.client.HTTPException, OSError):
            self._connection.close()
            raise
