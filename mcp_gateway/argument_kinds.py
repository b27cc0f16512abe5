"""Arguments that several calls share, as constructors, so that one limit is written once.

Pure data.  It knows which limits hold, not which tool has which argument.
"""

from __future__ import annotations

from typing import Any

from mcp_gateway.specs import ArgumentSpec
from proto import limits

# The same names as `proto.payloads.CELL_TYPES`, which needs a library that the stdio gateway must not load.
CELL_TYPES = ("Decision", "Constraint", "Risk", "Pattern", "Lesson", "Fact", "Preference", "Context", "Task")
MODES = ("hybrid", "vector", "lexical")
ID_CHARS = 128
ID_EXAMPLE = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
ID_BEGINNING = ID_EXAMPLE[:8]  # of a memory: enough where it is the only one that begins so
CURSOR_CHARS = 512
RESULT_BYTES_MIN = 1_000


def name(name: str, description: str = "", **more: Any) -> ArgumentSpec:
    more.setdefault("max_chars", limits.PROJECT_CHARS)
    return ArgumentSpec(name, "string", description, form="name", **more)


def identifier(name: str, description: str = "", **more: Any) -> ArgumentSpec:
    more.setdefault("example", f'"{ID_EXAMPLE}"')
    more.setdefault("form", "id")
    return ArgumentSpec(name, "string", description, max_chars=ID_CHARS, **more)


def flag(name: str, description: str = "", *, usual: bool = False) -> ArgumentSpec:
    """Return a flag whose example is the other value than the usual one."""
    return ArgumentSpec(name, "boolean", description, example="false" if usual else "true")


def share(name: str, description: str = "", example: str = "0.5") -> ArgumentSpec:
    return ArgumentSpec(name, "number", description, minimum=0, maximum=1, example=example)


def moment(name: str, description: str = "", **more: Any) -> ArgumentSpec:
    return ArgumentSpec(name, "string", description, form="moment", max_chars=64, example='"24h"', **more)


def count(name: str, maximum: int, description: str = "") -> ArgumentSpec:
    return ArgumentSpec(name, "integer", description, minimum=1, maximum=maximum, example="10")


def tags(description: str = "") -> ArgumentSpec:
    return ArgumentSpec(
        "tags",
        "strings",
        description,
        max_items=limits.TAGS,
        max_chars=limits.TAG_CHARS,
        form="name",
        example='["retry"]',
    )


def cell_type_filter(description: str = "") -> ArgumentSpec:
    return ArgumentSpec(
        "cell_types",
        "strings",
        description,
        enum=CELL_TYPES,
        max_items=limits.FILTER_ITEMS,
        example='["Decision"]',
    )


def byte_budget(description: str = "") -> ArgumentSpec:
    return ArgumentSpec(
        "max_bytes",
        "integer",
        description,
        minimum=RESULT_BYTES_MIN,
        maximum=limits.RESULT_BYTES_MAX,
        example=str(limits.RESULT_BYTES),
    )


def search_arguments(*, explained: bool) -> tuple[ArgumentSpec, ...]:
    """Return what `recall` and `query` share; only one of them explains it, to save its readers tokens."""

    def say(text: str) -> str:
        return text if explained else ""

    return (
        ArgumentSpec(
            "query",
            "string",
            say(
                "Plain words, an error text, a path; or a node_id (8 or more characters) to read that memory"
            ),
            required=True,
            max_bytes=limits.QUERY_BYTES,
            example='"how are payments retried"',
        ),
        count("k", limits.RECALL_K, say("How many, default 10")),
        flag("include_content", "true to read the memories, not only their ids (default false)"),
        name("project", say("Default: every project you may read"), example='"billing"'),
        cell_type_filter(),
        tags(say("All of these")),
        ArgumentSpec(
            "from_agents",
            "strings",
            say('Only by these agents; "me" is you'),
            max_items=limits.FILTER_ITEMS,
            max_chars=limits.AGENT_CHARS,
            form="name",
            example='["me"]',
        ),
        moment("since", say("Only stored since: RFC 3339 time, or a span such as 24h, 7d")),
        share("min_salience"),
        flag("include_superseded", say("Default false")),
        ArgumentSpec("mode", "string", say("Default hybrid"), enum=MODES, example='"hybrid"'),
        byte_budget(say("Size of the whole result, default 20000")),
    )
