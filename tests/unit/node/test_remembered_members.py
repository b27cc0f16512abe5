"""Members remembered beside the log: added, dropped when retired, and never in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.remembered_members import RememberedMembers
from proto.ids import PeerId

ME, ONE, TWO = (PeerId(bytes([n]) * 16) for n in range(3))


def test_others_are_remembered_and_a_log_that_lacks_some_takes_none_away(tmp_path: Path) -> None:
    file = tmp_path / "members.json"
    RememberedMembers(file, ME).update({ME, ONE, TWO}, set())
    again = RememberedMembers(file, ME)
    assert again.others == {ONE, TWO}
    again.update({ME, ONE}, set())
    assert RememberedMembers(file, ME).others == {ONE, TWO}


def test_who_has_retired_is_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "members.json"
    RememberedMembers(file, ME).update({ONE, TWO}, set())
    RememberedMembers(file, ME).update({ONE}, {TWO})
    assert RememberedMembers(file, ME).others == {ONE}


def test_a_peer_alone_writes_no_file(tmp_path: Path) -> None:
    file = tmp_path / "members.json"
    RememberedMembers(file, ME).update({ME}, set())
    assert not file.exists()


@pytest.mark.parametrize(
    "text", ["", "null", "[1]", "{}", '{"members": 5}', '{"members": [5]}', '{"members": ["1"]}']
)
def test_a_file_that_cannot_be_read_counts_as_absent(tmp_path: Path, text: str) -> None:
    file = tmp_path / "members.json"
    file.write_text(text)
    assert RememberedMembers(file, ME).others == frozenset()


def test_a_file_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    remembered = RememberedMembers(tmp_path / "missing" / "members.json", ME)
    remembered.update({ONE}, set())
    assert remembered.others == frozenset()
