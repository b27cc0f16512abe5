"""The text of a service's error as an agent reads it: what is wrong, what happened to the data, what to do next.

Pure.  Whoever raises an error says what is wrong, and the rest where it knows better; what is missing is added
here, where the call and its idempotency key are known.  At most 300 characters with the code word: only what is
wrong is ever cut.
"""

from __future__ import annotations

import re

from mcp_gateway.refusals import TEXT_CHARS
from mcp_gateway.specs import CallSpec, ToolSpec
from mcp_gateway.unseen import visible
from proto.errors import HyphaeError, rebuild

MAY_BE_STORED = "It may have been stored."
MAY_BE_DONE = "It may have been done."

_STEPS = {
    "overloaded": "Try again in {wait_s} s.",
    "unavailable": "Work on; call {name} again later.",
    "corrupted": "Work on; the operator of the mesh can run `hyphae log verify`.",
    "internal": "Call {name} once more; if it fails again, tell the operator of the mesh.",
    "protocol": "Work on; the operator of the mesh can compare versions with `hyphae status`.",
    "unauthenticated": "Ask the owner of the mesh for a key.",
}
_LOOK_AGAIN = "Check it against what list_beacons, list_scenes, open_session or recall return."
_STORE_LATER = "Work on; store it again later."
_REPEAT_STORE = 'To repeat it safely call store again with idempotency_key "{key}".'
_OF_THE_DATA = re.compile(r"(?:Nothing was [^.]*|It may have been [^.]*)\.\s*")
_GENERAL = frozenset({"Nothing was changed.", "Nothing was done.", "Nothing was embedded."})
_FIRST_SENTENCE = re.compile(r"(.+?\.) +(?=[A-Z`])")


def explained(spec: CallSpec, error: HyphaeError, *, in_doubt: bool, key: str | None = None) -> HyphaeError:
    """Return the error with all three parts in its text.

    Args:
        spec: what was called.
        error: as the service or the way to it answered.
        in_doubt: some attempt may have had an effect.
        key: of a store, which makes its repetition safe.
    """
    said = _OF_THE_DATA.search(error.message)
    problem, advice = _parts(error.message, said)
    problem = visible(problem)  # it may repeat what somebody sent
    if in_doubt and not spec.reads:
        consequence, step = _doubt(spec, key)
    else:
        consequence = said[0].strip() if said else spec.consequence
        if consequence in _GENERAL or (not spec.stores and consequence.endswith(" stored.")):
            consequence = spec.consequence
        step = advice or _step(spec, error)
    room = TEXT_CHARS - len(f"{error.code}:   {consequence}{step}")
    if len(problem) > room:
        problem = f"{problem[: max(0, room - 3)]}..."
    text = " ".join(part for part in (problem, consequence, step) if part)
    return rebuild(error.code, text, error.definite and not in_doubt, error.retry_after_ms)


def _parts(message: str, said: re.Match[str] | None) -> tuple[str, str]:
    """Return what is wrong and what to do: around the sentence about the data, else from the first sentence on."""
    if said is not None:
        return message[: said.start()].strip(), _OF_THE_DATA.sub("", message[said.end() :]).strip()
    first = _FIRST_SENTENCE.match(message)
    return (message.strip(), "") if first is None else (first[1], message[first.end() :].strip())


def _doubt(spec: CallSpec, key: str | None) -> tuple[str, str]:
    if not spec.stores:
        return MAY_BE_DONE, spec.in_doubt
    return MAY_BE_STORED, _REPEAT_STORE.format(key=key) if key is not None else spec.in_doubt


def _step(spec: CallSpec, error: HyphaeError) -> str:
    if spec.stores and error.code == "unavailable" and error.retry_after_ms is None:
        return _STORE_LATER
    if error.code == "not_found" and isinstance(spec, ToolSpec):
        return _LOOK_AGAIN
    wait_s = max(1, round((error.retry_after_ms or 1000) / 1000))
    code = "overloaded" if error.code == "unavailable" and error.retry_after_ms is not None else error.code
    return _STEPS.get(code, "").format(name=spec.name, wait_s=wait_s)
