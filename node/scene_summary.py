"""What a scene says, in sentences of its own members: the most central ones that do not repeat each other.  Pure.

Nothing is written anew, so a summary cannot say what no memory says.  Whole numbers only: every peer picks the
same sentences from the same members.  A summariser of another kind satisfies `Summariser`.

Source: maximal marginal relevance, Carbonell and Goldstein, "The Use of MMR, Diversity-Based Reranking for
Reordering Documents and Producing Summaries", SIGIR 1998; the weight of words by how many members use them,
Nenkova and Vanderwende, "The Impact of Frequency on Summarization", MSR-TR-2005-101.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from node.lexical_terms import terms

MEMBERS_READ: Final = 50  # those nearest to the middle: bounds work in huge scenes
SENTENCES_READ: Final = 8  # of one member
SENTENCE_CHARS: Final = 300
SUMMARY_CHARS: Final = 800  # well below what one memory should have
SENTENCES: Final = 5
TITLE_CHARS: Final = 80
RELEVANCE, REDUNDANCY = 7, 3  # tenths: lambda 0.7 of MMR

_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[\u3002\uff01\uff1f])|\n+")


@dataclass(frozen=True, slots=True)
class Member:
    """A member as a summariser reads it.

    Args:
        cell: its id.
        fit: score with the scene's middle, ten-thousandths; 10,000 for the middle itself.
    """

    cell: bytes
    content: str
    fit: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What a scene is called and what it says, with the members that were quoted."""

    title: str
    text: str
    quoted: tuple[bytes, ...]


class Summariser(Protocol):
    """Port: members in, a summary out.

    Called off the event loop, one scene at a time, with the middle first and then at most `MEMBERS_READ` - 1
    members by falling fit.  What it raises ends the consolidation with nothing changed.
    """

    def summarise(self, members: Sequence[Member]) -> Summary:
        """Return title, text (1 to 64 KiB of UTF-8) and sources."""
        ...


@dataclass(frozen=True, slots=True)
class _Sentence:
    place: int  # in reading order: members as given, sentences in order
    cell: bytes
    text: str
    terms: frozenset[str]


class ExtractiveSummariser:
    """The built-in summariser."""

    def summarise(self, members: Sequence[Member]) -> Summary:
        """Return sentences of members, one a line, in reading order."""
        sentences = list(_sentences(members))
        picked = sorted(_pick(sentences, _relevance(sentences, members)), key=lambda s: s.place)
        text = "\n".join(s.text for s in picked)
        return Summary(title_of(members[0].content), text, tuple(dict.fromkeys(s.cell for s in picked)))


def title_of(content: str) -> str:
    """Return the beginning of a text as a title: its first sentence, cut at a word if it is long."""
    first = next(iter(split_sentences(content)), content.strip() or content)
    return _cut(first.rstrip(".\u3002") or first, TITLE_CHARS)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, without space around them."""
    pieces = (" ".join(piece.split()) for piece in _END.split(text))
    return [piece for piece in pieces if piece]


def _sentences(members: Sequence[Member]) -> Iterable[_Sentence]:
    place, seen = 0, set()
    for member in members:
        for text in split_sentences(member.content)[:SENTENCES_READ] or [member.content.strip() or "..."]:
            short = _cut(text, SENTENCE_CHARS)
            if short not in seen:
                seen.add(short)
                yield _Sentence(place, member.cell, short, frozenset(terms(short)))
                place += 1


def _relevance(sentences: Sequence[_Sentence], members: Sequence[Member]) -> dict[int, int]:
    """Return per place the mean of its member's fit and of the share of members that use its words."""
    spread: Counter[str] = Counter()
    for cell in {m.cell for m in members}:
        spread.update({t for s in sentences if s.cell == cell for t in s.terms})
    fits = {m.cell: m.fit for m in members}
    out = {}
    for s in sentences:
        share = sum(spread[t] for t in s.terms) * 10_000 // (len(s.terms) * len(members)) if s.terms else 0
        out[s.place] = (fits[s.cell] + share) // 2
    return out


def _pick(sentences: Sequence[_Sentence], relevance: dict[int, int]) -> list[_Sentence]:
    picked: list[_Sentence] = []
    rest, room = list(sentences), SUMMARY_CHARS
    worst = {s.place: 0 for s in sentences}  # likeness to the picked sentence that is most alike
    while rest and len(picked) < SENTENCES:
        best = max(
            rest, key=lambda s: (RELEVANCE * relevance[s.place] - REDUNDANCY * worst[s.place], -s.place)
        )
        rest.remove(best)
        if picked and len(best.text) + 1 > room:
            continue
        picked.append(best)
        room -= len(best.text) + 1
        for s in rest:
            worst[s.place] = max(worst[s.place], _likeness(s.terms, best.terms))
    return picked


def _likeness(a: frozenset[str], b: frozenset[str]) -> int:
    """Return the share of words that two sentences have in common (Dice), ten-thousandths."""
    return 20_000 * len(a & b) // (len(a) + len(b)) if a or b else 0


def _cut(text: str, chars: int) -> str:
    """Return a text of at most so many characters, cut at a word where there is one."""
    if len(text) <= chars:
        return text
    head = text[: chars - 1]
    at_word = head.rsplit(" ", 1)[0].rstrip(" ,;:") if " " in head else head
    return (at_word or head) + "\u2026"
