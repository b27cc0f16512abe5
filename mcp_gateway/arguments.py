"""Validation of a call's arguments by its table: the one place that decides what a caller may send.

Pure.  The gateway checks before it asks a peer, and the peer checks again; both use `check`.  It knows no
tool by name: everything comes from the tables in `tools` and `operations`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from mcp_gateway.coercion import ABSENT, coerce
from mcp_gateway.moments import format_time_us, parse_since
from mcp_gateway.refusals import Refused, compose, example_call, names, shown
from mcp_gateway.specs import CallSpec
from proto.errors import Invalid

__all__ = ["check", "format_time_us", "parse_since", "suggest"]

# Words that models use for one another: the first of a group that the call knows is suggested.
_SYNONYMS = (
    ("k", "limit", "top_k", "topk", "n", "count", "max_results", "page_size", "num_results"),
    ("content", "text", "memory", "body", "message", "value", "fact", "note"),
    ("query", "q", "text", "question", "search", "search_query", "prompt", "node_id", "id", "memory_id"),
    ("interest", "query", "topic", "text", "subject", "filter"),
    ("cell_type", "cell_types", "type", "types", "kind", "kinds", "category", "memory_type"),
    ("idempotency_key", "id", "key", "uuid", "request_id"),
    ("session_id", "session", "id"),
    ("scene_id", "scene", "id"),
    ("supersedes", "replaces", "replace", "updates", "node_id"),
    ("derived_from", "sources", "based_on", "parents", "references", "reconciles"),
    ("title", "name", "description", "goal", "task"),
    ("since", "after", "from", "start", "since_time", "timestamp", "cursor", "next_since"),
    ("skip_before", "before", "until", "older_than"),
    ("ttl_seconds", "ttl", "expires_in", "expiry"),
    ("from_agents", "agents", "agent", "author", "authors", "from_agent"),
    ("ack", "cursor", "after", "page", "page_token"),
    ("cursor", "page", "offset", "next_cursor", "page_token"),
    ("salience", "importance", "priority", "min_salience", "weight"),
    ("min_salience", "salience", "importance", "min_importance"),
    ("threshold", "min_score", "similarity", "min_similarity", "distance"),
    ("include_content", "content", "with_content", "full", "hydrate", "verbose"),
    ("include_superseded", "include_old", "all_versions", "history"),
    ("project", "workspace", "repo", "repository", "namespace", "scope", "project_id"),
    ("tags", "tag", "labels", "keywords", "topics"),
    ("max_bytes", "max_tokens", "budget", "max_chars"),
    ("layer", "layers", "level"),
    ("layers", "layer", "level"),
    ("advance", "peek", "commit"),
)
_IDENTITY = frozenset(
    {"source_agent", "tenant_id", "tenant", "agent", "agent_id", "owner", "user_id", "user"}
)


def check(spec: CallSpec, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call as the service expects them, in the order of the table.

    Null means absent and is left out, as is an empty array where that means the same.  Checking what was
    checked changes nothing.

    Args:
        spec: the call.
        raw: whatever the caller sent.

    Raises:
        Invalid: an argument is unknown, missing or wrong; the text names it and an example; nothing changed.
    """
    try:
        return _checked(spec, raw)
    except Refused as refused:
        raise Invalid(compose(spec, refused)) from None


def _checked(spec: CallSpec, raw: Mapping[str, Any]) -> dict[str, Any]:
    for name in raw:
        if name not in spec.by_name:
            raise _unknown(spec, name)
    for argument in spec.required:
        if raw.get(argument.name) is None:
            choice = f"; one of {', '.join(argument.enum)}" if argument.enum else ""
            raise Refused(f"{argument.name} is missing{choice}.")
    checked: dict[str, Any] = {}
    for argument in spec.arguments:
        value = raw.get(argument.name)
        if value is not None and (value := coerce(argument, value)) is not ABSENT:
            checked[argument.name] = value
    return checked


def _unknown(spec: CallSpec, name: Any) -> Refused:
    problem = f"{spec.name} has no argument {shown(name)[1:-1] if isinstance(name, str) else shown(name)}"
    guess = suggest(name, spec.by_name) if isinstance(name, str) else None
    if name in spec.elsewhere:
        problem += f"; {spec.elsewhere[name]}."
    elif guess is not None:
        problem += f"; did you mean {guess}?"
    elif isinstance(name, str) and name.lower() in _IDENTITY:
        problem += ": who you are comes from your key."
    else:
        problem += "."
    meant = spec.by_name.get(guess) if guess is not None else None
    return Refused(f"{problem} {names(spec)}", example_call(spec, meant))


def suggest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, or None."""
    known = list(known)
    wanted = name[:64].lower()
    if wanted in known:
        return wanted
    for group in _SYNONYMS:
        if wanted in group:
            for candidate in group:
                if candidate in known:
                    return candidate
    close = get_close_matches(wanted, known, n=1)
    return close[0] if close else None
