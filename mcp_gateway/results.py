"""What every call answers with, as data: the result object of each tool and operation.

The duty: one table from which OpenAPI, the pages of the tools and the tests are made, so that none of them can
say something else.  Pure; it knows no transport and builds no result.
"""

from __future__ import annotations

from mcp_gateway.result_explanations import EXPLAINED_ENTRY, EXPLAINED_RECALL
from mcp_gateway.result_kinds import (
    FieldSpec,
    ObjectSpec,
    flag,
    many,
    one,
    share,
    text,
    texts,
    time,
    uuid,
    whole,
)
from mcp_gateway.result_objects import (
    BEACON,
    BULK_OUTCOME,
    CELL,
    DIFF,
    HIT,
    KEY,
    LOST_TAIL,
    OPEN_SESSION,
    PEER,
    PROGRESS,
    SCENE,
    SCENE_WITH_MEMBERS,
    WOULD_MATCH,
)

__all__ = ["RESULTS", "FieldSpec", "ObjectSpec"]

_NOTE = text("note", "What to do next.", optional=True)
_NEXT = text("next_cursor", "Pass it as cursor for the page after; absent on the last.", optional=True)
_MAY_REPEAT = flag("may_repeat", "Some of these may have been listed before; diff_id tells.", optional=True)
_PROJECTS = FieldSpec("projects", "map", "Rights by project, r or rw; absent means all.", True, "string")

_FOUND = (
    many("results", "Nearest first.", HIT),
    whole("cut", "How many more there are, left out by max_bytes.", optional=True),
    flag(
        "stale",
        "True while something that you stored has not reached this peer; search again.",
        optional=True,
    ),
    _NOTE,
)
_SHORTFALL = (
    whole(
        "durable_on",
        "How many peers hold it for certain, where fewer than wanted do yet. It spreads by itself.",
        optional=True,
    ),
    whole("wanted", "How many peers should hold it; with durable_on.", optional=True),
    _NOTE,
)
_NEW_KEY = (
    text("id", "Its id: the part of the key that is no secret."),
    text("key", "The key. It is shown this once."),
    text("agent", "The agent that it authenticates."),
    text("owner", "The person or service it was issued to."),
    text("tenant", "Its tenant."),
    texts("scopes", "What it may do."),
    _PROJECTS,
)

_TOOL_RESULTS = (
    ("store", "Stored", "The id of the memory.", (uuid("node_id", "Its id."), *_SHORTFALL)),
    ("recall", "Recalled", "The memories nearest to a query.", _FOUND),
    ("query", "Queried", "The memories of one layer nearest to a query.", _FOUND),
    (
        "open_session",
        "SessionOpened",
        "The session, and what the agent comes back to.",
        (
            uuid("session_id", "Its id."),
            text("project", "Its project."),
            text("agent", "The agent that your key authenticates."),
            time("opened_at", "When it was opened."),
            whole("unread", "How many diffs wait in your inbox."),
            many("open_sessions", "Your other open sessions of the project, latest first.", OPEN_SESSION),
        ),
    ),
    (
        "close_session",
        "SessionClosed",
        "The session and its end.",
        (uuid("session_id", "Its id."), time("closed_at", "When it was closed.")),
    ),
    (
        "place_beacon",
        "BeaconPlaced",
        "The beacon. One that was removed by ttl_seconds 0 shows only beacon_id and withdrawn.",
        (
            uuid("beacon_id", "Its id: the same interest, project and filters have the same."),
            text("interest", "Its text.", optional=True),
            text("project", "Only this project.", optional=True),
            share("threshold", "Cosine from which a memory matches.", optional=True),
            time("expires_at", "When it ends, unless you drain your inbox before.", optional=True),
            one("would_match", "What it would have matched so far.", WOULD_MATCH, optional=True),
            flag("created", "False when it was there already.", optional=True),
            flag("withdrawn", "True when it was removed.", optional=True),
        ),
    ),
    (
        "list_beacons",
        "Beacons",
        "Your beacons, oldest first.",
        (
            text("agent", "The agent that your key authenticates."),
            many("beacons", "One by one.", BEACON),
            whole("cut", "How many more there are, left out to keep the result readable.", optional=True),
            _NOTE,
        ),
    ),
    (
        "diffs_since",
        "DiffsSince",
        "Diffs in the order in which they reached this peer.",
        (
            many("diffs", "Earliest first.", DIFF),
            text("next_since", "Pass it as since for what comes after."),
            flag("has_more", "Whether more is there already."),
            time("now", "The clock of this peer."),
            _NOTE,
        ),
    ),
    (
        "get_scene",
        "SceneFound",
        "One scene.",
        (
            one("scene", "With its memories, oldest first.", SCENE_WITH_MEMBERS),
            whole("cut", "How many memories are left out to keep the result readable.", optional=True),
            _NOTE,
        ),
    ),
    (
        "list_scenes",
        "Scenes",
        "A page of scenes.",
        (many("scenes", "Latest first.", SCENE), _NEXT, _NOTE),
    ),
    (
        "drain_inbox",
        "InboxPage",
        "A page of your inbox.",
        (
            many("diffs", "Earliest first.", DIFF),
            text("cursor", "Of this page: pass it as ack once you have read it."),
            whole("remaining", "How many wait after this page."),
            _MAY_REPEAT,
            whole("skipped", "How many skip_before gave up.", optional=True),
            _NOTE,
        ),
    ),
)

