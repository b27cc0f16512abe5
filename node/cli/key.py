"""`hyphae key`: who may use the mesh, and with which rights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mcp_gateway.operations import SCOPES
from node.cli import output
from node.cli.calls import Caller, call, talk
from node.cli.options import data_dir_option, json_option, place, without_absent
from node.locations import absolute
from node.private_files import make_directory, write_private
from proto.errors import Conflict

SHOWN_ONCE = "This is the only time that the key is shown."


@click.group()
def key() -> None:
    """Keys: one per agent. A key says who acts; nothing in a call can claim to be someone else.

    Against a local mesh these commands act as the owner of the machine and need no key.
    """


class ScopeList(click.ParamType[list[str]]):
    """Scopes separated by commas."""

    name = "scopes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        """Return the scopes, each known."""
        scopes = value if isinstance(value, list) else [p.strip() for p in str(value).split(",") if p.strip()]
        for scope in scopes:
            if scope not in SCOPES:
                self.fail(f'"{scope}" is no scope; there are {", ".join(SCOPES)}.', param, ctx)
        return scopes


class ProjectRights(click.ParamType[dict[str, str]]):
    """Projects with rights: `billing:rw,web:r`."""

    name = "projects"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        """Return rights by project; a project without any has both."""
        if isinstance(value, dict):
            return value
        rights: dict[str, str] = {}
        for part in (p.strip() for p in str(value).split(",") if p.strip()):
            name, colon, right = part.rpartition(":")
            project, right = (name, right) if colon else (part, "rw")
            if right not in {"r", "rw"} or not project:
                self.fail(f'"{part}" is no project with rights; write billing:rw or web:r.', param, ctx)
            rights[project] = right
        return rights


@key.command("issue")
@click.option("--agent", required=True, help="Name of the agent; its memories and its inbox go by it.")
@click.option("--owner", help="Person or service that it is issued to; shares project `private`.")
@click.option("--tenant", help="Tenant; tenants never see each other. Default `default`.")
@click.option("--scopes", type=ScopeList(), help="Default read,write,mcp-read,mcp-write.")
@click.option(
    "--projects", type=ProjectRights(), help="Such as billing:rw,web:r. Default: all of the tenant."
)
@click.option("--default-project", help="Project of calls that name none.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the key here, mode 0600.")
@data_dir_option
@json_option
def issue(data_dir: Path | None, as_json: bool, out: Path | None, **args: Any) -> None:
    """Issue a key. It is shown once, or written to a file with --out.

    \b
    Examples:
      hyphae key issue --agent reviewer
      hyphae key issue --agent ci --owner build-farm --scopes read --projects billing:r --out ci.key
    """
    if out is not None and out.exists():
        raise Conflict(f"{out} exists already. Nothing was issued; choose another file.")
    result = call(place(data_dir), "issue_key", without_absent(**args), as_owner=True, offline=True)
    _print_key(result, as_json, out)


@key.command("list")
@data_dir_option
@json_option
def list_keys(data_dir: Path | None, as_json: bool) -> None:
    """List the keys of the tenant, never their secrets."""

    async def ask(caller: Caller) -> list[dict[str, Any]]:
        return await caller.pages("list_keys", {}, "keys")

    keys = talk(place(data_dir), ask, as_owner=True, offline=True)
    if as_json:
        output.print_json({"keys": keys})
        return
    rows = [
        [
            *(k["id"], k["agent"], k["owner"], k["tenant"], ",".join(k["scopes"])),
            *(_rights(k.get("projects")), k["created_at"], k.get("revoked_at")),
        ]
        for k in keys
    ]
    output.print_table(
        ["ID", "AGENT", "OWNER", "TENANT", "SCOPES", "PROJECTS", "CREATED", "REVOKED"], rows, wrap=4
    )


@key.command("revoke")
@click.argument("id")
@data_dir_option
@json_option
def revoke(id: str, data_dir: Path | None, as_json: bool) -> None:
    """Revoke a key by its id: its next call fails on every peer that has heard of it."""
    result = call(place(data_dir), "revoke_key", {"id": id}, as_owner=True, offline=True)
    output.print_json(result) if as_json else output.print_text(f"revoked {result['id']}")


@key.command("rotate")
@click.argument("id")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the new key here, mode 0600."
)
@data_dir_option
@json_option
def rotate(id: str, data_dir: Path | None, as_json: bool, out: Path | None) -> None:
    """Replace a key by a new one with the same rights; the old one is revoked.

    \b
    Example:
      hyphae key rotate k3v7m2qa --out ~/.config/hyphae/token
    """
    result = call(place(data_dir), "rotate_key", {"id": id}, as_owner=True, offline=True)
    _print_key(result, as_json, out)


def _print_key(result: dict[str, Any], as_json: bool, out: Path | None) -> None:
    shown = {n: v for n, v in result.items() if out is None or n != "key"}
    if out is not None:
        make_directory(absolute(out).parent)
        write_private(absolute(out), result["key"] + "\n")
    if as_json:
        output.print_json(shown if out is None else {**shown, "key_file": str(absolute(out))})
        return
    output.print_text(
        f"key {result['id']} of {result['agent']} (owner {result['owner']}, tenant {result['tenant']}, "
        f"scopes {','.join(result['scopes'])}, projects {_rights(result.get('projects'))})"
    )
    if out is not None:
        output.print_text(f"written to {absolute(out)}")
        return
    output.print_text(f"\n  {result['key']}\n\n{SHOWN_ONCE}")


def _rights(projects: Any) -> str:
    return ",".join(f"{p}:{r}" for p, r in projects.items()) if isinstance(projects, dict) else "all"
