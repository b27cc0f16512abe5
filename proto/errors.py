"""The one tree of errors, and the table that says how each appears on every surface.

    HyphaeError
    ├── Invalid           the caller's value is wrong           definite
    ├── Unauthenticated   no key, or a key nobody knows         definite
    ├── Forbidden         the key lacks a scope                 definite
    ├── NotFound          not there, or not yours (the same)    definite
    ├── Conflict          another payload under the same name   definite
    ├── Overloaded        a bound was reached; come back        definite
    ├── Unavailable       a part that is needed is away         definite unless said otherwise
    ├── Uncertain         no answer in time; it may have happened   indefinite
    ├── ProtocolError     bytes that are not what they claim    definite
    ├── Corrupted         stored data that fails its check      definite
    └── Internal          a defect of ours                      indefinite

`definite` is true when the call did not and will not have an effect; when unsure it is false.
Texts carry the value, its size and the limit, and never a secret or the content of a memory.
"""

from __future__ import annotations

from dataclasses import dataclass


class HyphaeError(Exception):
    """Base of all errors that cross a boundary of the system.

    Args:
        message: what is wrong, with value and limit; what happened to the data; the next step.
        definite: overrides the default of the class.
        retry_after_ms: when to come back, if coming back helps.
    """

    code = "internal"
    default_definite = True

    def __init__(
        self, message: str, *, definite: bool | None = None, retry_after_ms: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.definite = self.default_definite if definite is None else definite
        self.retry_after_ms = retry_after_ms


class Invalid(HyphaeError):
    """The caller's value is wrong; nothing changed."""

    code = "invalid"


class Unauthenticated(HyphaeError):
    """No key, or one that this mesh does not know; nothing changed."""

    code = "unauthenticated"


class Forbidden(HyphaeError):
    """The key lacks a scope; nothing changed."""

    code = "forbidden"


class NotFound(HyphaeError):
    """Not there, or not the caller's: the two answer alike."""

    code = "not_found"


class Conflict(HyphaeError):
    """Something else already has this name; nothing changed."""

    code = "conflict"


class Overloaded(HyphaeError):
    """A bound was reached; nothing changed; `retry_after_ms` says when to come back."""

    code = "overloaded"


class Unavailable(HyphaeError):
    """A part that is needed is away; nothing changed unless `definite` is false."""

    code = "unavailable"


class Uncertain(Unavailable):
    """No answer in time: it may have happened.  A retry with the same idempotency key is safe."""

    default_definite = False


class ProtocolError(HyphaeError):
    """Bytes that are not what they claim to be; nothing of them was used."""

    code = "protocol"


class Corrupted(HyphaeError):
    """Stored data fails its check; it is not served."""

    code = "corrupted"


class Internal(HyphaeError):
    """A defect of ours; details are in the log of the peer."""

    code = "internal"
    default_definite = False


@dataclass(frozen=True, slots=True)
class Row:
    """How one error code appears on each surface.

    `rpc` lies outside the ranges that JSON-RPC and MCP reserve.
    """

    rpc: int
    http: int
    log_level: str
    hint: str


TABLE: dict[str, Row] = {
    "invalid": Row(4000, 400, "info", "Correct the value that the message names."),
    "unauthenticated": Row(4010, 401, "info", "Give a key: HYPHAE_API_KEY or HYPHAE_API_KEY_FILE."),
    "forbidden": Row(4030, 403, "info", "Ask the owner of the mesh for a key with this scope."),
    "not_found": Row(4040, 404, "info", "Check the id; it may also belong to somebody else."),
    "conflict": Row(4090, 409, "info", "Choose another name or idempotency key."),
    "overloaded": Row(4290, 429, "warning", "Wait for retry_after_ms, then try again."),
    "unavailable": Row(5030, 503, "warning", "See `hyphae status` and the log of the peer."),
    "protocol": Row(4220, 400, "warning", "Upgrade the older side, or find who sends this."),
    "corrupted": Row(5070, 500, "error", "Run `hyphae log verify`."),
    "internal": Row(5000, 500, "error", "A defect: report it with the log of the peer."),
}

_CLASSES: dict[str, type[HyphaeError]] = {
    c.code: c
    for c in (
        Invalid,
        Unauthenticated,
        Forbidden,
        NotFound,
        Conflict,
        Overloaded,
        Unavailable,
        ProtocolError,
        Corrupted,
        Internal,
    )
}


def rebuild(code: str, message: str, definite: bool, retry_after_ms: int | None) -> HyphaeError:
    """Return the error that travelled as these fields; an unknown code becomes `Internal`."""
    if code == "unavailable" and not definite:
        return Uncertain(message, retry_after_ms=retry_after_ms)
    return _CLASSES.get(code, Internal)(message, definite=definite, retry_after_ms=retry_after_ms)
