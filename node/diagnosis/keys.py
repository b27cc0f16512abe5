"""The key of this user: where it lies, who can read it, whether it is one, and whether the mesh knows it.

A key is never part of a sentence; its id is, which is no secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp_gateway.authentication import KEY_VARIABLE, TOKEN_FILE, parse_key
from node.background import first_agent_key
from node.diagnosis.findings import Finding, problem, warning, well
from node.diagnosis.peer_look import Door, ask
from node.diagnosis.surroundings import Surroundings
from node.locations import configured_key, plain_setting
from node.private_files import read_secret
from proto.errors import HyphaeError, Unauthenticated

ANOTHER = "hyphae key issue --agent NAME --out FILE"


def key(s: Surroundings) -> Sequence[Finding]:
    """Look at the key that this user's commands and gateways present."""
    file = None if s.environ.get(KEY_VARIABLE) else _file(s)
    if file is not None and (found := file_trouble(file)) is not None:
        return [found]
    read_key = configured_key(s.environ, s.config, s.from_file)
    if read_key is None:
        return [_nothing_configured(s)]
    where = str(file) if file is not None else KEY_VARIABLE
    try:
        text = read_key()
    except Unauthenticated as error:
        return [problem(error.message, ANOTHER)]
    return [_judge(s, text, where)]


def _judge(s: Surroundings, text: str, where: str) -> Finding:
    shown = f"The key {parse_key(text).id} in {where}"
    if s.door is None:
        return well(f"{shown} is well-formed; no peer answers that could be asked about it.")
    trouble, me = asked_about(s.door, text)
    if me is None:
        return problem(f"{shown} is not accepted: {trouble}", ANOTHER)
    project = plain_setting("project", s.environ, s.from_file)
    if project and isinstance(me.get("projects"), dict) and project not in me["projects"]:
        return warning(
            f"{shown} has no right to HYPHAE_PROJECT={project}.", "Unset HYPHAE_PROJECT, or: " + ANOTHER
        )
    return well(f"{shown} is that of {described(me)}.")


def _nothing_configured(s: Surroundings) -> Finding:
    if s.url is not None:
        return problem(f"HYPHAE_URL is set, and no key: set {KEY_VARIABLE}.", ANOTHER)
    first = _first_key(s.data)
    if first is None:
        return well("No key is configured; a local peer makes one for its first agent.")
    trouble = file_trouble(first)
    if trouble is not None:
        return trouble
    text = read_secret(first)
    if s.door is not None:
        refused, me = asked_about(s.door, text)
        if me is None:
            return problem(f"The key of the first agent in {first} is not accepted: {refused}", ANOTHER)
        return well(f"No key is configured; {first} of {described(me)} is used.")
    return well(f"No key is configured; that of the first agent, {first}, is used.")


def file_trouble(path: Path) -> Finding | None:
    """Return what is wrong with a key file, or None."""
    try:
        mode = path.stat().st_mode & 0o777
        parse_key(read_secret(path))
    except FileNotFoundError:
        return problem(f"The key file {path} does not exist.", ANOTHER)
    except (OSError, NotADirectoryError) as error:
        return problem(f"The key file {path} cannot be looked at: {error.strerror}.", f"chmod 600 {path}")
    except Unauthenticated:
        return problem(f"{path} cannot be read, or holds no key hyp_<id>_<secret>.", ANOTHER)
    if mode & 0o077:
        return problem(f"The key file {path} can be read by others (mode {mode:o}).", f"chmod 600 {path}")
    return None


def asked_about(door: Door, text: str) -> tuple[str, dict[str, Any] | None]:
    """Return why a peer does not accept a key, or whom it authenticates."""
    try:
        return "", ask(door, "whoami", text)
    except HyphaeError as error:
        trouble = error.message
    try:  # the owner of a local mesh may know more
        known = {k["id"]: k for k in ask(door, "list_keys")["keys"]}
    except HyphaeError:
        return trouble, None
    revoked = known.get(parse_key(text).id, {}).get("revoked_at")
    return (f"it was revoked at {revoked}." if revoked else trouble), None


def described(me: dict[str, Any]) -> str:
    """Return whom a key authenticates and what it may do."""
    projects = me.get("projects")
    where = "all projects" if projects is None else ", ".join(f"{p}:{r}" for p, r in projects.items())
    return f"agent {me['agent']} (scopes {', '.join(me['scopes'])}; {where})"


def _first_key(data: Path) -> Path | None:
    """Return the file with the key of the first agent where there is one that can be seen."""
    try:
        first = first_agent_key(data)
        return first if first.exists() else None
    except (OSError, HyphaeError):
        return None


def _file(s: Surroundings) -> Path | None:
    named = plain_setting("api_key_file", s.environ, s.from_file)
    if named:
        return Path(named).expanduser()
    token = s.config / TOKEN_FILE
    try:
        return token if token.exists() else None
    except OSError:
        return token
