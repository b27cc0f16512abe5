"""Connecting one client: its file, its entry and its own key.

The shell around `client_config` and `client_file`: reads and writes the files, and says which variables an
entry needs so that the client's server finds the same peer and the same key as this process.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node.client_config import ENTRY, GROUP, Client, is_ours, key_file_name, key_file_of, renewed
from node.client_file import merge_entry, parse_object
from node.data_directory import MeshDirectory
from node.locations import CLIENT_KEYS, config_dir, data_dir, read_settings_file
from node.private_files import read_record
from proto.errors import Conflict, Invalid, Unavailable

FILE_BYTES_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Target:
    """The client's file as it is now.

    Args:
        client: which client.
        project: the folder that is connected.
        file: where its servers are kept.
        text: what the file holds, None when there is none.
        entry: what it has under our name, None when nothing.
    """

    client: Client
    project: Path
    file: Path
    text: str | None
    entry: Any

    def key_file(self, config: Path) -> Path:
        """Return where the client's key lies: the file that its entry names, else the usual one for it."""
        named = key_file_of(self.entry) if is_ours(self.entry) else None
        if named is not None and named.exists():
            return named
        digest = hashlib.sha256(os.fsencode(self.project if self.client.per_project else self.file))
        return config / CLIENT_KEYS / key_file_name(self.client, self.project, digest.hexdigest())

    def with_entry(self, entry: Mapping[str, Any]) -> str:
        """Return the text of the file with this entry.

        Raises:
            Invalid: the file is not JSON.
        """
        try:
            return merge_entry(self.text, GROUP, ENTRY, renewed(self.entry, entry))
        except Invalid as e:
            raise Invalid(f"{self.file} is {e.message}") from None


def look_at(client: Client, project: Path, file: Path | None, *, replace: bool) -> Target:
    """Return the client's file as it is now.

    Args:
        client: which client.
        project: the folder to connect.
        file: instead of the client's usual file.
        replace: whether an entry of somebody else's under our name may be replaced.

    Raises:
        Invalid: the file is not JSON.
        Conflict: it has an entry under our name that is not ours, and `replace` is false.
    """
    path = file or client.file(project, Path.home(), os.environ)
    text = _read(path)
    entry = None
    if text is not None and text.strip("\ufeff \t\r\n"):
        try:
            servers = parse_object(text.removeprefix("\ufeff")).get(GROUP)
        except Invalid as e:
            raise Invalid(f"{path} is {e.message}") from None
        entry = servers.get(ENTRY) if isinstance(servers, dict) else None
    if entry is not None and not is_ours(entry) and not replace:
        raise Conflict(
            f'{path} already has a server "{ENTRY}" that hyphae did not write. Nothing was changed. '
            "Rename that entry, or give --force to replace it; a copy of the file is kept."
        )
    return Target(client, project, path, text, entry)


def write_with_backup(target: Target, text: str) -> Path | None:
    """Write the client's file, after a copy of what it held; return the copy, None for a new file.

    Raises:
        Unavailable: it cannot be written; the file is as it was.
    """
    path = Path(os.path.realpath(target.file))
    backup = None
    try:
        mode = 0o644 if target.client.per_project else 0o600
        if not path.parent.exists():
            path.parent.mkdir(parents=True)
            path.parent.chmod(0o755 if target.client.per_project else 0o700)
        if target.text is not None:
            mode = path.stat().st_mode & 0o777
            backup = _free_name(path)
            _write(backup, path.read_bytes(), mode)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
        try:
            _write(temporary, text.encode(), mode)
            temporary.replace(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
            raise
    except OSError as e:
        raise Unavailable(f"{target.file} cannot be written: {e.strerror}. It is as it was.") from e
    return backup


def server_environment(where: Mapping[str, str | None], key_file: Path, config: Path) -> dict[str, str]:
    """Return the variables that the client's server needs to find the same peer and key as this process.

    Args:
        where: `data`, the data directory; `url` of a distant peer or None, and then `tls_ca`, the file of its
            certificate authority, or None; `project` of its calls or None.
        key_file: the client's key.
        config: the configuration directory of this process.
    """
    env = {"HYPHAE_API_KEY_FILE": str(key_file)}
    with _without_user_variables():
        usual_config = config_dir({})
        usual_data = data_dir({}, config, read_settings_file({}, config))
    if config != usual_config:
        env["HYPHAE_CONFIG_DIR"] = str(config)
    if where["url"]:
        env["HYPHAE_URL"] = where["url"]
        if where.get("tls_ca"):
            env["HYPHAE_TLS_CA"] = str(where["tls_ca"])
    elif where["data"] != str(usual_data):
        env["HYPHAE_DATA_DIR"] = str(where["data"])
    if where.get("project"):
        env["HYPHAE_PROJECT"] = str(where["project"])
    return env


def hyphae_executable() -> list[str]:
    """Return how a client calls this program: the command beside this Python, else the module."""
    beside = Path(sys.executable).with_name("hyphae")
    return [str(beside)] if beside.exists() else [sys.executable, "-P", "-m", "node"]


def mcp_url(data: Path, url: str | None, usual: str) -> str:
    """Return the MCP endpoint: of the distant peer, of `hyphae up` if it runs, else at the usual address."""
    if url:
        return url.rstrip("/") + "/mcp"
    peers = (read_record(MeshDirectory(data).up_file) or {}).get("peers")
    if peers and MeshDirectory(data).holder() is not None:
        return str(peers[0]["mcp_url"])
    return f"{usual}/mcp"


def _read(path: Path) -> str | None:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise Invalid(f"{path} has over {FILE_BYTES_MAX} bytes. Nothing was changed.")
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not UTF-8 text, so it is not JSON. Nothing was changed.") from None
    except OSError as e:
        raise Unavailable(f"{path} cannot be read: {e.strerror}. Nothing was changed.") from e


def _write(path: Path, data: bytes, mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())
    path.chmod(mode)


def _free_name(path: Path) -> Path:
    plain = path.with_name(path.name + ".bak")
    numbered = (path.with_name(f"{path.name}.bak-{n}") for n in range(2, 10_000))
    return next(p for p in (plain, *numbered) if not p.exists())


class _without_user_variables:
    """Clients do not hand over XDG variables: look at the directories as their servers will."""

    def __enter__(self) -> None:
        self._saved = {n: os.environ.pop(n) for n in list(os.environ) if n.startswith("XDG_")}

    def __exit__(self, *_: object) -> None:
        os.environ.update(self._saved)
