"""The objects of `GET /v1/explain/...`: the numbers behind a search and behind an entry of an inbox.

Pure data.  Scores of matching are ten-thousandths of cosine, as they are compared.
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
from mcp_gateway.result_objects import DIFF_KINDS, PROVENANCE

FILTER_CHECK = ObjectSpec(
    "FilterCheck",
    "One filter and whether the memory passes it.",
    (
        text("filter", "Its name."),
        flag("passed", "Whether the memory passes."),
        text("wanted", "What the filter asks for, as text."),
        text("value", "What the memory has, as text."),
    ),
)

DENSE_ARM = ObjectSpec(
    "DenseArm",
    "The arm of meaning.",
    (
        FieldSpec("cosine", "number", "Of query and memory; 0 when the memory has no vector here."),
        share("weight", "Its part in the mix."),
    ),
)

LEXICAL_ARM = ObjectSpec(
    "LexicalArm",
    "The arm of words.",
    (
        share("share", "Of the weight of the query's terms that the memory has, damped by its length."),
        share("weight", "Its part in the mix."),
        texts("terms", "The first 50 terms of the query."),
        texts("matched_terms", "Those of them that the memory or its tags have."),
    ),
)

ARMS = ObjectSpec(
    "Arms",
    "What each arm of the search says of the memory; an arm that the mode leaves out is absent.",
    (
        one("dense", "By meaning.", DENSE_ARM, optional=True),
        one("lexical", "By words.", LEXICAL_ARM, optional=True),
    ),
)

SCORE_PARTS = ObjectSpec(
    "MatchBonus",
    "What type and salience add to the score, written in the event by the peer that accepted the memory.",
    (
        whole("value", "Ten-thousandths of cosine; 0 in memories of a peer that computes none."),
        text("cell_type", "The type that it is computed from.", enum=CELL_TYPES),
        share("salience", "The salience that it is computed from."),
    ),
)

BEACON_MATCH = ObjectSpec(
    "BeaconMatch",
    "One beacon of yours that let the diff through, and the numbers that decided.",
    (
        uuid("beacon_id", "Its id."),
        text("interest", "Its text, cut at 200 characters."),
        whole("score", "Ten-thousandths of cosine; 10000 for an interest in everything."),
        whole("bonus", "What was added to the score: match_bonus, or 0 for a strict beacon."),
        whole("threshold", "Ten-thousandths; score and bonus together reached it.", optional=True),
        flag("strict", "Whether only the text decides.", optional=True),
        many("filters", "Its filters, one by one.", FILTER_CHECK),
    ),
)

ANCESTOR = ObjectSpec(
    "Ancestor",
    "One step back along what a memory replaces or rests on.",
    (
        uuid("node_id", "The older memory."),
        text("relation", "How the newer one names it.", enum=("supersedes", "derived_from")),
        uuid("of", "The newer memory."),
        whole("steps", "How many steps back from the memory of the entry."),
    ),
)

EXPLAINED_RECALL = ObjectSpec(
    "ExplainedRecall",
    "Why a search returned a memory or did not.",
    (
        uuid("node_id", "The memory."),
        flag("came", "Whether the search returns it among its k, before the byte budget."),
        text("why", "One sentence."),
        text("mode", "How the search ranks.", enum=("hybrid", "vector", "lexical")),
        whole("layer", "The layer searched."),
        whole("k", "How many results the search asks for."),
        share("distance", "Of the memory to the query, whatever the filters say."),
        whole("rank", "Its place among the first 100 that pass the filters, from 1.", optional=True),
        share("cutoff", "Distance of the last of the k results.", optional=True),
        one("arms", "The scores that the distance is mixed from.", ARMS),
        many("filters", "Every filter of the search, one by one.", FILTER_CHECK),
    ),
)

EXPLAINED_ENTRY = ObjectSpec(
    "ExplainedEntry",
    "Why a diff is in your inbox.",
    (
        uuid("diff_id", "The diff."),
        text("kind", "What happened to the memory.", enum=DIFF_KINDS),
        uuid("node_id", "The memory."),
        text("cell_type", "Its type.", enum=CELL_TYPES),
        text("project", "Its project."),
        text("source_agent", "Who stored it."),
        time("created_at", "When it was stored."),
        time("delivered_at", "When the entry appeared at this peer."),
        flag("read", "Whether a page that you have read holds it."),
        text("why", "One sentence."),
        many("beacons", "Your beacons that it matched, best first.", BEACON_MATCH),
        one("match_bonus", "What type and salience add.", SCORE_PARTS),
        uuid("replaced_by", "Of a superseded memory: the one that replaces it.", optional=True),
        one("provenance", "Where the memory comes from.", PROVENANCE),
        many("path", "What it replaces and rests on, as far back as you may read, at most 50.", ANCESTOR),
    ),
)
