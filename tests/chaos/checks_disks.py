"""Checks of faults themselves, and of what a damaged or lost disk may cost: nothing wrong is served, no more lost."""

from __future__ import annotations

from collections.abc import Sequence

from tests.chaos.history import FAULT, HEAL, OK, Record
from tests.chaos.losses import Losses


def finally_every_session_is_there(records: Sequence[Record]) -> list[str]:
    """Durable set: a session that was opened is known everywhere, unless one disk held it and was struck (G1)."""
    losses = Losses(records)
    opened = {f"{r.who}/{r.value['session']}": r for r in records if r.what == "open" and r.kind == OK}
    return [
        f"{r.value['reader']} is known nowhere"
        for r in records
        if r.what == "gone" and not losses.may_be_lost(opened[r.value["reader"]])
    ]


def anytime_damage_is_never_served(records: Sequence[Record]) -> list[str]:
    """Damaged files: whoever starts on them serves what is sound, or does not start and says why (G9)."""
    return [wrong for r in records if r.kind == HEAL for wrong in r.value.get("wrong", ())]


def eventually_faults_show(records: Sequence[Record]) -> list[str]:
    """A fault that was not seen to act proves nothing: its signs are there by the time it is healed (G9, G10, G12)."""
    found = []
    due: dict[str, set[str]] = {}
    for record in records:
        if record.kind == FAULT:
            due[record.what] = set(record.value.get("must_show", ()))
        elif record.kind == HEAL:
            missed = due.pop(record.what, set()) - set(record.value.get("signs", ()))
            found += [
                f"{record.what} of {record.value.get('targets')}: not {sign}" for sign in sorted(missed)
            ]
    return found + [f"{what} was never healed" for what, signs in due.items() if signs]
