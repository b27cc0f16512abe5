"""Options that many commands share, and the place that they point at."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from mcp_gateway.argument_kinds import name as name_argument
from mcp_gateway.coercion import coerce
from mcp_gateway.refusals import Refused
from node.locations import config_dir, data_dir, read_settings_file

_SPAN = re.compile(r"([0-9]{1,9})([smhd]?)")
_PROJECT = name_argument("project")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

data_dir_option: Decorator = click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory of `hyphae up` or of one peer. Default: HYPHAE_DATA_DIR, else the user's data directory.",
)
json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print JSON on one line.")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command looks for a peer.

    Args:
        config: the configuration directory.
        data: the data directory.
        url: a peer's address instead; None when a data directory was named or no address is configured.
    """

    config: Path
    data: Path
    url: str | None


def place(given: Path | None) -> Place:
    """Return where to look: the data directory that was named, else `HYPHAE_URL`, else the usual directory.

    Raises:
        Invalid: a setting is wrong.
    """
    from node.settings import current_settings

    config = config_dir(os.environ)
    settings = current_settings(config)
    data = data_dir(os.environ, config, read_settings_file(os.environ, config), given)
    return Place(config, data, None if given is not None else settings.url)


class Span(click.ParamType[int]):
    """A length of time: 90, 90s, 30m, 12h or 7d; seconds."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return seconds."""
        if isinstance(value, int):
            return value
        found = _SPAN.fullmatch(str(value))
        if found is None:
            self.fail(f'"{value}" is no length of time; give 90s, 30m, 12h or 7d.', param, ctx)
        return int(found.group(1)) * _SECONDS[found.group(2)]


class ProjectName(click.ParamType[str]):
    """The name of a project, as a peer will take it: one line of text."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name unchanged."""
        try:
            return str(coerce(_PROJECT, value))
        except Refused as refused:
            self.fail(refused.problem, param, ctx)


def without_absent(**values: Any) -> dict[str, Any]:
    """Return the arguments of a call: what was not given is left out."""
    return {name: value for name, value in values.items() if value not in (None, (), [])}
