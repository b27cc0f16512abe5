"""`hyphae mcp serve`: which peer and which key a stdio gateway uses, decided without loading anything heavy.

The peer: `HYPHAE_URL`, else `HYPHAE_NATS_URL`, else the local one of this user's data directory, which is
started in the background when none runs.  Must not import click, pydantic, numpy, or what a peer is made of.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mesh.ports import Requester
from node.locations import (
    config_dir,
    configured_key,
    data_dir,
    named_file,
    plain_setting,
    read_settings_file,
)
from node.logging_setup import log_to_stderr
from node.version import version
from proto.errors import HyphaeError

KICK_OFF_S = 0.3  # after `initialize` has been answered: starting the peer must not delay the handshake
TOOLSETS = ("memory",)


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What was given on the command line."""

    toolset: str = "memory"
    config_dir: Path | None = None
    data_dir: Path | None = None


def parse(arguments: list[str]) -> ServeOptions | None:
    """Return the options, or None for anything unusual, which the full command line then explains."""
    values: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name not in {"--toolset", "--config-dir", "--data-dir"} or not (equals or rest):
            return None
        values[name] = value if equals else rest.pop(0)
    if values.get("--toolset", "memory") not in TOOLSETS:
        return None
    config, data = values.get("--config-dir"), values.get("--data-dir")
    return ServeOptions(config_dir=Path(config) if config else None, data_dir=Path(data) if data else None)


def serve(options: ServeOptions) -> int:
    """Serve one client on stdin and stdout until it goes away; return the exit code."""
    log_to_stderr(os.environ.get("HYPHAE_LOG_LEVEL", "warning").lower())
    try:
        config = config_dir(os.environ, options.config_dir)
        wiring = Wiring(os.environ, config, read_settings_file(os.environ, config), options.data_dir)
    except HyphaeError as e:
        print(f"error: {e.code}: {e.message}", file=sys.stderr)
        return 2
    wiring.kick_off()
    from mcp_gateway.stdio import serve_stdio

    return serve_stdio(wiring.make_requester(), wiring.key(), wiring.project, version=version())


class Wiring:
    """The choices for one stdio gateway.

    Args:
        environ: the variables of this process.
        config: the configuration directory.
        from_file: what the settings file says.
        given: the data directory of the command line.
    """

    def __init__(
        self, environ: Mapping[str, str], config: Path, from_file: Mapping[str, Any], given: Path | None
    ) -> None:
        self._configured = configured_key(environ, config, from_file)
        self._path = data_dir(environ, config, from_file, given)
        local = given is not None
        self._url = None if local else plain_setting("url", environ, from_file)
        self._ca = plain_setting("tls_ca", environ, from_file)
        self._nats_url = None if local else plain_setting("nats_url", environ, from_file)
        self.project = plain_setting("project", environ, from_file)

    @property
    def is_local(self) -> bool:
        """Whether the peer is the local one."""
        return not (self._url or self._nats_url)

    def kick_off(self) -> None:
        """Start the local peer soon if none runs, on a thread that nobody waits for.

        The first call waits for the peer, or tries again and then says why it does not start.
        """
        if self.is_local:
            timer = threading.Timer(KICK_OFF_S, _start_quietly, (self._path,))
            timer.daemon = True
            timer.start()

    def key(self) -> Callable[[], str]:
        """Return what reads the key: this user's, else that of the first agent of the local peer."""
        if self._configured is not None:
            return self._configured
        if self.is_local:
            from node.local_requester import FIRST_AGENT

            return lambda: FIRST_AGENT.key
        return _no_key

    def make_requester(self) -> Callable[[], Awaitable[Requester]]:
        """Return what connects to the peer."""

        async def make() -> Requester:
            if self._url:
                from mesh.requester_http import HttpRequester

                return HttpRequester(self._url, ca=named_file(self._ca))
            if self._nats_url:
                from mesh.nats_connections import gateway_requester

                return gateway_requester(self._nats_url, self.key()())
            from mesh.requester_http import HttpRequester
            from node.local_requester import LocalPeerRequester

            return LocalPeerRequester(self._path, HttpRequester)

        return make


def _start_quietly(path: Path) -> None:
    from node.background import ensure_local_peer

    try:
        ensure_local_peer(path)
    except HyphaeError as e:
        print(f"warning: {e.code}: {e.message}", file=sys.stderr)


def _no_key() -> str:
    from mcp_gateway.authentication import find_key

    return find_key({}, config_dir(os.environ))
