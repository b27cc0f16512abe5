"""Peers that join a running mesh of processes by an invitation and leave it again: each is a member once.

Their NATS users are prepared from the beginning, as an operator does before inviting; the invitation is made by a
peer that runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.chaos.caller import CALL_S
from tests.support.http_agent import HttpAgent
from tests.support.running_mesh import RunningPeer


class Newcomers:
    """Owns their processes.

    Args:
        names: of those who may join, in their order.
        make: returns a peer by name, with the file that holds its invitation.
    """

    def __init__(self, names: Sequence[str], make: Callable[[str, Path], RunningPeer], root: Path) -> None:
        self._waiting, self._make, self._root = list(names), make, root
        self.members: dict[str, RunningPeer] = {}

    def admit(self, inviters: Sequence[str], operator: str) -> str:
        """Start the next one with an invitation of the first of these addresses that gives one; return its name.

        Raises:
            AssertionError: it was not admitted, or nobody is left; nothing of it runs.
        """
        assert self._waiting, "everybody that was prepared has been a member"
        token = _invitation(inviters, operator)
        name = self._waiting.pop(0)
        file = self._root / f"{name}.invitation"
        file.write_text(token + "\n")
        peer = self._make(name, file)
        try:
            self.members[name] = peer.start()
        except BaseException:
            peer.kill()
            raise
        return name

    def dismiss(self, name: str) -> None:
        """End one for good."""
        self.members.pop(name).stop()

    def close(self) -> None:
        """Kill whoever runs."""
        for peer in self.members.values():
            peer.kill()


def _invitation(inviters: Sequence[str], operator: str) -> str:
    for url in inviters:
        caller = HttpAgent(url, operator, timeout_s=CALL_S)
        with contextlib.suppress(AssertionError, OSError, ValueError):
            return str(caller("invite_peer")["token"])
        caller.close()
    raise AssertionError("no peer gave an invitation")
