"""The checks of `hyphae doctor` in their order, and how they are run: each bounded in time, none able to fail.

A check that hangs is left behind on its thread and reported; one that raises is reported as a defect of its
own.  So a diagnosis comes to its end whatever is broken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from node.diagnosis import clients, directory, environment, keys, peers, programs, stored
from node.diagnosis.findings import Finding, problem
from node.diagnosis.surroundings import Surroundings

HOUR_S = 3_600.0
GIVE_UP = "Look why it hangs: a peer that was stopped, a disk or a network that does not answer."


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Args:
        name: short, for people and scripts.
        looks_at: what it looks at, in words.
        examine: does it; changes nothing.
        limit_s: seconds after which it is given up.
    """

    name: str
    looks_at: str
    examine: Callable[[Surroundings], Sequence[Finding]]
    limit_s: float = 5.0


CHECKS: tuple[Check, ...] = (
    Check("python", "version of Python, the system, the installation", environment.python),
    Check("settings", "settings file, HYPHAE_* variables and their values", environment.settings),
    Check("data", "data directory: there, usable, nobody else's; modes of secrets", directory.data_directory),
    Check("disk", "free space against the watermark", directory.room),
    Check("lock", "who holds the directory; a lock that was left behind", directory.lock),
    Check("format", "identity and log can be read by this version", stored.formats),
    Check("log", "heads file against the log, hashes of the newest events (--deep: all)", stored.log, 15.0),
    Check("model", "embedding model: files, hashes, loads, embeds", programs.model, 30.0),
    Check("index", "snapshot of the vectors: readable, of this log and model, how far", stored.index, 15.0),
    Check("nats-server", "there, new enough, runs", programs.nats_server, 12.0),
    Check("peers", "running peers: socket, HTTP, their own complaints", peers.peers, 10.0),
    Check("mesh", "NATS, silent members, lag, clocks", peers.mesh, 10.0),
    Check("key", "your key: where, mode, form, accepted, scopes and projects", keys.key, 10.0),
    Check("clients", "entries of Claude Code, Cursor, Cline: command, key, address", clients.clients, 30.0),
    Check("tls", "certificate and key of the peers; keys in clear on a network", environment.tls),
    Check("port", "ports of `hyphae up` taken by somebody else", environment.port),
    Check("open-files", "limit of open files", environment.open_files),
    Check("gateway", "`hyphae mcp serve` starts and lists its tools", programs.gateway, 10.0),
)


def run_checks(s: Surroundings) -> Iterator[tuple[Check, Sequence[Finding]]]:
    """Yield each check with what it found, at least one finding, as soon as it is done."""
    for check in CHECKS:
        limit_s = HOUR_S if s.deep and check.name == "log" else check.limit_s
        yield check, _bounded(check, s, limit_s)


def _bounded(check: Check, s: Surroundings, limit_s: float) -> Sequence[Finding]:
    found: list[Sequence[Finding]] = []

    def examine() -> None:
        try:
            found.append(check.examine(s))
        except Exception as error:  # noqa: BLE001 - a diagnosis goes on whatever is broken
            text = f"This could not be looked at: {type(error).__name__}: {error}."
            found.append([problem(text, "HYPHAE_DEBUG=1 hyphae status shows more; please report it.")])

    thread = threading.Thread(target=examine, name=f"check {check.name}", daemon=True)
    thread.start()
    thread.join(limit_s)
    return found[0] if found else [problem(f"This did not come to an end within {limit_s:.0f} s.", GIVE_UP)]
