"""Where a diagnosis looks: directories, settings, running peers, found without failing on anything broken.

Each part is looked at when it is first asked for, and once.  Whatever cannot be read counts as absent here;
saying so is the business of the check of that area.  Nothing is changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from node.data_directory import PeerDirectory, RunFile, peers_of
from node.locations import (
    config_dir,
    configured_key,
    data_dir,
    named_file,
    plain_setting,
    read_settings_file,
)
from proto.errors import HyphaeError

if TYPE_CHECKING:
    from node.diagnosis.peer_look import Door, SeenPeer
    from node.settings import Settings

Progress = Callable[[int, int], None]


class Surroundings:
    """One user's machine as a command line process sees it.

    Args:
        given: the data directory that was named, or None for the usual one.
        environ: variables of the process.
        here: folder whose project files of clients are looked at.
        home: the user's, for files of clients that are one for all projects.
        deep: whether every event of the log is to be read.
        progress: told how far that has come.
    """

    def __init__(
        self,
        given: Path | None = None,
        environ: Mapping[str, str] = os.environ,
        here: Path | None = None,
        home: Path | None = None,
        *,
        deep: bool = False,
        progress: Progress = lambda _done, _of: None,
    ) -> None:
        self.given, self.environ, self.deep, self.progress = given, environ, deep, progress
        self.here, self.home = here or Path.cwd(), home or Path.home()
        self.config = config_dir(environ)

    @cached_property
    def _read(self) -> tuple[Mapping[str, Any], str | None]:
        try:
            return read_settings_file(self.environ, self.config), None
        except HyphaeError as error:
            return {}, error.message
        except OSError as error:
            return {}, f"the settings file in {self.config} cannot be read: {error.strerror}."

    @property
    def from_file(self) -> Mapping[str, Any]:
        """What the settings file says; nothing when it cannot be read."""
        return self._read[0]

    @property
    def settings_flaw(self) -> str | None:
        """Why the settings file cannot be read, or None."""
        return self._read[1]

    @cached_property
    def settings(self) -> Settings | None:
        """The checked settings, or None when one is wrong."""
        from node.settings import load_settings

        try:
            return load_settings(self.environ, self.config)
        except (HyphaeError, OSError):
            return None

    @cached_property
    def data(self) -> Path:
        """The data directory."""
        return data_dir(self.environ, self.config, self.from_file, self.given)

    @property
    def url(self) -> str | None:
        """The address of a distant peer, unless a data directory was named."""
        return None if self.given is not None else plain_setting("url", self.environ, self.from_file)

    @property
    def authorities(self) -> str | None:
        """The file of the certificates that alone are trusted, as `HYPHAE_TLS_CA` names it."""
        return named_file(plain_setting("tls_ca", self.environ, self.from_file))

    @cached_property
    def peers(self) -> tuple[PeerDirectory, ...]:
        """The peers that live in the data directory, as far as it can be read."""
        try:
            return peers_of(self.data)
        except HyphaeError:
            return ()

    @cached_property
    def running(self) -> tuple[RunFile, ...]:
        """Those of them that are up and ready."""
        return tuple(run for run in (peer.running() for peer in self.peers) if run is not None)

    @cached_property
    def seen(self) -> tuple[SeenPeer, ...]:
        """What the running peers, or the distant one, answered when they were asked how they are."""
        from node.diagnosis.peer_look import look_at_distant, look_at_peers

        if self.url is None:
            return look_at_peers(self.running, self.authorities)
        return look_at_distant(
            self.url, configured_key(self.environ, self.config, self.from_file), self.authorities
        )

    @cached_property
    def door(self) -> Door | None:
        """A peer that answers, to be asked about keys; None where none does."""
        return next((peer.door for peer in self.seen if peer.status is not None), None)

    def command(self, text: str) -> str:
        """Return a command line with the data directory that this diagnosis was given."""
        return text if self.given is None else f"{text} --data-dir {self.data}"
