"""What the peers have stored: formats, the event log against its heads and its hashes, the index snapshot.

Read beside a running peer or in the files of a stopped one, and never written to: a log that nobody has open
and that was closed cleanly is opened as immutable, so that SQLite makes no file next to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from urllib.parse import quote

import apsw

from node import database, identity
from node.data_directory import PeerDirectory
from node.diagnosis.findings import Finding, problem, warning, well
from node.diagnosis.programs import embedding
from node.diagnosis.surroundings import Surroundings
from node.heads_file import RecordedHead, recorded_in
from node.identity import Identity, load_identity
from node.log_verification import BadEvent, verify_newest, verify_stream
from node.private_files import read_record
from node.sqlite_log import SqliteLog
from proto.codec import decode
from proto.errors import HyphaeError

NEWEST = 1_000
NOTHING = "Nothing is stored yet."
REBUILT = "Nothing to do: the next start builds it from the log."


def formats(s: Surroundings) -> Sequence[Finding]:
    """Look whether this version can read what is there."""
    found = [_judge_format(s, peer) for peer in s.peers]
    told = [f for f in found if f.verdict != "ok"]
    return told or found[:1] or [well(NOTHING)]


def _judge_format(s: Surroundings, peer: PeerDirectory) -> Finding:
    try:
        load_identity(peer, "")
    except HyphaeError as error:
        return problem(error.message, f"Restore {peer.path} from a copy, or move it aside and join anew.")
    format_ = (read_record(peer.identity) or {}).get("format", identity.FORMAT)
    if not isinstance(format_, int) or format_ > identity.FORMAT:
        return problem(f"{peer.identity} has format {format_}, of a newer version.", "Upgrade hyphae-mesh.")
    if not peer.log.exists():
        return warning(
            f"{peer.path} has no log: what other peers hold comes back when it is started.",
            s.command("hyphae up"),
        )
    try:
        with _reading(peer) as db:
            found = int(db.pragma("user_version"))
    except apsw.Error as error:
        return problem(f"{peer.log} cannot be read: {error}.", _verify(peer))
    if found > database.FORMAT:
        return problem(
            f"{peer.log} has format {found}, of a newer version; this one reads up to {database.FORMAT}.",
            "Upgrade hyphae-mesh.",
        )
    if found < database.FORMAT:
        return well(f"{peer.log} has format {found}; the next start brings it to {database.FORMAT}.")
    return well(f"Log format {found}, as this version writes it.")


def log(s: Surroundings) -> Sequence[Finding]:
    """Look whether the log ends where the heads file says, and whether its events are as written."""
    found = [_judge_log(s, peer) for peer in s.peers if peer.log.exists()]
    told = [f for f in found if f.verdict != "ok"]
    return told or found[:1] or [well(NOTHING)]


def _judge_log(s: Surroundings, peer: PeerDirectory) -> Finding:
    try:
        own: Identity = load_identity(peer, "")
        recorded = recorded_in(peer.heads)
        with _reading(peer) as db:
            held = SqliteLog(db, own.peer)
            lost = judge_heads(peer, recorded, held)
            bad = _first_bad(s, db, held)
    except apsw.Error as error:
        return problem(f"{peer.log} cannot be read: {error}.", _verify(peer))
    except HyphaeError as error:
        return problem(f"The log of {peer.path} cannot be checked: {error.message}", _verify(peer))
    if bad is not None:
        return problem(
            f"The log of {peer.path} is damaged at sequence {bad.sequence} of epoch {bad.stream.ordinal}: "
            f"{bad.why}.",
            _verify(peer),
        )
    how = "all" if s.deep else f"the newest {min(NEWEST, held.last_local):,}"
    return lost or well(f"{held.last_local:,} events in {peer.path}, {how} as written.")


def judge_heads(peer: PeerDirectory, recorded: RecordedHead | None, held: SqliteLog) -> Finding | None:
    """Return what the log lost against its heads file, or None."""
    if recorded is None:
        return None
    last = held.vector().get(recorded.stream, 0)
    if last >= recorded.sequence:
        return None
    return problem(
        f"The log of {peer.path} lost own events {last + 1} to {recorded.sequence} of epoch "
        f"{recorded.stream.ordinal}.",
        "Start the peer with the others: what they hold comes back by itself.",
    )


def _first_bad(s: Surroundings, db: apsw.Connection, held: SqliteLog) -> BadEvent | None:
    streams = held.numbered()
    if not s.deep:
        return verify_newest(db, streams, NEWEST)
    for done, (stream, (number, head)) in enumerate(sorted(streams.items())):
        s.progress(done, len(streams))
        bad = verify_stream(db, number, stream, head)
        if bad is not None:
            return bad
    return None


def index(s: Surroundings) -> Sequence[Finding]:
    """Look whether the snapshot of the vectors can be read and how much of the log it covers."""
    found = [_judge_index(s, peer) for peer in s.peers if peer.log.exists()]
    told = [f for f in found if f.verdict != "ok"]
    return told or found[:1] or [well(NOTHING)]


def _judge_index(s: Surroundings, peer: PeerDirectory) -> Finding:
    from node.faiss_index import FaissIndexes
    from node.onnx_model import DIMENSIONS

    snapshot = peer.index / "vectors.snapshot"
    if not snapshot.exists():
        return well(f"{peer.path} has no snapshot yet; it is made from the log.")
    space = embedding(s)
    indexes = FaissIndexes()
    stamp = indexes.load(snapshot, space.dimensions if space is not None else DIMENSIONS)
    if stamp is None:
        return warning(f"{snapshot} is damaged, or of another version or model.", REBUILT)
    try:
        name, local, hash_ = decode(stamp)
        with _reading(peer) as db:
            held = database.value(db, "SELECT hash FROM events WHERE local=?", local)
            last = int(database.value(db, "SELECT ifnull(max(local), 0) FROM events"))
    except (ValueError, HyphaeError, apsw.Error) as error:
        return warning(f"{snapshot} cannot be compared with the log: {error}.", REBUILT)
    if held is None or held != hash_:
        return warning(f"{snapshot} belongs to another log.", REBUILT)
    if space is not None and space.name != name:
        return warning(f"{snapshot} was made with another model ({name}).", REBUILT)
    return well(f"{indexes.total():,} vectors in {snapshot}, up to event {local:,} of {last:,}.")


@contextlib.contextmanager
def _reading(peer: PeerDirectory) -> Iterator[apsw.Connection]:
    """Open a log without changing anything, or raise `apsw.Error`."""
    wal = peer.log.with_name(peer.log.name + "-wal")
    how = "mode=ro" if wal.exists() or peer.holder() is not None else "immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    db = apsw.Connection(f"file:{quote(str(peer.log))}?{how}", flags=flags)
    try:
        db.set_busy_timeout(database.BUSY_MS // 2)
        db.execute("PRAGMA query_only=1")
        yield db
    finally:
        db.close()


def _verify(peer: PeerDirectory) -> str:
    return f"hyphae log verify --data-dir {peer.path}"
