"""The layout of data directories: of one peer, and of `hyphae up` with its peers below.

Knows names, modes and checks, and how to find the peers of a directory and which of them run.  It opens no
log and speaks to no peer.  Light to import: the stdio gateway uses it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from node.directory_checks import check_usable
from node.directory_lock import Holder, holder_of
from node.private_files import make_directory, read_record, remove, write_record
from proto.errors import Invalid, Unavailable

SOCKET_PATH_BYTES = 100  # the kernel allows 104 on macOS and 108 on Linux
_PEER_NAME = re.compile(r"peer-([1-9][0-9]{0,3})")


@dataclass(frozen=True, slots=True)
class RunFile:
    """What a running peer says of itself in `run.json`; there from readiness to a clean stop."""

    pid: int
    boot_id: str
    peer_id: str
    name: str
    mesh_id: str
    socket: str
    http_url: str
    started_at: str

    def record(self) -> dict[str, object]:
        """Return it as the JSON object that is written."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PeerDirectory:
    """The data directory of one peer."""

    path: Path

    @property
    def lock(self) -> Path:
        """The lock file that one process holds."""
        return self.path / "lock"

    @property
    def log(self) -> Path:
        """The SQLite file with events and projections."""
        return self.path / "log.db"

    @property
    def heads(self) -> Path:
        """The file of two checksummed slots."""
        return self.path / "heads"

    @property
    def index(self) -> Path:
        """The directory of FAISS snapshots."""
        return self.path / "index"

    @property
    def ballast(self) -> Path:
        """A file that only takes room, for a disk that is full."""
        return self.path / "ballast"

    @property
    def identity(self) -> Path:
        """`peer.json`: who this peer is and which mesh it belongs to."""
        return self.path / "peer.json"

    @property
    def members(self) -> Path:
        """`members.json`: the other members, for a peer that has lost its log."""
        return self.path / "members.json"

    @property
    def run_file(self) -> Path:
        """`run.json`: there while the peer runs."""
        return self.path / "run.json"

    @property
    def secrets(self) -> Path:
        """Where a peer that stands alone keeps its secrets."""
        return self.path / "secrets"

    def socket(self) -> Path:
        """Return the path of the peer's socket: here, or in the user's own runtime directory when too long.

        Raises:
            Unavailable: no path is short enough for a Unix socket.
        """
        here = self.path / "peer.sock"
        if len(os.fsencode(here)) <= SOCKET_PATH_BYTES:
            return here
        short = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16] + ".sock"
        for directory in _runtime_directories(os.environ):
            if len(os.fsencode(directory / short)) <= SOCKET_PATH_BYTES:
                make_directory(directory)
                return directory / short
        raise Unavailable(
            f"{here} has {len(os.fsencode(here))} bytes; a socket path holds {SOCKET_PATH_BYTES}. "
            "Choose a shorter --data-dir, or set XDG_RUNTIME_DIR."
        )

    def prepare(self) -> None:
        """Create the directory with mode 0700 after `check_usable`; an existing one is kept.

        Raises:
            HyphaeError: as `check_usable`; nothing was changed.
        """
        check_usable(self.path)
        make_directory(self.path)

    def is_peer(self) -> bool:
        """Return whether a peer has ever lived here."""
        return any(p.exists() for p in (self.identity, self.log, self.run_file))

    def mesh_id(self) -> str | None:
        """Return the mesh that the peer belongs to, or None before it has joined one."""
        value = (read_record(self.identity) or {}).get("mesh_id")
        return value if isinstance(value, str) and value else None

    def write_run_file(self, run: RunFile) -> None:
        """Say that the peer is ready, and where."""
        write_record(self.run_file, run.record())

    def remove_run_file(self) -> None:
        """Say that the peer has stopped."""
        remove(self.run_file)

    def holder(self) -> Holder | None:
        """Return the process that holds this directory now, if any."""
        return holder_of(self.lock)

    def running(self) -> RunFile | None:
        """Return the run file if the process that wrote it holds the directory now: it is up and ready."""
        run = _run_file(self.run_file)
        holder = self.holder() if run is not None else None
        if run is None or holder is None or (run.pid, run.boot_id) != (holder.pid, holder.boot_id):
            return None
        return run