_OPERATION_RESULTS = (
    ("get_node", CELL.name, CELL.description, CELL.fields),
    (
        "store_bulk",
        "StoredInBulk",
        "What became of each memory.",
        (many("results", "In the order of cells.", BULK_OUTCOME), *_SHORTFALL),
    ),
    (
        "page_beacons",
        "BeaconPage",
        "A page of your beacons.",
        (
            text("agent", "The agent that your key authenticates."),
            many("beacons", "Oldest first.", BEACON),
            _NEXT,
        ),
    ),
    (
        "consolidate_scenes",
        "Consolidation",
        "What has become of the scenes of a project.",
        (
            text("project", "Whose scenes."),
            text("state", "Whether it has ended.", enum=("running", "done")),
            one("progress", "How far it is.", PROGRESS),
            whole("cells", "Memories that were compared."),
            whole("left_out", "Memories without a vector of this peer's embedding space.", optional=True),
            whole("scenes", "Scenes that there are now."),
            whole("created", "New ones among them."),
            whole("changed", "Those with other members than before."),
            whole("unchanged", "Those that are as they were."),
            whole("ended", "Scenes that are no more.", optional=True),
        ),
    ),
    (
        "withdraw_beacon",
        "BeaconWithdrawn",
        "The beacon that was removed.",
        (uuid("beacon_id", "Its id."), flag("withdrawn", "True.")),
    ),
    (
        "list_sessions",
        "Sessions",
        "Your open sessions, all of them: how many can be open at a time is bounded.",
        (
            text("agent", "The agent that your key authenticates."),
            many("sessions", "Latest first.", OPEN_SESSION),
        ),
    ),
    (
        "whoami",
        "Caller",
        "Whom your key authenticates.",
        (
            text("agent", "The agent."),
            text("owner", "The person or service for whom it works."),
            text("tenant", "The tenant."),
            text("key_id", "Id of the key.", optional=True),
            texts("scopes", "What the key may do."),
            _PROJECTS,
            text("peer_id", "The peer that answers."),
        ),
    ),
    ("explain_recall", EXPLAINED_RECALL.name, EXPLAINED_RECALL.description, EXPLAINED_RECALL.fields),
    ("explain_entry", EXPLAINED_ENTRY.name, EXPLAINED_ENTRY.description, EXPLAINED_ENTRY.fields),
    (
        "export",
        "Export",
        "A page of everything that you may read.",
        (
            many("cells", "Whole memories, in the order in which they reached this peer.", CELL),
            texts("damaged", "Ids of memories on this page whose event cannot be read here.", optional=True),
            _NEXT,
        ),
    ),
    ("issue_key", "NewKey", "A new key with its secret.", _NEW_KEY),
    ("rotate_key", "RotatedKey", "The key that replaces another, with its secret.", _NEW_KEY),
    (
        "list_keys",
        "Keys",
        "A page of keys, without their secrets.",
        (many("keys", "Oldest first.", KEY), _NEXT),
    ),
    (
        "revoke_key",
        "KeyRevoked",
        "The key that was revoked.",
        (text("id", "Its id."), time("revoked_at", "When it was revoked.")),
    ),
    ("peers", "Peers", "All members of the mesh.", (many("peers", "By name.", PEER),)),
    (
        "invite_peer",
        "Invitation",
        "What lets another machine join.",
        (text("token", "For `hyphae node --join`."), time("expires_at", "Until when it can be used.")),
    ),
    (
        "retire_peer",
        "PeerRetired",
        "A peer that is no member any more.",
        (
            text("peer_id", "Its id."),
            text("name", "Its name."),
            time("retired_at", "When it was retired, first of all."),
            whole("late_events", "Its events held here that do not count."),
        ),
    ),
    (
        "status",
        "Status",
        "The peer that answers; counts are of what you may see, of everything for an operator.",
        (
            text("peer_id", "Its id."),
            text("name", "Its name."),
            text("mesh_id", "The mesh that it belongs to."),
            text("version", "Of its program."),
            text("state", "Whether something is wrong.", enum=("ok", "degraded")),
            texts("problems", "What is wrong, and what to do."),
            text("nats", "The way to other peers.", enum=("off", "up", "down")),
            whole("peers_up", "Peers heard lately, this one included."),
            whole("members", "Peers that belong to the mesh."),
            whole("cells", "Memories."),
            whole("unsearchable_cells", "Memories without a vector of this peer's embedding space."),
            whole("beacons", "Beacons of the tenant."),
            whole("agents", "Agents of the tenant."),
            whole("events", "Events in the log; for operators.", optional=True),
            whole("streams", "Streams in the log; for operators.", optional=True),
            whole("unfolded_events", "Events of an unknown kind; for operators.", optional=True),
            whole("forks", "Streams with two histories, in quarantine; for operators.", optional=True),
            whole("write_concern", "How many peers should hold a store before it is answered."),
            whole(
                "late_events",
                "Events of peers that had retired: kept, not counted; for operators.",
                optional=True,
            ),
            many(
                "lost_tails",
                "What nobody is known to hold any more; for operators.",
                LOST_TAIL,
                optional=True,
            ),
            text("space", "The embedding space."),
            whole("uptime_s", "Seconds since the peer started."),
            whole("disk_free_bytes", "Room on its disk."),
            whole("waiting_writes", "Writes that wait for a commit."),
            text("data_dir", "Its directory; on the peer's own socket only.", optional=True),
        ),
    ),
)

RESULTS: dict[str, ObjectSpec] = {
    method: ObjectSpec(shape, description, fields)
    for method, shape, description, fields in (*_TOOL_RESULTS, *_OPERATION_RESULTS)
}
