"""The other members of the mesh, remembered beside the log.

A peer hears members only, and the log says who they are.  One that has lost its log would take nobody for a
member, and the one that founded the mesh would found it again; from this file it knows whom to ask.
"""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

import structlog

from node.private_files import read_record, write_record
from proto.errors import HyphaeError, Unavailable
from proto.ids import PeerId, format_base32, parse_base32

_log = structlog.get_logger(__name__)


class RememberedMembers:
    """Owns one file; it is there as soon as there is another member.

    Args:
        path: of the file; one that cannot be read counts as absent.
        me: this peer, which is never written down.
    """

    def __init__(self, path: Path, me: PeerId) -> None:
        self._path, self._me = path, me
        self.others = _read(path) - {me}

    def update(self, members: Set[PeerId], retired: Set[PeerId]) -> None:
        """Add what the log knows and drop who has retired; a file that cannot be written is tried again later.

        Args:
            members: of the log, which may lack some for as long as it is being filled anew.
            retired: of the log.
        """
        others = (self.others | members) - retired - {self._me}
        if others == self.others:
            return
        try:
            write_record(self._path, {"members": sorted(format_base32(peer) for peer in others)})
        except Unavailable as error:
            _log.warning("members_not_remembered", reason=error.message)
            return
        self.others = others


def _read(path: Path) -> frozenset[PeerId]:
    try:
        return frozenset(PeerId(parse_base32(text, "peer")) for text in (read_record(path) or {})["members"])
    except (KeyError, TypeError, AttributeError, ValueError, HyphaeError):
        return frozenset()
