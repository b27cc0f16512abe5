"""Small parts of the command line: spans of time, places, output that cannot command a terminal, last pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from mcp_gateway.unseen import visible
from node.cli import failures, output, scene
from node.cli.calls import Caller
from node.cli.key import ProjectRights, ScopeList
from node.cli.last_page import READERS_MAX, LastPage
from node.cli.options import ProjectName, Span, place, without_absent
from node.cli.root import run
from node.up import count_note
from proto.errors import Invalid
from proto.messages import Reply
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
    assert capsys.readouterr().out == "a\\x1b[2Jb\n\tc\\x07\n"


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        ("a C0 control", "a\rb\x00", "a\\rb\\x00"),
        ("a C1 control", "a\x9b2J", "a\\x9b2J"),
        ("an override of writing direction", "ab\u202efdp.exe", "ab\\u202efdp.exe"),
        ("an isolate", "\u2066x\u2069", "\\u2066x\\u2069"),
        ("a character without width", "pay\u200bpal\ufeff", "pay\\u200bpal\\ufeff"),
        ("a hidden tag", "a\U000e0041", "a\\U000e0041"),
        ("a separator of lines", "a\u2028b", "a\\u2028b"),
        ("writing of any kind", "naïve\tצבע 色 👩\n", "naïve\tצבע 色 👩\n"),
    ],
)
def test_what_could_deceive_a_reader_is_shown_as_an_escape(kind: str, text: str, shown: str) -> None:
    assert visible(text) == shown, kind


def test_json_is_the_same_value_whether_or_not_it_is_printed_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    value = {"content": "\u202egnp\x9b\U000e0041\x1b é"}
    output.print_json(value)
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    output.print_json(value)
    plain, on_a_terminal = capsys.readouterr().out.splitlines()
    assert json.loads(plain) == json.loads(on_a_terminal) == value
    assert "\u202e" in plain
    assert visible(on_a_terminal) == on_a_terminal


@pytest.mark.parametrize("typed", ["1" * 5_000, "x\u202e" * 3_000])
def test_an_error_is_short_and_visible_whatever_was_typed(
    capsys: pytest.CaptureFixture[str], typed: str
) -> None:
    failures.complain("usage", f"Invalid value '{typed}': too much.")
    said = capsys.readouterr().err
    assert len(said) < 8 * failures.SHOWN_CHARS
    assert said.endswith(": too much.\n")
    assert "\u202e" not in said


@pytest.mark.parametrize(("number", "text"), [(0, "0 peers"), (1, "1 peer"), (1_200, "1,200 peers")])
def test_a_number_goes_with_the_right_form_of_its_noun(number: int, text: str) -> None:
    assert output.counted(number, "peer") == text
    assert output.counted(1, "memory", "memories") == "1 memory"


def test_another_number_of_peers_than_one_may_expect_is_explained() -> None:
    assert count_note(None, 3, 3) is None
    assert count_note(2, 2, 2) is None
    already, fewer = count_note(2, 3, 3), count_note(2, 2, 3)
    assert already is not None
    assert fewer is not None
    assert "running already, with 3 peers" in already
    assert "holds 3 peers, and 2 of them were started" in fewer


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "a\x9bb", " ", "x" * 129])
def test_a_project_that_no_peer_would_take_is_refused(name: str) -> None:
    with pytest.raises(click.BadParameter):
        ProjectName().convert(name, None, None)


def test_a_list_is_read_page_by_page_to_its_end() -> None:
    requester = RecordingRequester()
    requester.plan(
        "list_scenes",
        Reply(result={"scenes": [{"n": 1}], "next_cursor": "c1"}),
        Reply(result={"scenes": [], "next_cursor": "c2"}),
        Reply(result={"scenes": [{"n": 2}]}),
    )
    pages = Caller(requester, None, None).pages("list_scenes", {"project": "p"}, "scenes")
    assert asyncio.run(pages) == [{"n": 1}, {"n": 2}]
    assert [dict(r.args) for r in requester.asked("list_scenes")] == [
        {"project": "p"},
        {"project": "p", "cursor": "c1"},
        {"project": "p", "cursor": "c2"},
    ]


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


def test_consolidating_is_waited_for_and_ends_with_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = {"project": "p", "state": "running", "progress": {"done": 1, "total": 9}}
    counts = {"cells": 9, "scenes": 1, "created": 1, "changed": 0, "unchanged": 0}
    done = {"project": "p", "state": "done", "progress": {"done": 9, "total": 9}, **counts}
    requester = RecordingRequester()
    requester.plan("consolidate_scenes", Reply(result=running), Reply(result=running), Reply(result=done))
    monkeypatch.setattr(scene, "talk", lambda _where, ask: asyncio.run(ask(Caller(requester, None, None))))
    assert run(["scene", "consolidate", "--project", "p", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == done
    assert (printed.out.count("\n"), printed.err) == (1, "")
    asked = [dict(r.args) for r in requester.asked("consolidate_scenes")]
    assert asked == [{"project": "p", "wait_ms": scene.WAIT_MS}] * 3