@dataclass(frozen=True, slots=True)
class MeshDirectory:
    """The directory of `hyphae up`, or of the peer that editors start in the background."""

    path: Path

    @property
    def lock(self) -> Path:
        """The lock file that the supervisor holds."""
        return self.path / "lock"

    @property
    def start_lock(self) -> Path:
        """Held while somebody starts or takes over the background peer."""
        return self.path / "start.lock"

    @property
    def up_file(self) -> Path:
        """`up.json`: there while the supervisor runs."""
        return self.path / "up.json"

    @property
    def background_file(self) -> Path:
        """`background.json`: the last background peer started here."""
        return self.path / "background.json"

    @property
    def nats(self) -> Path:
        """The directory of the embedded nats-server."""
        return self.path / "nats"

    @property
    def secrets(self) -> Path:
        """The directory of the bootstrap keys, shared by the peers below."""
        return self.path / "secrets"

    @property
    def logs(self) -> Path:
        """The directory of the logs."""
        return self.path / "logs"

    @property
    def operator_key(self) -> Path:
        """The file with the operator's bootstrap key."""
        return self.secrets / "operator.key"

    @property
    def agent_key(self) -> Path:
        """The file with the first agent's bootstrap key."""
        return self.secrets / "agent.key"

    @property
    def nats_gateway_url(self) -> Path:
        """The file with the address of NATS for gateways, credentials included."""
        return self.secrets / "nats-gateway.url"

    @property
    def nats_peer_url(self) -> Path:
        """The file with the address of NATS for peers, credentials included."""
        return self.secrets / "nats-peer.url"

    @property
    def invitation(self) -> Path:
        """The file with the invitation for peers that are started for the first time; soon removed."""
        return self.secrets / "invitation"

    def peer(self, number: int) -> PeerDirectory:
        """Return the directory of peer `number`, counted from 1."""
        return PeerDirectory(self.path / f"peer-{number}")

    def peers(self) -> tuple[PeerDirectory, ...]:
        """Return the peers that live below, by number."""
        return tuple(self.peer(n) for n in sorted(_peer_numbers(self.path)))

    def last_number(self) -> int:
        """Return the number of the last peer that lives below, or 0; one before it may be missing."""
        return max(_peer_numbers(self.path), default=0)

    def holder(self) -> Holder | None:
        """Return the supervisor that holds this directory now, if any."""
        return holder_of(self.lock)

    def prepare(self) -> None:
        """Create the directory and its fixed parts with mode 0700.

        Raises:
            HyphaeError: as `check_usable`; nothing was changed.
        """
        check_usable(self.path)
        if PeerDirectory(self.path).is_peer():
            raise Invalid(
                f"{self.path} is the directory of one peer, not of `hyphae up`. Nothing was changed. "
                f"Run it with `hyphae node --data-dir {self.path}`, or choose another directory."
            )
        for directory in (self.path, self.secrets, self.logs):
            make_directory(directory)


def peers_of(path: Path) -> tuple[PeerDirectory, ...]:
    """Return the peers of a directory of one peer or of `up`; empty when nobody ever lived there.

    Raises:
        Unavailable: this user may not look into it.
    """
    alone = PeerDirectory(path)
    try:
        return (alone,) if alone.is_peer() else MeshDirectory(path).peers()
    except OSError as e:
        raise Unavailable(
            f"{path} cannot be looked at: {e.strerror}. Nothing was changed. Mend its permissions."
        ) from e


def running_peers(path: Path) -> tuple[RunFile, ...]:
    """Return the peers of a directory that are up and ready."""
    return tuple(run for run in (peer.running() for peer in peers_of(path)) if run is not None)


def _runtime_directories(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Directories of this user alone: never a shared temporary folder."""
    given = environ.get("XDG_RUNTIME_DIR")
    runtime = (Path(given) / "hyphae",) if given and _is_ours(Path(given)) else ()
    return (*runtime, Path.home() / ".cache" / "hyphae" / "run")


def _is_ours(path: Path) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() and status.st_mode & 0o077 == 0


def _peer_numbers(path: Path) -> list[int]:
    try:
        names = [_PEER_NAME.fullmatch(entry.name) for entry in path.iterdir() if entry.is_dir()]
    except OSError:
        return []
    return [int(name.group(1)) for name in names if name is not None]


def _run_file(path: Path) -> RunFile | None:
    record = read_record(path) or {}
    try:
        return RunFile(**{f.name: record[f.name] for f in fields(RunFile)})
    except KeyError:
        return None
