"""The objects that results share: memories, diffs, beacons, sessions, scenes, keys, peers.

Pure data.  One shape is written once, whatever operations show it.
"""

from __future__ import annotations

from mcp_gateway.argument_kinds import CELL_TYPES
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

DIFF_KINDS = ("created", "superseded")
PEER_STATES = ("up", "silent", "retired")

_CONTENT_CHARS = whole("content_chars", "How many characters the content has, when it is cut.", optional=True)
_TYPE = text("cell_type", "What kind of memory it is.", enum=CELL_TYPES)
_OPTIONAL_TYPE = text("cell_type", "What kind of memory it is.", optional=True, enum=CELL_TYPES)
_PROJECT = text("project", "Where it is kept; `private` is its owner's alone.")
_AGENT = text("source_agent", "Who stored it.")
_CREATED = time("created_at", "When it was stored.")
_OPTIONAL_DETAILS = (
    share("salience", "How much it matters; absent means 0.5.", optional=True),
    whole(
        "layer", "1 summaries and patterns, 2 decisions of the whole project; absent means 0.", optional=True
    ),
    texts("tags", "Its tags.", optional=True),
    uuid("session_id", "The working session in which it was stored.", optional=True),
    uuid("superseded_by", "The newest memory that replaces it.", optional=True),
)

HIT = ObjectSpec(
    "Hit",
    "One memory that was found. Without include_content exactly node_id and distance.",
    (
        uuid("node_id", "Its id."),
        share("distance", "0 the same, under 0.6 related, over 0.8 probably unrelated."),
        text(
            "content",
            "Its text; cut at 2,000 characters, or at max_bytes when read by its id.",
            optional=True,
        ),
        _CONTENT_CHARS,
        _OPTIONAL_TYPE,
        text("project", "Where it is kept; `private` is its owner's alone.", optional=True),
        text("source_agent", "Who stored it.", optional=True),
        time("created_at", "When it was stored.", optional=True),
        *_OPTIONAL_DETAILS,
    ),
)

PROVENANCE = ObjectSpec(
    "Provenance",
    "The event in the log that holds a memory, and how it came to this peer.",
    (
        text("peer_id", "The peer that accepted it."),
        whole("epoch", "Ordinal of that peer's process life."),
        whole("sequence", "Place in its stream."),
        text("hash", "SHA-256 of the event in its chain, hexadecimal."),
        text("space", "Embedding space of its vector; absent when it has none.", optional=True),
        time("received_at", "When this peer received it."),
    ),
)

CELL = ObjectSpec(
    "Cell",
    "A whole memory with its provenance.",
    (
        uuid("node_id", "Its id."),
        text("content", "Its whole text."),
        _TYPE,
        _PROJECT,
        _AGENT,
        text("owner", "The person or service for whom the agent works."),
        _CREATED,
        share("salience", "How much it matters."),
        whole("layer", "0 memories, 1 summaries and patterns, 2 decisions of the whole project."),
        *_OPTIONAL_DETAILS[2:],
        whole("content_bytes", "Size of the text in UTF-8."),
        uuid("supersedes", "The memory that it replaces.", optional=True),
        texts(
            "derived_from",
            "Ids of the memories that it rests on, as far as you may read them.",
            optional=True,
        ),
        whole("embedded_chars", "How many characters its vector stands for, when not all.", optional=True),
        text("note", "What to know about it.", optional=True),
        one("provenance", "Where it comes from.", PROVENANCE),
    ),
)

MATCHED = ObjectSpec(
    "Matched",
    "A beacon that let a diff through.",
    (
        text("interest", "Its text, cut at 200 characters."),
        FieldSpec("similarity", "number", "Cosine of text and memory; 1 for an interest in everything."),
    ),
)

REPLACEMENT = ObjectSpec(
    "Replacement",
    "The memory that replaces another.",
    (
        uuid("node_id", "Its id."),
        text("content", "Its text, cut at 2,000 characters.", optional=True),
        _CONTENT_CHARS,
        _AGENT,
    ),
)

DIFF = ObjectSpec(
    "Diff",
    "One change that concerns you.",
    (
        uuid("diff_id", "Its id: the key to deduplicate on."),
        text("kind", "What happened to the memory.", enum=DIFF_KINDS),
        uuid("node_id", "The memory; absent where its event is damaged here.", optional=True),
        _OPTIONAL_TYPE,
        text("content", "Its text, cut at 2,000 characters.", optional=True),
        _CONTENT_CHARS,
        _PROJECT,
        text("source_agent", "Who stored it.", optional=True),
        time("created_at", "When it was stored.", optional=True),
        texts("tags", "Its tags.", optional=True),
        many("matched", "Your beacons that it matched, best first, at most five.", MATCHED, optional=True),
        whole("matched_count", "How many matched, when more than five.", optional=True),
        one("replaced_by", "Of a superseded memory: the one that replaces it.", REPLACEMENT, optional=True),
        uuid("superseded_by", "The newest memory that replaces it, if one does meanwhile.", optional=True),
        text("note", "What to know about it.", optional=True),
    ),
)

