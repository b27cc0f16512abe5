"""`hyphae store`, `recall` and `inbox`: the tools that agents use most, for people and scripts."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Any

import click

from mcp_gateway.argument_kinds import CELL_TYPES
from node.cli import output
from node.cli.calls import Caller, call, key_id_of, talk
from node.cli.last_page import LastPage
from node.cli.options import data_dir_option, json_option, place, without_absent
from proto.errors import Invalid, Uncertain
from proto.limits import CONTENT_BYTES, PAGE

TYPES = click.Choice(CELL_TYPES, case_sensitive=False)


@click.command()
@click.argument("content")
@click.option("--type", "cell_type", type=TYPES, required=True, help="What kind of memory it is.")
@click.option("--project", help="Project it belongs to; `private` is yours alone.")
@click.option("--salience", type=float, help="0 to 1; 0.8 for what others should know. Default 0.5.")
@click.option("--tag", "tags", multiple=True, help="A tag; may be given several times.")
@click.option("--session", "session_id", help="Working session it belongs to.")
@click.option("--supersedes", metavar="NODE_ID", help="Memory that this one replaces.")
@click.option("--derived-from", metavar="NODE_ID", multiple=True, help="Memory that this one rests on.")
@click.option("--idempotency-key", help="Only to repeat a store whose outcome was uncertain.")
@data_dir_option
@json_option
def store(
    content: str, data_dir: Path | None, as_json: bool, idempotency_key: str | None, **rest: Any
) -> None:
    """Store a memory: one self-contained statement with its reason.

    It is kept durably and delivered to every agent whose beacon it matches. CONTENT of `-` reads stdin.

    \b
    Examples:
      hyphae store "The bank drops one request in 50, so payments retry three times" --type Decision
      hyphae store - --type Lesson --project billing --tag retries < lesson.txt
      hyphae store "Retries moved to the queue" --type Decision --supersedes 5b0c61f2
    """
    text = _read_stdin() if content == "-" else content
    key = idempotency_key or f"cli-{uuid.uuid4()}"
    args = without_absent(content=text, idempotency_key=key, **rest)
    try:
        result = call(place(data_dir), "store", args)
    except Uncertain as e:
        raise Uncertain(f"{e.message} Repeat it safely with --idempotency-key {key}.") from None
    if as_json:
        output.print_json(result)
    else:
        output.print_text(f"stored {result['node_id']}")
        if "note" in result:
            output.print_text(result["note"])


@click.command()
@click.argument("query")
@click.option("-k", "--limit", "k", type=int, default=10, show_default=True, help="How many, 1 to 100.")
@click.option("--project", help="Only this project. Default: every project you may read.")
@click.option("--type", "cell_types", type=TYPES, multiple=True, help="Only this kind; may be repeated.")
@click.option("--tag", "tags", multiple=True, help="Only with this tag; may be repeated.")
@click.option("--from", "from_agents", multiple=True, help='Only by this agent; "me" is you.')
@click.option("--since", help="Only stored since: 24h, 7d, or an RFC 3339 time.")
@click.option("--min-salience", type=float, help="Only at least this salient.")
@click.option(
    "--mode", type=click.Choice(["hybrid", "vector", "lexical"]), help="How to search. Default hybrid."
)
@click.option("--superseded", "include_superseded", is_flag=True, help="Also what has been replaced.")
@click.option("--ids", is_flag=True, help="Only ids and distances, without contents.")
@data_dir_option
@json_option
def recall(data_dir: Path | None, as_json: bool, ids: bool, include_superseded: bool, **args: Any) -> None:
    """Find the memories nearest to QUERY.

    Distance 0 is the same, 1 unrelated. A query that is a node id, or its first 8 or more characters,
    returns that memory. Nothing found is no error.

    \b
    Examples:
      hyphae recall "how do we retry payments?"
      hyphae recall "retries" --type Decision --type Constraint --project billing -k 3
      hyphae recall 5b0c61f2 --json
    """
    flags = {"include_content": not ids, "include_superseded": include_superseded or None}
    result = call(place(data_dir), "recall", without_absent(**args, **flags))
    if as_json:
        output.print_json(result)
        return
    found = result["results"]
    if not found:
        output.print_text("Nothing found.")
    elif ids:
        output.print_table(["NODE_ID", "DISTANCE"], [[c["node_id"], c["distance"]] for c in found])
    else:
        rows = [
            [
                c["node_id"][:8],
                f"{c['distance']:.2f}",
                c["cell_type"],
                c["project"],
                c["source_agent"],
                f"(replaced by {c['superseded_by'][:8]}) " * ("superseded_by" in c) + c["content"],
            ]
            for c in found
        ]
        output.print_table(["NODE", "DIST", "TYPE", "PROJECT", "BY", "CONTENT"], rows, wrap=5)
    if result.get("note"):
        output.note(result["note"])


@click.command()
@click.option("-n", "--limit", type=int, default=20, show_default=True, help="Entries of a page, 1 to 500.")
@click.option("--all", "everything", is_flag=True, help="Page after page until nothing is left.")
@click.option("--peek", is_flag=True, help="Only look: the place in the inbox stays.")
@click.option("--session", "session_id", help="Use this session's own place.")
@click.option("--project", help="Only this project; the rest stays unread.")
@click.option("--ack", help="Cursor of the page that has been read.")
@click.option("--skip-before", metavar="WHEN", help="Give up entries older than this time or span.")
@data_dir_option
@json_option
def inbox(
    data_dir: Path | None, as_json: bool, everything: bool, peek: bool, limit: int, **rest: Any
) -> None:
    """Read what matched your beacons, and what replaced memories that you know.

    The mesh keeps your place: what was shown counts as read at the next call. With --json each page is
    one line.

    \b
    Examples:
      hyphae inbox
      hyphae inbox --all --json
      hyphae inbox --peek --limit 5
    """
    if everything and peek:
        raise click.UsageError("--all moves on and --peek does not; give one of them.")
    limit = PAGE if everything else limit
    where = place(data_dir)
    last = LastPage(where.config, where.url or str(where.data), key_id_of(where), rest["session_id"] or "")
    args = without_absent(limit=limit, advance=False if peek else None, **rest)

    async def pages(caller: Caller) -> None:
        page = await _first_page(caller, args, last)
        _print_page(page, as_json)
        while everything and page["diffs"]:
            page = await caller.call("drain_inbox", {**args, "ack": page["cursor"]})
            if page["diffs"]:
                _print_page(page, as_json)
        if not peek:
            last.shown(page["cursor"])

    talk(where, pages)


async def _first_page(caller: Caller, args: dict[str, Any], last: LastPage) -> dict[str, Any]:
    """Drain, naming the page that was shown before; one that the mesh does not know is forgotten."""
    shown = None if "ack" in args else last.cursor()
    if shown is None:
        return await caller.call("drain_inbox", args)
    try:
        return await caller.call("drain_inbox", {**args, "ack": shown})
    except Invalid:
        last.forget()
        return await caller.call("drain_inbox", args)


def _print_page(page: dict[str, Any], as_json: bool) -> None:
    if as_json:
        output.print_json(page)
        return
    for diff in page["diffs"]:
        head = (diff["kind"], diff["cell_type"], diff["node_id"][:8], diff["project"], diff["created_at"])
        output.print_text(f"{'  '.join(head)}  by {diff['source_agent']}")
        output.print_text(f"  {diff.get('content', '')}")
        if "replaced_by" in diff:
            output.print_text(f"  replaced by {diff['replaced_by']}")
        if "with" in diff:
            output.print_text(f"  contradicts {diff['with'].get('content', diff['with']['node_id'])}")
    if not page["diffs"]:
        output.print_text("Nothing new.")
    if page["remaining"]:
        output.print_text(
            f"{page['remaining']} more: run it again." if page["cursor"] else "Nothing was moved."
        )
    if page.get("note"):
        output.note(page["note"])


def _read_stdin() -> str:
    data = sys.stdin.buffer.read(CONTENT_BYTES + 1)
    if len(data) > CONTENT_BYTES:
        raise Invalid(f"content is longer than {CONTENT_BYTES} bytes. Nothing was stored.")
    try:
        return data.decode("utf-8").rstrip("\n")
    except UnicodeDecodeError as e:
        raise Invalid(f"content is not UTF-8: byte {e.start} is wrong. Nothing was stored.") from None
