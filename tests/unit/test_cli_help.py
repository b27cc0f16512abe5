"""The command line as users meet it: help that teaches, errors in one line, exit codes, light start."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from node.cli import mcp_serve
from node.cli.failures import EXIT_CODES, exit_code
from node.cli.reference_docs import render_cli_page
from node.cli.root import SECTIONS, root, run
from proto.errors import TABLE, rebuild

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"
HEAVY = (
    "numpy",
    "faiss",
    "onnxruntime",
    "tokenizers",
    "pydantic",
    "click",
    "apsw",
    "starlette",
    "uvicorn",
    "nats",
)
LIGHT_PARTS_OF_NODE = {
    *("node", "node.cli", "node.cli.mcp_serve", "node.locations", "node.logging_setup", "node.version"),
    *("node.local_requester", "node.background", "node.child_process", "node.data_directory"),
    *("node.directory_checks", "node.directory_lock", "node.private_files"),
}
LOADED_BY_THE_GATEWAY = """
import json, sys
from node.cli import mcp_serve
from node.locations import config_dir
import asyncio, os, pathlib
wiring = mcp_serve.Wiring(os.environ, pathlib.Path("/none"), {}, pathlib.Path("/none"))
wiring.key()
asyncio.run(wiring.make_requester()())
import mcp_gateway.stdio
print(json.dumps(sorted(sys.modules)))
"""


@pytest.fixture(autouse=True)
def _an_empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HYPHAE_URL", "HYPHAE_API_KEY", "HYPHAE_DEBUG", "HYPHAE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HYPHAE_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("HYPHAE_DATA_DIR", str(tmp_path / "data"))


def commands() -> Iterator[tuple[str, click.Command]]:
    top = click.Context(root, info_name="hyphae")
    waiting = [(name, root.get_command(top, name)) for section in SECTIONS.values() for name in section]
    while waiting:
        path, command = waiting.pop(0)
        assert command is not None
        yield path, command
        if isinstance(command, click.Group):
            waiting += [(f"{path} {name}", below) for name, below in command.commands.items()]


ALL = dict(commands())


def test_every_command_that_is_due_is_there() -> None:
    due = ["up", "down", "node", "status", "tail", "init", "store", "recall", "inbox"]
    due += ["node rebuild", "peer invite", "peer list", "mcp serve", "mcp print-config", "log verify"]
    due += [f"key {verb}" for verb in ("issue", "list", "revoke", "rotate")]
    due += [f"beacon {verb}" for verb in ("place", "list", "withdraw")]
    due += [f"session {verb}" for verb in ("open", "close", "list")]
    due += [f"scene {verb}" for verb in ("consolidate", "list", "show")]
    due += ["doctor"]
    assert set(due) <= set(ALL)


@pytest.mark.parametrize("path", ALL)
def test_every_command_explains_itself_and_each_of_its_options(path: str) -> None:
    command = ALL[path]
    assert command.help
    assert command.help.split("\n")[0].rstrip().endswith((".", ":")) or "\n\n" in command.help
    silent = [p.name for p in command.params if isinstance(p, click.Option) and not p.help]
    assert silent == []


@pytest.mark.parametrize(
    "path", [p for p, c in ALL.items() if not isinstance(c, click.Group) and p not in {"mcp serve"}]
)
def test_every_command_that_prints_a_result_has_json(path: str) -> None:
    assert "--json" in {name for p in ALL[path].params for name in p.opts}


def test_the_commands_that_people_begin_with_show_examples() -> None:
    beginners = ("up", "down", "node", "init", "store", "recall", "inbox", "key issue", "beacon place")
    assert [p for p in beginners if "Example" not in (ALL[p].help or "")] == []


def test_the_command_line_page_is_current() -> None:
    assert DOCS.read_text(encoding="utf-8") == render_cli_page(), "run `make docs`"


def test_help_is_printed_on_stdout_with_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recall", "--help"]) == 0
    assert "hyphae recall 5b0c61f2 --json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["bogus"], 2, "error: usage: No such command 'bogus'. See `hyphae --help`."),
        (["recall"], 2, "error: usage: Missing argument 'QUERY'. See `hyphae recall --help`."),
        (["store", "x", "--type", "Opinion"], 2, "error: usage: Invalid value for '--type'"),
        (["up", "--peers", "0"], 2, "error: usage: Invalid value for '--peers'"),
        (["peer", "invite", "--ttl", "soon"], 2, '"soon" is no length of time; give 90s, 30m, 12h or 7d.'),
        (["key", "issue", "--agent", "a", "--projects", "web:w"], 2, '"web:w" is no project with rights'),
        (
            ["key", "issue", "--agent", "a", "--scopes", "root"],
            2,
            '"root" is no scope; there are read, write',
        ),
        (["init", "--client", "cursor", "--project", "a\nb"], 2, "project holds a control character at 1"),
        (["tail", "--after", "1" * 5_000], 2, "is not a valid integer"),
        (["inbox", "--all", "--peek"], 2, "--all moves on and --peek does not"),
        (["recall", "x"], 4, "error: unavailable: no peer runs in "),
        (["status"], 4, "Start one with `hyphae up --data-dir"),
        (["node", "--join", "t", "--no-nats"], 2, "--join and --no-nats exclude each other"),
        (["node", "--join", "@/none"], 2, "/none cannot be read: No such file or directory"),
        (["node", "rebuild"], 4, "holds no peer"),
    ],
)
def test_an_error_is_one_line_on_stderr_with_an_exit_code(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert run(arguments) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("error: ")


def test_a_wrong_setting_stops_any_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPHAE_HTTP_PORT", "99999")
    assert run(["status"]) == 2
    assert 'error: invalid: HYPHAE_HTTP_PORT is "99999"; allowed: 0 to 65535' in capsys.readouterr().err


def test_a_defect_is_one_line_and_a_traceback_only_when_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("seven")

    monkeypatch.setattr("node.cli.up.place", broken)
    assert run(["down"]) == 1
    assert capsys.readouterr().err == (
        "error: internal: ZeroDivisionError: seven. Run it again with HYPHAE_DEBUG=1 to see where.\n"
    )
    monkeypatch.setenv("HYPHAE_DEBUG", "1")
    assert run(["down"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_ends_quietly(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("node.cli.up.place", interrupted)
    assert run(["down"]) == 130
    assert capsys.readouterr().err.strip() == ""


def test_every_error_of_the_tree_has_an_exit_code_that_is_documented() -> None:
    assert {exit_code(rebuild(code, "", True, None)) for code in TABLE} <= set(EXIT_CODES)


def test_down_where_nothing_runs_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["down", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"stopped": []}


def test_the_fast_path_takes_the_usual_options_and_leaves_the_rest_to_the_full_command_line() -> None:
    parse = mcp_serve.parse
    assert parse([]) == mcp_serve.ServeOptions()
    assert parse(["--config-dir", "/c", "--data-dir=/d", "--toolset", "memory"]) == mcp_serve.ServeOptions(
        config_dir=Path("/c"), data_dir=Path("/d")
    )
    for unusual in (["--help"], ["--config-dir"], ["--toolset", "other"], ["extra"], ["--verbose=1"]):
        assert parse(unusual) is None


def test_the_stdio_gateway_loads_nothing_heavy_and_nothing_of_a_peer() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED_BY_THE_GATEWAY], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(done.stdout))
    assert loaded.isdisjoint(HEAVY)
    assert {m for m in loaded if m.partition(".")[0] == "node"} <= LIGHT_PARTS_OF_NODE
