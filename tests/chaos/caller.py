"""One agent's calls, each noted in the history with how it ended.

A connection that was refused, and an error that says so itself, are definite: it did not happen.  Everything else
that is no answer may have happened.
"""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tests.chaos.history import FAIL, OK, UNKNOWN, History
from tests.support.http_agent import PROTOCOL, REFUSAL, Answer, HttpAgent

CALL_S = 5.0
CANARY = re.compile(r"canary-[a-z]+-[a-z]+")

Telling = Callable[[dict[str, Any]], Mapping[str, Any]]
Way = Callable[[HttpAgent], Answer]


class Calling(Protocol):
    """How an agent calls: over HTTP at a peer of its choice, or through a gateway that it started."""

    code: str
    """Why the last call had no result; it stays after one that has."""
    lives: int
    """How many processes it has been; the one that runs knows what it stored itself."""

    def call(
        self,
        peer: str,
        what: str,
        method: str,
        arguments: Mapping[str, Any],
        noted: Mapping[str, Any],
        telling: Telling,
    ) -> dict[str, Any] | None:
        """Make a call and note it; return its result, or None when it has none.

        Args:
            what: how the history names it.
            method: the tool or operation.
            noted: of the invocation.
            telling: returns what is noted of a result.
        """

    def close(self) -> None: ...


def told_of(result: dict[str, Any], telling: Telling) -> dict[str, Any]:
    """Return what is noted of any result."""
    words = CANARY.findall(json.dumps(result))
    return {**telling(result), "canaries": sorted(set(words))}


class Caller:
    """Calls of one agent.  Not to be shared by threads.

    Args:
        urls: of the peers, by name.
    """

    def __init__(self, history: History, name: str, key: str, urls: Mapping[str, str]) -> None:
        self.name = name
        self.code = ""
        self.lives = 1
        self._history = history
        self._agents = {peer: HttpAgent(url, key, timeout_s=CALL_S) for peer, url in urls.items()}

    def close(self) -> None:
        for agent in self._agents.values():
            agent.close()

    def call(
        self,
        peer: str,
        what: str,
        method: str,
        arguments: Mapping[str, Any],
        noted: Mapping[str, Any],
        telling: Telling,
        way: Way | None = None,
    ) -> dict[str, Any] | None:
        """See `Calling`.

        Args:
            way: how to ask, where it is not the usual one.
        """
        op = self._history.invoke(self.name, what, peer, **noted)
        kind, answer = self._ask(peer, way or (lambda agent: agent.ask(method, arguments)))
        if answer is not None and answer.result is not None:
            self._history.end(OK, op, self.name, what, peer, **told_of(answer.result, telling))
            return answer.result
        self.code = code = answer.code if answer is not None else "connection"
        self._history.end(kind, op, self.name, what, peer, code=code)
        return None

    def _ask(self, peer: str, way: Way) -> tuple[str, Answer | None]:
        agent = self._agents[peer]
        try:
            answer = way(agent)
        except ConnectionRefusedError:
            return FAIL, None
        except (OSError, http.client.HTTPException, ValueError):  # ValueError: an answer that was cut off
            agent.close()
            return UNKNOWN, None
        definite = answer.kind in (REFUSAL, PROTOCOL) or bool((answer.data or {}).get("definite"))
        return (FAIL if definite else UNKNOWN), answer
