"""Notes in results: one or two sentences for the model that reads it, only when there is something to say.

Pure: plain values in, a text or None out.  A note names the next call; it repeats no data and holds no text
of a user's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proto import limits

# As the description of recall says.  Measured on 30 memories of a software project: the nearest relevant one of 15
# questions lay at 0.21 to 0.74 (three in four under 0.6), the nearest of 120 questions about things never stored at
# 0.77 to 0.97 (119 beyond 0.8); at 0.7 one in eight of the relevant would have been called unrelated.
FAR = 0.8
BACKLOG = 500  # entries that still wait: several pages of the largest size that a model can take in
FILTERS = ("project", "cell_types", "tags", "from_agents", "since", "min_salience")

NO_BEACON = "Nothing waits, and you have no beacon: place_beacon once per subject that you care about."
MAY_REPEAT = "may_repeat: some of these may have been listed to you before; diff_id tells."
CONTENT_CUT = f"content is cut at {limits.ENTRY_CHARS} characters where there is content_chars:"
READ_WHOLE = "recall with its node_id as query and include_content true reads one whole."
UNKNOWN_ID = "No memory that you may read has this id; these were found by its text."
BEYOND = f"content is cut to max_bytes. Raise it, up to {limits.RESULT_BYTES_MAX}."
BEYOND_ALL = "content is cut: no result of a tool can hold it whole. REST can: GET /v1/nodes/{node_id}."


def joined(*notes: str | None) -> str | None:
    """Return the notes that there are as one text, or None."""
    return " ".join(note for note in notes if note) or None


def of_search(
    args: Mapping[str, Any], layer: int, found: Sequence[Mapping[str, Any]], cut: int
) -> str | None:
    """Return what to say about the results of a search.

    Args:
        args: of the call.
        layer: that was searched.
        found: every result, also those that are cut away.
        cut: how many did not fit `max_bytes`.
    """
    if not found:
        return _nothing_found(args, layer)
    far = None
    if found[0]["distance"] > FAR:
        far = f"Nothing within distance {FAR}: these are probably unrelated. Try other words."
    return joined(far, _cut_results(args, cut) if cut else None, content_cut(found))


def _nothing_found(args: Mapping[str, Any], layer: int) -> str:
    given = [name for name in FILTERS if name in args]
    if layer > 0:
        return (
            f"Nothing is on layer {layer} for this call; recall searches layer 0, where nearly everything is."
        )
    if given:
        return f"Nothing passes these filters. Widen or leave out {', '.join(given)}."
    return "Nothing that you may read is stored yet: store what others should know."


def _cut_results(args: Mapping[str, Any], cut: int) -> str:
    more = f"{cut} more did not fit max_bytes."
    if args.get("max_bytes", limits.RESULT_BYTES) < limits.RESULT_BYTES_MAX:
        return f"{more} Raise it, up to {limits.RESULT_BYTES_MAX}, or narrow the filters."
    return f"{more} Narrow the filters; without include_content all ids fit."


def content_cut(items: Sequence[Mapping[str, Any]]) -> str | None:
    """Return how to read whole what is cut in these items, if something is."""
    cut = any("content_chars" in part for item in items for part in (item, item.get("replaced_by", {})))
    return f"{CONTENT_CUT} {READ_WHOLE}" if cut else None


def of_page(
    diffs: Sequence[Mapping[str, Any]],
    remaining: int,
    *,
    advanced: bool,
    may_repeat: bool,
    skipping: bool,
    has_beacon: bool,
) -> str | None:
    """Return what to say about a page of the inbox.

    Args:
        remaining: entries that wait after this page.
        advanced: the page is recorded.
        may_repeat: the page carries the mark.
        skipping: the call gave up entries itself.
        has_beacon: one of the agent's is standing.
    """
    more = None
    if not diffs and not remaining:
        return None if has_beacon else NO_BEACON
    if not advanced:
        more = f"Only looked: {remaining} wait, and drain_inbox without advance reads them."
    elif remaining:
        more = f"{remaining} more wait: call drain_inbox again."
        if remaining > BACKLOG and not skipping:
            more += ' To give up old ones pass skip_before, such as "7d".'
    return joined(more, MAY_REPEAT if may_repeat else None, content_cut(diffs))
