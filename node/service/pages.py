"""Cursors: the text that stands for a page, bound to the agent that was listed it."""

from __future__ import annotations

from node.service.context import Call
from proto.errors import HyphaeError, Invalid
from proto.ids import ID_BYTES, AgentId, PageId, digest, format_base32, parse_base32

_CHECK = 4
BEFORE_ANY = PageId(bytes(ID_BYTES))  # what there is to acknowledge before a first page was listed


def format_cursor(agent: AgentId, page: PageId) -> str:
    """Return the cursor of a page."""
    return "p" + format_base32(page + digest("cursor", agent, page)[:_CHECK])


def parse_cursor(agent: AgentId, text: str, field: str) -> PageId:
    """Return the page of a cursor.

    Raises:
        Invalid: no cursor, a damaged one, or another agent's; nothing changed, nothing is listed again.
    """
    try:
        data = parse_base32(text[1:], field) if text[:1] == "p" else b""
    except HyphaeError:
        data = b""
    page = PageId(data[:ID_BYTES])
    if len(data) != ID_BYTES + _CHECK or data[ID_BYTES:] != digest("cursor", agent, page)[:_CHECK]:
        raise Invalid(
            f"{field} is no cursor of yours. Nothing was committed and your place is unchanged."
            f" Pass the cursor of the page before, or leave {field} out."
        )
    return page


def named_page(call: Call) -> PageId | None:
    """Return the page that a call names as read: its `ack`, else the last one that the gateway wrote out.

    None also where `ack` says that there was none; see `names_pages`.
    """
    agent = call.principal.agent_id
    if "ack" in call.args:
        page = parse_cursor(agent, call.args["ack"], "ack")
        return None if page == BEFORE_ANY else page
    if call.request.wrote:
        return parse_cursor(agent, call.request.wrote, "the gateway's last page")
    return None


def names_pages(call: Call) -> bool:
    """Tell whether a call says which page was read, or that none was, so that nothing is to be concluded."""
    return "ack" in call.args or call.request.wrote is not None
