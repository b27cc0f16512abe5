"""Text to search terms: pure, the same for text that is stored and text that is asked.

Words are folded (compatibility forms, case, Latin accents) and lightly stemmed.  What programmers write with
joints (`node/sqlite_log.py`, `getUserName`, `ORA-00942`, `10.0.3`) is findable whole and in parts.  Scripts
without spaces between words (Chinese, Japanese, Thai, ...) and Korean become characters and pairs of
characters.  No term contains a space.  Nothing here knows how terms are stored or weighed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Final

TERM_CHARS: Final = 64  # longer ones are cut when a single word, and dropped when a whole of parts
QUERY_TERMS: Final = 48  # of one question; a longer text is represented by terms spread over it

_JOINTS: Final = r"[./\\:@#~&+\-']"
_ASCII: Final = re.compile(rf"[A-Za-z](?:\+\+|#)(?![A-Za-z0-9_])|[A-Za-z0-9_]+(?:{_JOINTS}[A-Za-z0-9_]+)*")

_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30fa\u30fc-\u30ff\u3130-\u318f"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
_MARKS: Final = "\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0711\u0730-\u074a"
_MORE_MARKS: Final = "\u0900-\u0dff\u0f00-\u0fff\u135d-\u135f\u1700-\u177f\u1800-\u18af\u1a00-\u1cff"
_LETTER: Final = rf"(?![{_UNSPACED}])[\w{_MARKS}{_MORE_MARKS}]"
_ANY: Final = re.compile(
    rf"(?P<unspaced>[{_UNSPACED}]+)"
    rf"|(?P<chunk>[A-Za-z](?:\+\+|#)(?!{_LETTER})|(?:{_LETTER})+(?:{_JOINTS}(?:{_LETTER})+)*)"
    r"|(?P<symbol>[\u2190-\u2bff\U0001f000-\U0001faff])"
)
_ACCENTS: Final = re.compile("[\u0300-\u036f]")
_VOWELS: Final = frozenset("aeiouy")
_QUOTES: Final = str.maketrans({"\u2019": "'", "\u02bc": "'", "\u2010": "-", "\u2011": "-"})

_LEVELS: Final = (
    re.compile(r"[/\\:@#~&+]+"),
    re.compile(r"\.+"),
    re.compile(r"[_\-]+"),
)  # outer joints first
_CAMEL: Final = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_VERSIONED: Final = re.compile(r"([A-Za-z]{3,})[0-9]+")
_CAMEL_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+[a-z]*|[^A-Za-z0-9]+")


# Question and function words: they say what is asked for, and not what the answer says.  Without them
# recall@5 of the dialogue set rose from 55 to 58 %.
_ASKING: Final = """a about am an and any are as at be been but by can could did do does doing done for from had
    has have he her here him his how i if in into is it its me might my no not of on or our over she should so
    some such tell than that the their them then there these they this those to under up us was we were what
    when where which while who whom whose why will with would you your"""


def terms(text: str) -> list[str]:
    """Return the terms of text that is stored, in order, with repetitions."""
    return _terms(text, _singles_and_pairs)


def query_terms(text: str) -> list[str]:
    """Return the terms to look for, each once, in order, at most `QUERY_TERMS`.

    All of them are among `terms(text)`.  Question words are left out unless there is nothing else.
    """
    every = dict.fromkeys(_terms(text, _pairs))
    telling = [term for term in every if term not in _ASKING_TERMS] or list(every)
    if len(telling) > QUERY_TERMS:
        telling = [telling[i * len(telling) // QUERY_TERMS] for i in range(QUERY_TERMS)]
    return telling


def _terms(text: str, unspaced: Callable[[str], list[str]]) -> list[str]:
    found: list[str] = []
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text.translate(_QUOTES))
        text = unicodedata.normalize("NFKC", _ACCENTS.sub("", text))
    if text.isascii():
        for chunk in _ASCII.findall(text):
            found += _expand(chunk) if len(chunk) <= TERM_CHARS else _expand.__wrapped__(chunk)
        return found
    for match in _ANY.finditer(text):
        piece = match.group()
        if match.lastgroup == "unspaced":
            found += unspaced(piece)
        elif match.lastgroup == "symbol":
            found.append(piece)
        else:
            found += _expand(piece) if len(piece) <= TERM_CHARS else _expand.__wrapped__(piece)
    return found


def _singles_and_pairs(run: str) -> list[str]:
    return [*run, *map("".join, pairwise(run))]


def _pairs(run: str) -> list[str]:
    """Return what a run is looked for by: a single character is found as such, never as half a pair."""
    return [run] if len(run) == 1 else list(map("".join, pairwise(run)))


@lru_cache(maxsize=8192)
def _expand(chunk: str) -> tuple[str, ...]:
    """Return the terms of a word, or of words with joints between them."""
    if chunk[-1] in "+#":  # c++, f#
        return (chunk.casefold(),)
    if "'" in chunk:
        chunk = chunk.removesuffix("'s").removesuffix("'S").replace("'", "")
    found: list[str] = []
    _take_apart(chunk, 0, found)
    return tuple(found)


def _take_apart(piece: str, level: int, found: list[str]) -> None:
    """Append the whole, then its parts by the outermost joint that it has."""
    for deeper in range(level, len(_LEVELS)):
        parts = [part for part in _LEVELS[deeper].split(piece) if part]
        if len(parts) > 1:
            if len(piece) <= TERM_CHARS:
                found.append(piece.casefold())
            for part in parts:
                _take_apart(part, deeper + 1, found)
            return
        piece = parts[0] if parts else piece  # joints at an end, as in __init__
    found.append(_fold(piece))
    if _CAMEL.search(piece):
        found += map(_fold, _CAMEL_PARTS.findall(piece))
    elif versioned := _VERSIONED.fullmatch(piece):  # sqlite3, python311: also without the number
        found.append(_fold(versioned.group(1)))


def _fold(word: str) -> str:
    folded = word.casefold()[:TERM_CHARS]
    return _stem(folded) if folded.isascii() and folded.isalpha() else folded


def _stem(word: str) -> str:
    """Strip an English plural, and then -ed, -ing, -ly and a last e until nothing changes."""
    if len(word) < 4:
        return word
    word = _singular(word)
    while len(word) >= 4 and (shorter := _shorter(word)) != word:
        word = shorter
    return word


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _shorter(word: str) -> str:
    if word.endswith("ied") and len(word) > 4:
        return word[:-3] + "y"
    for ending in ("ing", "ed"):
        base = word.removesuffix(ending)
        if base != word and len(base) >= 3 and not word.endswith("eed") and not _VOWELS.isdisjoint(base):
            doubled = base[-1] == base[-2] and base[-1] not in "lsz"
            return base[:-1] if doubled else base
    if word.endswith("ly") and len(word) > 5:
        return word[:-2]
    return word[:-1] if word.endswith("e") and len(word) > 4 else word


_ASKING_TERMS: Final = frozenset(terms(_ASKING))
