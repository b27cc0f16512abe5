"""The entries of clients that start or call hyphae: does what they name exist, and is it accepted.

Reads the files of this project and this user, says nothing of other servers in them, and writes none.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node.client_config import CLIENTS, GROUP, is_ours, key_file_of
from node.diagnosis.findings import Finding, problem, warning, well
from node.diagnosis.keys import asked_about, file_trouble
from node.diagnosis.peer_look import http_trouble
from node.diagnosis.surroundings import Surroundings
from node.private_files import read_secret

FILE_BYTES_MAX = 16 * 1024 * 1024  # Claude Code keeps more than servers in its file of the user
_KEY = re.compile(r"hyp_[a-z2-7]{8,16}_[a-z2-7]{52}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One server of a client's file that is ours: which client, in which file, under which name."""

    client: str
    file: Path
    name: str
    value: Mapping[str, Any]

    @property
    def shown(self) -> str:
        return f'"{self.name}" in {self.file}'

    @property
    def again(self) -> str:
        """The command that writes the entry anew."""
        return f"hyphae init --client {self.client} --file {self.file}"


def clients(s: Surroundings) -> Sequence[Finding]:
    """Look at what Claude Code, Cursor and Cline know of hyphae, in this folder and for this user."""
    found: list[Finding] = []
    entries: list[Entry] = []
    for client, file in files(s):
        try:
            entries += entries_of(client, file)
        except FileNotFoundError:
            continue
        except OSError as error:
            found.append(warning(f"{file} cannot be read: {error.strerror}.", f"chmod u+r {file}"))
        except ValueError as error:
            found.append(
                problem(f"{file} is not JSON, so {client} reads no servers: {error}.", f"Mend {file}.")
            )
    for entry in entries:
        found += judge(s, entry)
    told = [f for f in found if f.verdict != "ok"]
    names = ", ".join(entry.shown for entry in entries)
    if told or entries:
        return told or [well(f"{names}: what is named there exists.")]
    return [well("No client of this folder or user names hyphae; `hyphae init` connects one.")]


def files(s: Surroundings) -> Iterator[tuple[str, Path]]:
    """Yield client and file of every place where entries may be."""
    for client in CLIENTS.values():
        yield client.name, client.file(s.here, s.home, s.environ)
    yield "claude-code", s.home / ".claude.json"
    if s.here != s.home:
        yield "cursor", s.home / ".cursor" / "mcp.json"


def entries_of(client: str, file: Path) -> list[Entry]:
    """Return our entries in a client's file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not JSON.
    """
    if file.stat().st_size > FILE_BYTES_MAX:
        return []
    text = file.read_bytes().decode("utf-8").removeprefix("\ufeff")
    root = json.loads(text) if text.strip() else {}
    servers = root.get(GROUP) if isinstance(root, dict) else None
    items = servers.items() if isinstance(servers, dict) else ()
    return [Entry(client, file, name, value) for name, value in items if is_ours(value)]


def judge(s: Surroundings, entry: Entry) -> Iterator[Finding]:
    """Yield what is wrong with one entry; nothing where all is well."""
    if _KEY.search(json.dumps(entry.value)):
        yield warning(f"{entry.shown} holds a key itself: whoever reads the file has it.", entry.again)
    url = entry.value.get("url")
    if isinstance(url, str):
        trouble = http_trouble(url.removesuffix("/mcp"), s.authorities)
        if trouble is not None:
            yield problem(f"{entry.shown}: {trouble}.", "hyphae up")
        return
    command = entry.value.get("command")
    if not isinstance(command, str) or shutil.which(command) is None:
        shown = command if isinstance(command, str) else "no command"
        yield problem(f"{entry.shown} starts {shown}, which cannot be run.", entry.again)
    yield from _judge_key(s, entry)


def _judge_key(s: Surroundings, entry: Entry) -> Iterator[Finding]:
    file = key_file_of(entry.value)
    if file is None:
        return
    trouble = file_trouble(file)
    if trouble is not None:
        mend = trouble.mend if (trouble.mend or "").startswith("chmod") else entry.again
        yield Finding(trouble.verdict, f"{entry.shown}: {trouble.message}", mend)
    elif s.door is not None and _same_mesh(s, entry):
        why, me = asked_about(s.door, read_secret(file))
        if me is None:
            yield problem(f"{entry.shown}: the key in {file} is not accepted: {why}", entry.again)


def _same_mesh(s: Surroundings, entry: Entry) -> bool:
    """Return whether an entry leads to the peer that is asked here, as far as its variables tell."""
    env = entry.value.get("env")
    env = env if isinstance(env, dict) else {}
    named = env.get("HYPHAE_DATA_DIR")
    if env.get("HYPHAE_URL") or env.get("HYPHAE_NATS_URL"):
        return env.get("HYPHAE_URL") == s.url
    return s.url is None and (named is None or os.path.abspath(str(named)) == str(s.data))
