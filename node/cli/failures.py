"""How a command ends badly: one line on stderr, and an exit code that scripts can tell apart.

The table below is the one in `docs/cli.md` and `hyphae --help`.
"""

from __future__ import annotations

import os
import sys
import traceback

from mcp_gateway.unseen import visible
from proto.errors import HyphaeError

EXIT_CODES: dict[int, str] = {
    0: "done",
    1: "failed: a conflict, a defect, or anything not named below",
    2: "usage: an unknown option, or a value that is not allowed",
    3: "not found: no such memory, beacon or key, or not yours",
    4: "unavailable: no peer runs or answers, or it is overloaded; try again later",
    5: "not allowed: no key, an unknown or revoked key, or a missing scope",
    6: "damaged: stored data fails its check",
    130: "interrupted with Ctrl-C",
}
INTERRUPTED = 130
SHOWN_CHARS = 2_000  # of a message: what was typed may be in it, whatever its length
_BY_CODE = {
    "invalid": 2,
    "not_found": 3,
    "unavailable": 4,
    "overloaded": 4,
    "unauthenticated": 5,
    "forbidden": 5,
    "corrupted": 6,
}


def exit_code(error: HyphaeError) -> int:
    """Return the exit code that belongs to an error."""
    return _BY_CODE.get(error.code, 1)


def report(error: BaseException) -> int:
    """Say on stderr what went wrong, in one line, and return the exit code.

    With `HYPHAE_DEBUG=1` the traceback comes first.
    """
    if wants_traceback():
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, HyphaeError):
        complain(error.code, error.message)
        return exit_code(error)
    hint = "" if wants_traceback() else " Run it again with HYPHAE_DEBUG=1 to see where."
    complain("internal", f"{type(error).__name__}: {error}.{hint}")
    return 1


def complain(code: str, message: str) -> None:
    """Write one line `error: code: message` to stderr, of bounded length and with everything visible."""
    text = " ".join(message.split())
    if len(text) > SHOWN_CHARS:
        text = f"{text[: SHOWN_CHARS // 2]} ... {text[-SHOWN_CHARS // 2 :]}"
    print(f"error: {code}: {visible(text)}", file=sys.stderr)


def wants_traceback() -> bool:
    """Return whether `HYPHAE_DEBUG` asks for tracebacks."""
    return os.environ.get("HYPHAE_DEBUG", "").lower() in {"1", "true", "yes", "on"}