BEACON_FILTERS = ObjectSpec(
    "BeaconFilters",
    "What a beacon is narrowed to.",
    (
        texts("cell_types", "Only these.", optional=True),
        FieldSpec("layers", "array", "Only these.", optional=True, items="integer"),
        share("min_salience", "Only from this on.", optional=True),
        flag("include_own", "Also what you stored yourself.", optional=True),
        flag("strict", "Only the text decides, not type and salience.", optional=True),
    ),
)

BEACON = ObjectSpec(
    "Beacon",
    "A standing interest of yours.",
    (
        uuid("beacon_id", "Its id."),
        text("interest", "Its text, cut at 2,000 characters."),
        whole("interest_chars", "How long the text is, when it is cut.", optional=True),
        share("threshold", "Cosine from which a memory matches."),
        time("expires_at", "When it ends, unless you drain your inbox before."),
        whole("waiting", "How many unread diffs name it."),
        text("project", "Only this project.", optional=True),
        one("filters", "What else it is narrowed to.", BEACON_FILTERS, optional=True),
    ),
)

EXAMPLE = ObjectSpec(
    "Example",
    "A memory that a beacon would have matched.",
    (uuid("node_id", "Its id."), text("content", "Its text, cut at 200 characters.")),
)

WOULD_MATCH = ObjectSpec(
    "WouldMatch",
    "What a beacon would have matched of what is stored already.",
    (
        whole("count", "How many memories, at most 1,000 a layer."),
        many("examples", "The nearest three.", EXAMPLE),
    ),
)

OPEN_SESSION = ObjectSpec(
    "OpenSession",
    "A working session of yours that is open.",
    (
        uuid("session_id", "Its id."),
        text("project", "Its project; absent where the list is of one project.", optional=True),
        text("title", "What it is about.", optional=True),
        time("opened_at", "When it was opened."),
    ),
)

SCENE_MEMBER = ObjectSpec(
    "SceneMember",
    "One memory of a scene.",
    (
        uuid("node_id", "Its id."),
        text("content", "Its text, cut at 2,000 characters."),
        _CONTENT_CHARS,
        _TYPE,
        _PROJECT,
        _AGENT,
        _CREATED,
        *_OPTIONAL_DETAILS,
    ),
)

SCENE = ObjectSpec(
    "Scene",
    "A group of related memories with its summary.",
    (
        uuid("scene_id", "Its id."),
        text("title", "What it is about."),
        text(
            "summary",
            "Its most central sentences; absent while they have not reached this peer.",
            optional=True,
        ),
        uuid("node_id", "Its summary as a memory on layer 1.", optional=True),
        text("project", "The project of its memories."),
        time("from", "When its oldest memory was stored."),
        time("to", "When its newest memory was stored."),
        whole("cells", "How many memories it has."),
        texts("agents", "Who stored them."),
    ),
)

SCENE_WITH_MEMBERS = ObjectSpec(
    "SceneWithMembers",
    "A scene with the memories that it is made of.",
    (*SCENE.fields, many("members", "Its memories.", SCENE_MEMBER)),
)

PROGRESS = ObjectSpec(
    "Progress",
    "How far work is that goes on.",
    (whole("done", "Steps done."), whole("total", "Steps known so far.")),
)

KEY = ObjectSpec(
    "Key",
    "A key, without its secret.",
    (
        text("id", "Its id: the part of the key that is no secret."),
        text("agent", "The agent that it authenticates."),
        text("owner", "The person or service it was issued to."),
        text("tenant", "Its tenant."),
        texts("scopes", "What it may do."),
        FieldSpec(
            "projects", "map", "Rights by project, r or rw; absent means all.", optional=True, items="string"
        ),
        time("created_at", "When it was issued."),
        time("revoked_at", "When it was revoked.", optional=True),
    ),
)

LOST_TAIL = ObjectSpec(
    "LostTail",
    "Events that a later one shows to have existed.",
    (
        text("stream", "Peer, partition and epoch."),
        whole("from", "The first one missing."),
        whole("to", "The last one known of."),
    ),
)

PEER = ObjectSpec(
    "Peer",
    "A member of the mesh, as this peer sees it.",
    (
        text("peer_id", "Its id."),
        text("name", "Its name."),
        text("state", "Whether it was heard lately.", enum=PEER_STATES),
        time("joined_at", "When it became a member."),
        flag("me", "The peer that answers.", optional=True),
        text("version", "Of its program.", optional=True),
        texts("urls", "Where agents reach it.", optional=True),
        time("retired_at", "When it left the mesh.", optional=True),
        whole("late_events", "Its events that came after it had retired: kept, not counted.", optional=True),
        many("lost_tails", "What it wrote and nobody is known to hold.", LOST_TAIL, optional=True),
        whole("heard_ms_ago", "Age of its newest digest.", optional=True),
        whole("missing_events", "How many events it is known to hold that are not here yet.", optional=True),
        whole("clock_off_ms", "How far its clock is ahead, where that is over two seconds.", optional=True),
    ),
)

BULK_ERROR = ObjectSpec(
    "BulkError",
    "Why one memory was not stored.",
    (
        text("code", "The code word."),
        text("message", "What is wrong and what to do."),
        flag("definite", "True when it was not and will not be stored."),
    ),
)

BULK_OUTCOME = ObjectSpec(
    "BulkOutcome",
    "What became of one memory: its id or its error.",
    (
        uuid("node_id", "Its id.", optional=True),
        one("error", "Why it was not stored.", BULK_ERROR, optional=True),
    ),
)
