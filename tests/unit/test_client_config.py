"""Clients' files: one entry goes in, everything else stays as it was, and no key ever does."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.client_config import (
    CLIENTS,
    agent_name,
    http_entry,
    is_ours,
    key_file_of,
    renewed,
    stdio_entry,
)
from node.client_file import merge_entry
from node.client_setup import look_at, server_environment, write_with_backup
from proto.errors import Conflict, Invalid
from proto.limits import AGENT_CHARS

CLAUDE, CURSOR, CLINE = (CLIENTS[name] for name in ("claude-code", "cursor", "cline"))
ENTRY = {"command": "/opt/hyphae", "args": ["mcp", "serve"], "env": {"HYPHAE_API_KEY_FILE": "/k"}}

plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def merged(text: str | None, entry: dict[str, Any] = ENTRY) -> str:
    return merge_entry(text, "mcpServers", "memory", entry)


class TestMerging:
    @pytest.mark.parametrize("text", [None, "", " \n"])
    def test_a_new_file_holds_just_the_entry(self, text: str | None) -> None:
        assert json.loads(merged(text)) == {"mcpServers": {"memory": ENTRY}}
        assert merged(text).endswith("}\n")

    def test_everything_around_the_entry_stays_byte_for_byte(self) -> None:
        before = '{ "z": 1.50,\n\t"é": "\\u00e9",\n\t"mcpServers": {\n\t\t"x": {"command":  "y"}\n\t},\n "n": 1e5}\n'
        after = merged(before)
        addition = after[
            len(before[: before.index('"y"}') + 4]) : len(after) - len(before) + before.index('"y"}') + 4
        ]
        assert after.replace(addition, "", 1) == before
        assert json.loads(after)["mcpServers"]["memory"] == ENTRY

    def test_the_entry_is_indented_as_the_file_is(self) -> None:
        after = merged('{\r\n    "mcpServers": {}\r\n}')
        assert after.startswith('{\r\n    "mcpServers": {\r\n        "memory": {\r\n            "command": ')
        assert "\n" not in after.replace("\r\n", "")

    def test_a_file_on_one_line_stays_on_one_line(self) -> None:
        assert "\n" not in merged('{"mcpServers":{"x":{}}}')

    def test_a_byte_order_mark_stays(self) -> None:
        assert merged('\ufeff{"a": 1}').startswith("\ufeff{")

    def test_of_two_groups_with_one_name_the_one_that_readers_see_is_changed(self) -> None:
        after = merged('{"mcpServers": {"memory": {"command": "old"}}, "mcpServers": {"memory": {"a": 1}}}')
        assert json.loads(after) == {"mcpServers": {"memory": ENTRY}}
        assert '"old"' in after

    @pytest.mark.parametrize(
        "text", ["{", "null", "[]", '"x"', "{'a': 1}", "// c\n{}", '{"a": 1,}', '{"mcpServers": []}', "{}}"]
    )
    def test_what_is_no_json_object_is_refused(self, text: str) -> None:
        with pytest.raises(Invalid, match="Nothing was changed"):
            merged(text)

    @given(
        st.dictionaries(st.text(), plain_values, max_size=4),
        st.dictionaries(st.text(), plain_values, max_size=3),
        st.sampled_from([None, 2, "\t"]),
    )
    def test_merging_changes_nothing_else_and_merging_again_changes_nothing(
        self, root: dict[str, Any], servers: dict[str, Any], indent: int | str | None
    ) -> None:
        before = {**root, "mcpServers": servers}
        once = merged(json.dumps(before, indent=indent))
        assert json.loads(once) == {**before, "mcpServers": {**servers, "memory": ENTRY}}
        assert merged(once) == once


class TestEntries:
    def test_the_stdio_entry_of_claude_code(self) -> None:
        assert stdio_entry(CLAUDE, ["/opt/hyphae"], {"HYPHAE_API_KEY_FILE": "/k"}) == {
            "type": "stdio",
            **ENTRY,
        }

    def test_the_stdio_entry_of_cursor(self) -> None:
        assert stdio_entry(CURSOR, ["/opt/hyphae"], {"HYPHAE_API_KEY_FILE": "/k"}) == ENTRY

    @pytest.mark.parametrize(
        ("client", "entry"),
        [
            (CLAUDE, {"type": "http", "headers": {"x-hyphae-key": "${HYPHAE_API_KEY}"}}),
            (CURSOR, {"headers": {"x-hyphae-key": "${env:HYPHAE_API_KEY}"}}),
            (CLINE, {"type": "streamableHttp", "headers": {"x-hyphae-key": "${env:HYPHAE_API_KEY}"}}),
        ],
    )
    def test_the_http_entry_takes_the_key_from_the_clients_environment(
        self, client: Any, entry: dict[str, Any]
    ) -> None:
        url = "http://127.0.0.1:4974/mcp"
        assert http_entry(client, url) == {"url": url, **entry}

    def test_entries_of_ours_are_recognised_and_those_of_others_are_not(self) -> None:
        assert is_ours(stdio_entry(CLINE, ["/py", "-P", "-m", "node"], {}))
        assert is_ours(http_entry(CURSOR, "http://h/mcp"))
        assert not is_ours({"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]})
        assert not is_ours({"url": "http://h/mcp"})
        assert not is_ours(None)

    def test_what_the_user_added_to_our_entry_stays(self) -> None:
        old = {"url": "u", "headers": {}, "disabled": True, "autoApprove": ["recall"]}
        assert renewed(old, ENTRY) == {**ENTRY, "disabled": True, "autoApprove": ["recall"]}
        old = {**ENTRY, "env": {"LANG": "C", "HYPHAE_URL": "u", "HYPHAE_PROJECT": "shop"}}
        assert renewed(old, ENTRY)["env"] == {
            "LANG": "C",
            "HYPHAE_PROJECT": "shop",
            "HYPHAE_API_KEY_FILE": "/k",
        }

    def test_the_key_file_of_an_entry_is_found(self) -> None:
        assert key_file_of(ENTRY) == Path("/k")
        assert key_file_of({"env": {}}) is None
        assert key_file_of("nonsense") is None


class TestNames:
    def test_an_agent_is_named_after_its_client_and_project_or_machine(self) -> None:
        assert agent_name(CLAUDE, Path("/src/shop"), "box", frozenset()) == "claude-code@shop"
        assert agent_name(CLINE, Path("/src/shop"), "box", frozenset()) == "cline@box"

    def test_a_name_that_is_taken_is_counted_up(self) -> None:
        taken = frozenset({"cursor@shop", "cursor@shop-2"})
        assert agent_name(CURSOR, Path("/src/shop"), "box", taken) == "cursor@shop-3"

    @pytest.mark.parametrize("name", ["", "x" * 500, "наш проект", "a b\nc"])
    def test_any_folder_gives_a_proper_name(self, name: str) -> None:
        agent = agent_name(CURSOR, Path("/") / name, "box", frozenset())
        assert agent.startswith("cursor@")
        assert len(agent) <= AGENT_CHARS
        assert agent.isprintable()


class TestFiles:
    def test_the_files_are_where_the_clients_look(self) -> None:
        home, project = Path("/home/u"), Path("/src/shop")
        assert CLAUDE.file(project, home, {}) == project / ".mcp.json"
        assert CURSOR.file(project, home, {}) == project / ".cursor" / "mcp.json"
        assert CLINE.file(project, home, {}).parts[-3:] == (
            *("saoudrizwan.claude-dev", "settings", "cline_mcp_settings.json"),
        )
        assert CLINE.file(project, home, {"CLINE_MCP_SETTINGS_PATH": "/c.json"}) == Path("/c.json")

    def test_an_entry_of_somebody_else_under_our_name_is_not_replaced(self, tmp_path: Path) -> None:
        text = '{"mcpServers": {"memory": {"command": "npx"}}}'
        (tmp_path / ".mcp.json").write_text(text)
        with pytest.raises(Conflict, match="Nothing was changed"):
            look_at(CLAUDE, tmp_path, None, replace=False)
        target = look_at(CLAUDE, tmp_path, None, replace=True)
        write_with_backup(target, target.with_entry(ENTRY))
        assert (tmp_path / ".mcp.json.bak").read_text() == text
        assert (
            json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"]["memory"]["command"]
            == "/opt/hyphae"
        )

    def test_a_file_that_is_not_json_is_refused_by_name_and_stays(self, tmp_path: Path) -> None:
        (tmp_path / ".mcp.json").write_text("{ // mine\n}")
        with pytest.raises(Invalid, match=r"\.mcp\.json is not JSON: .* at line 1, column 3"):
            look_at(CLAUDE, tmp_path, None, replace=False)
        assert [p.name for p in tmp_path.iterdir()] == [".mcp.json"]

    def test_a_file_that_is_not_text_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / ".mcp.json").write_bytes(b"\xff\xfe{}")
        with pytest.raises(Invalid, match="not UTF-8"):
            look_at(CLAUDE, tmp_path, None, replace=False)

    def test_a_new_file_is_made_with_its_folder_and_without_a_copy(self, tmp_path: Path) -> None:
        target = look_at(CURSOR, tmp_path, None, replace=False)
        assert write_with_backup(target, target.with_entry(ENTRY)) is None
        assert [p.name for p in (tmp_path / ".cursor").iterdir()] == ["mcp.json"]

    def test_a_link_stays_a_link_and_the_mode_stays(self, tmp_path: Path) -> None:
        real = tmp_path / "real.json"
        real.write_text("{}")
        real.chmod(0o640)
        (tmp_path / ".mcp.json").symlink_to(real)
        target = look_at(CLAUDE, tmp_path, None, replace=False)
        write_with_backup(target, target.with_entry(ENTRY))
        assert (tmp_path / ".mcp.json").is_symlink()
        assert real.stat().st_mode & 0o777 == 0o640
        assert "memory" in real.read_text()

    def test_every_copy_is_kept(self, tmp_path: Path) -> None:
        for text in ("{}", '{"a": 1}', '{"a": 2}'):
            (tmp_path / ".mcp.json").write_text(text)
            write_with_backup(look_at(CLAUDE, tmp_path, None, replace=False), "{}")
        copies = [tmp_path / f".mcp.json{s}" for s in (".bak", ".bak-2", ".bak-3")]
        assert [p.read_text() for p in copies] == ["{}", '{"a": 1}', '{"a": 2}']

    def test_the_key_file_is_one_for_each_project_and_kept_when_the_entry_names_it(
        self, tmp_path: Path
    ) -> None:
        one, other = tmp_path / "a" / "shop", tmp_path / "b" / "shop"
        files = {look_at(CLAUDE, p, None, replace=False).key_file(tmp_path / "config") for p in (one, other)}
        assert len(files) == 2
        named = tmp_path / "old.key"
        named.write_text("k")
        (tmp_path / ".mcp.json").write_text(
            merged(None, {**ENTRY, "env": {"HYPHAE_API_KEY_FILE": str(named)}})
        )
        assert look_at(CLAUDE, tmp_path, None, replace=False).key_file(tmp_path / "config") == named


class TestTheServersEnvironment:
    def test_with_everything_at_its_usual_place_it_names_only_the_key_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        for name in [n for n in os.environ if n.startswith("XDG_")]:
            monkeypatch.delenv(name)
        from node.locations import config_dir, default_data_dir

        where = {"data": str(default_data_dir()), "url": None, "project": None}
        assert server_environment(where, Path("/k"), config_dir({})) == {"HYPHAE_API_KEY_FILE": "/k"}

    def test_what_lies_elsewhere_is_named_because_clients_hand_over_few_variables(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
        from node.locations import config_dir, default_data_dir

        where = {"data": str(default_data_dir()), "url": None, "project": "shop"}
        assert server_environment(where, Path("/k"), config_dir({})) == {
            "HYPHAE_API_KEY_FILE": "/k",
            "HYPHAE_DATA_DIR": str(tmp_path / "xdg" / "hyphae"),
            "HYPHAE_PROJECT": "shop",
        }
        assert os.environ["XDG_DATA_HOME"] == str(tmp_path / "xdg")

    def test_a_distant_peer_is_named_instead_of_a_directory(self, tmp_path: Path) -> None:
        where = {"data": "/anywhere", "url": "https://mesh.example", "project": None}
        env = server_environment(where, Path("/k"), tmp_path)
        assert env["HYPHAE_URL"] == "https://mesh.example"
        assert env["HYPHAE_CONFIG_DIR"] == str(tmp_path)
        assert "HYPHAE_DATA_DIR" not in env
