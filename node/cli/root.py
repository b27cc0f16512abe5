"""The command line as a whole: which commands there are, grouped, each loaded only when it is used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click

from node.cli import failures

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Run a mesh": {
        "up": ("node.cli.up:up", "Run a mesh on this machine: NATS and one or more peers."),
        "down": ("node.cli.up:down", "Stop what runs in a data directory."),
        "node": ("node.cli.node:node", "Run one peer; rebuild its projections."),
        "peer": ("node.cli.peer:peer", "Invite peers to the mesh, list them."),
        "status": ("node.cli.status:status", "The mesh at a glance, and who shares it."),
        "doctor": ("node.cli.doctor:doctor", "What is wrong here, and how to mend it."),
        "tail": ("node.cli.status:tail", "Watch what happens, live."),
        "log": ("node.cli.log:log", "Verify the event log."),
    },
    "Connect agents": {
        "init": ("node.cli.clients:init", "Connect Claude Code, Cursor or Cline, with a key of its own."),
        "mcp": ("node.cli.clients:mcp", "The MCP server on stdio, and entries for clients."),
        "key": ("node.cli.key:key", "Issue, list, revoke and rotate keys."),
    },
    "Use the memory": {
        "store": ("node.cli.memory:store", "Store a memory."),
        "recall": ("node.cli.memory:recall", "Find memories."),
        "inbox": ("node.cli.memory:inbox", "Read what arrived."),
        "session": ("node.cli.session:session", "Open, close and list working sessions."),
        "scene": ("node.cli.scene:scene", "Group memories into scenes, list and show them."),
        "beacon": ("node.cli.beacon:beacon", "Place, list and withdraw standing interests."),
    },
}

HELP = """Shared memory for AI agents: what one stores reaches every agent that it concerns.

\b
Try it:
  hyphae up                                  a mesh of one peer, in the foreground
  hyphae init --client claude-code           connect the editor of this project
  hyphae store "We retry payments three times, because the bank drops one in 50" --type Decision
  hyphae recall "how often do we retry?"

Settings are HYPHAE_* variables or a TOML file: docs/settings.md. Every command that prints a result has
--json. A --data-dir may be the directory of `hyphae up` or that of one peer.
"""


class SectionedGroup(click.Group):
    """A group whose commands are named in `SECTIONS` and imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names in the order of the table."""
        return [name for commands in SECTIONS.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported now."""
        for commands in SECTIONS.values():
            if cmd_name in commands:
                module, _, attribute = commands[cmd_name][0].partition(":")
                command = getattr(importlib.import_module(module), attribute)
                assert isinstance(command, click.Command)
                return command
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section, and the exit codes, without importing any command."""
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()])
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), text) for code, text in failures.EXIT_CODES.items()])


@click.command(
    cls=SectionedGroup,
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="hyphae-mesh", prog_name="hyphae")
def root() -> None:
    """Every command below."""


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; nothing is raised."""
    try:
        code: Any = root.main(args=list(arguments), prog_name="hyphae", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as e:
        print(e.format_message(), file=sys.stderr)
        return 2
    except click.UsageError as e:
        where = e.ctx.command_path if e.ctx is not None else "hyphae"
        failures.complain("usage", f"{e.format_message()} See `{where} --help`.")
        return 2
    except click.ClickException as e:
        failures.complain("usage", e.format_message())
        return 2
    except (click.Abort, KeyboardInterrupt):
        return failures.INTERRUPTED
    except BrokenPipeError:
        sys.stdout = None  # nobody reads any more: nothing is left to be flushed at exit
        return 1
    except Exception as e:  # noqa: BLE001 - the outermost place: a person gets a line, not a traceback
        return failures.report(e)
    return code if isinstance(code, int) else 0
