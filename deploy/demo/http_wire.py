"""One HTTP connection to a peer and its REST interface, on the standard library alone.

Every failure to get an answer is `Unreachable`; every answer that is a refusal is `Refused`.  Whether to try
again is the caller's.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

ANSWER_S = 30.0
IDLE_S = 2.0  # servers close idle connections; a request on one that is just closing would be in doubt


class Unreachable(Exception):
    """There was no complete answer: the request may or may not have been carried out."""


class Refused(Exception):
    """The peer answered with an error.

    Args:
        code: the code word of the error, or the HTTP status as text.
        message: what it says.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Wire:
    """A connection that is kept open between requests.  For one thread.

    Args:
        url: such as `http://127.0.0.1:4974`.
        key: of the agent.
    """

    def __init__(self, url: str, key: str) -> None:
        host = urlsplit(url).netloc
        self._connection = http.client.HTTPConnection(host, timeout=ANSWER_S)
        self._headers = {"x-hyphae-key": key, "content-type": "application/json"}
        self._used_s = 0.0

    def send(
        self, verb: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Return status and body of the answer.

        Raises:
            Unreachable: there was none.
        """
        now_s = time.monotonic()
        if now_s - self._used_s > IDLE_S:
            self._connection.close()
        self._used_s = now_s
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        try:
            self._connection.request(verb, path, data, {**self._headers, **(headers or {})})
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise Unreachable(f"{verb} {path}: {type(error).__name__}") from error

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        self._connection.close()


class Rest:
    """REST of one peer under one key.  For one thread."""

    def __init__(self, url: str, key: str) -> None:
        self._wire = Wire(url, key)

    def get(self, path: str) -> dict[str, Any]:
        """Return the answer to GET.

        Raises:
            Refused, Unreachable.
        """
        return _result(*self._wire.send("GET", path))

    def post(self, path: str, body: Any) -> dict[str, Any]:
        """Return the answer to POST.

        Raises:
            Refused, Unreachable.
        """
        return _result(*self._wire.send("POST", path, body))

    def node(self, node_id: str) -> dict[str, Any]:
        """Return one whole memory.

        Raises:
            Refused: it is not there; Unreachable.
        """
        return self.get(f"/v1/nodes/{quote(node_id, safe='')}")

    def status(self) -> dict[str, Any]:
        """Return the peer at a glance.

        Raises:
            Refused, Unreachable.
        """
        return self.get("/v1/status")

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()


def _result(status: int, body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Refused(str(status), f"the answer is no JSON object: {body[:100]!r}")
    if status != 200:
        error = value.get("error", {})
        raise Refused(str(error.get("code", status)), str(error.get("message", "no message")))
    return value
