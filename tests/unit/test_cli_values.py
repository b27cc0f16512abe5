"""Small parts of the command line: spans of time, places, output that cannot command a terminal, last pages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from node.cli import output
from node.cli.calls import Caller
from node.cli.key import ProjectRights, ScopeList
from node.cli.last_page import READERS_MAX, LastPage
from node.cli.options import Span, place, without_absent
from proto.errors import Invalid
from tests.support.recording_requester import RecordingRequester


@pytest.mark.parametrize("args", [{"content": "r\udce9tries"}, {"tags": ["ok", "r\udce9tries"]}])
def test_an_argument_of_bytes_that_are_not_utf_8_is_named_and_not_sent(args: Mapping[str, Any]) -> None:
    (name,), nobody = args, RecordingRequester()
    with pytest.raises(Invalid, match=f"{name} is not UTF-8: character 1 is wrong"):
        asyncio.run(Caller(nobody, None, None).call("store", args))
    assert nobody.asked("store") == []


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("30m", 1800), ("12h", 43200), ("7d", 604800)]
)
def test_a_span_of_time_is_read_as_seconds(text: str, seconds: int) -> None:
    assert Span().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1", "1.5h", "5w", "1h30m", "9999999999"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no length of time"):
        Span().convert(text, None, None)


def test_projects_without_rights_may_be_read_and_written() -> None:
    assert ProjectRights().convert("billing:rw, web:r,docs", None, None) == {
        "billing": "rw",
        "web": "r",
        "docs": "rw",
    }


@pytest.mark.parametrize("text", ["web:w", ":r", "a:rw,b:x"])
def test_rights_that_do_not_exist_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        ProjectRights().convert(text, None, None)


def test_scopes_are_a_list_of_known_ones() -> None:
    assert ScopeList().convert("read, write", None, None) == ["read", "write"]
    with pytest.raises(click.BadParameter, match='"root" is no scope'):
        ScopeList().convert("read,root", None, None)


def test_what_was_not_given_is_no_argument() -> None:
    assert without_absent(a=None, b=(), c=[], d=0, e=False, f="") == {"d": 0, "e": False, "f": ""}


def test_a_named_directory_goes_before_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPHAE_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("HYPHAE_URL", "http://peer:1")
    assert place(None).url == "http://peer:1"
    assert (place(tmp_path / "x").url, place(tmp_path / "x").data) == (None, tmp_path / "x")


def test_a_memory_cannot_command_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    output.print_text("a\x1b[2Jb\n\tc\x07")
    assert capsys.readouterr().out == "a\ufffd[2Jb\n\tc\ufffd\n"


def test_a_table_without_a_terminal_is_plain_columns(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(["A", "LONG"], [["x", None], ["yy", "two\nlines"]])
    assert capsys.readouterr().out == "A   LONG\nx\nyy  two lines\n"


def test_a_table_on_a_terminal_shows_contents_as_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    output.print_table(["CONTENT"], [["[bold]no markup[/bold]"]], wrap=0)
    assert "[bold]no markup[/bold]" in capsys.readouterr().out


class TestTheLastPage:
    def test_the_page_that_was_shown_is_remembered_for_its_reader_only(self, tmp_path: Path) -> None:
        LastPage(tmp_path, "peer", "key", "").shown("p1")
        assert LastPage(tmp_path, "peer", "key", "").cursor() == "p1"
        assert LastPage(tmp_path, "peer", "other", "").cursor() is None
        LastPage(tmp_path, "peer", "key", "").forget()
        assert LastPage(tmp_path, "peer", "key", "").cursor() is None

    def test_an_empty_cursor_changes_nothing(self, tmp_path: Path) -> None:
        LastPage(tmp_path, "r").shown("p1")
        LastPage(tmp_path, "r").shown("")
        assert LastPage(tmp_path, "r").cursor() == "p1"

    def test_the_oldest_readers_are_forgotten(self, tmp_path: Path) -> None:
        for n in range(READERS_MAX + 5):
            LastPage(tmp_path, str(n)).shown(f"p{n}")
        assert LastPage(tmp_path, "4").cursor() is None
        assert LastPage(tmp_path, "5").cursor() == "p5"

    def test_a_damaged_file_counts_as_none(self, tmp_path: Path) -> None:
        (tmp_path / "inbox.json").write_text("{oops")
        page = LastPage(tmp_path, "r")
        assert page.cursor() is None
        page.shown("p1")
        assert page.cursor() == "p1"
