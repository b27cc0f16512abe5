"""The clients that `hyphae init` knows: where each keeps its servers, and what an entry looks like there.

Pure: it computes paths and JSON values.  Whose key and which peer an entry names is given; an entry never
holds a key.  Sources: the clients' documentation on MCP servers, as quoted in docs/connect.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proto.limits import AGENT_CHARS

GROUP = "mcpServers"
ENTRY = "memory"
KEY_HEADER = "x-hyphae-key"
_TRANSPORT_MEMBERS = frozenset({"type", "command", "args", "env", "url", "headers", "transportType"})
_UNSAFE = re.compile(r"[^A-Za-z0-9._@-]+")


@dataclass(frozen=True, slots=True)
class Client:
    """One kind of client.

    Args:
        name: as `--client` takes it.
        title: as people call it.
        per_project: whether its file lies in the project; else it is one for the user.
        stdio_type: value of `type` in an stdio entry; None to leave it out.
        http_type: likewise for HTTP.
        variable: how its file names an environment variable, with {} for the name.
    """

    name: str
    title: str
    per_project: bool
    stdio_type: str | None
    http_type: str | None
    variable: str

    def file(self, project: Path, home: Path, environ: Mapping[str, str]) -> Path:
        """Return the file that holds the client's servers."""
        if self.name == "claude-code":
            return project / ".mcp.json"
        if self.name == "cursor":
            return project / ".cursor" / "mcp.json"
        if environ.get("CLINE_MCP_SETTINGS_PATH"):
            return Path(environ["CLINE_MCP_SETTINGS_PATH"])
        code = home / ("Library/Application Support/Code" if sys.platform == "darwin" else ".config/Code")
        extension = "User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
        return code / extension


CLIENTS: dict[str, Client] = {
    c.name: c
    for c in (
        Client("claude-code", "Claude Code", True, "stdio", "http", "${{{}}}"),
        Client("cursor", "Cursor", True, None, None, "${{env:{}}}"),
        Client("cline", "Cline", False, "stdio", "streamableHttp", "${{env:{}}}"),
    )
}


def stdio_entry(client: Client, command: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    """Return the entry that starts `hyphae mcp serve`.

    Args:
        client: for which.
        command: how to call `hyphae`: an absolute path first.
        env: variables that the server needs; clients hand over few of their own.
    """
    kind = {} if client.stdio_type is None else {"type": client.stdio_type}
    return {**kind, "command": command[0], "args": [*command[1:], "mcp", "serve"], "env": dict(env)}


def http_entry(client: Client, url: str) -> dict[str, Any]:
    """Return the entry that calls a peer over HTTP, with the key from the client's environment.

    Args:
        client: for which.
        url: of the MCP endpoint of a peer.
    """
    kind = {} if client.http_type is None else {"type": client.http_type}
    return {**kind, "url": url, "headers": {KEY_HEADER: client.variable.format("HYPHAE_API_KEY")}}


def is_ours(entry: object) -> bool:
    """Return whether an entry of a client's file was written by `hyphae init`, or reads as if."""
    if not isinstance(entry, dict):
        return False
    args, headers = entry.get("args"), entry.get("headers")
    served = isinstance(args, list) and args[-2:] == ["mcp", "serve"]
    return served or (isinstance(headers, dict) and KEY_HEADER in headers)


def renewed(old: object, new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry to write over one of ours: what the user added beside the transport stays."""
    if not isinstance(old, dict):
        return dict(new)
    kept = {n: v for n, v in old.items() if n not in _TRANSPORT_MEMBERS}
    result = {**new, **kept}
    if isinstance(old.get("env"), dict) and "env" in new:
        own = {n: v for n, v in old["env"].items() if not n.startswith("HYPHAE_") or n == "HYPHAE_PROJECT"}
        result["env"] = {**own, **new["env"]}
    return result


def key_file_of(entry: object) -> Path | None:
    """Return the key file that an entry names, if it names one."""
    env = entry.get("env") if isinstance(entry, dict) else None
    named = env.get("HYPHAE_API_KEY_FILE") if isinstance(env, dict) else None
    return Path(named) if isinstance(named, str) and named else None


def agent_name(client: Client, project: Path, host: str, taken: frozenset[str]) -> str:
    """Return a name for the client's agent that nobody has: client @ project folder, or @ host.

    Args:
        client: which client.
        project: its folder names the agent of a client with a file per project.
        host: of this machine, for a client with one file per user.
        taken: names of agents that have a key.
    """
    place = project.name if client.per_project else host
    plain = f"{client.name}@{_UNSAFE.sub('-', place).strip('-') or 'home'}"[: AGENT_CHARS - 5]
    candidates = (plain, *(f"{plain}-{n}" for n in range(2, 1000)))
    return next(name for name in candidates if name not in taken)


def key_file_name(client: Client, project: Path, digest: str) -> str:
    """Return the name of the client's key file: readable, and one for each project folder.

    Args:
        client: which client.
        project: the folder.
        digest: hexadecimal, of what must not share a key.
    """
    place = f"-{_UNSAFE.sub('-', project.name).strip('-')[:40]}" if client.per_project else ""
    return f"{client.name}{place}-{digest[:8]}.key"
