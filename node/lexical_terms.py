"""Text as terms: words and numbers, identifiers and paths whole and in parts, bigrams of CJK runs.  Pure.

A compound (`retry_after_ms`, `src/app.py`, `E-4012`) gives its parts and, joined by `_`, itself, so that it is
found by either.  Runs of Chinese, Japanese and Korean, which no space divides, give overlapping pairs.
"""

from __future__ import annotations

import re
import unicodedata

TERM_CHARS = 64  # longer ones are cut: nobody types them, and base64 would fill the vocabulary
TERMS_MAX = 20_000  # of one text

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
_RUN = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+(?:[_\-./:\\#@+'’][^\W_{_CJK}]+)*")
_ASCII_RUN = re.compile(r"[a-zA-Z0-9]+(?:[_\-./:\\#@+'][a-zA-Z0-9]+)*")
_PARTS = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_IS_CJK = re.compile(rf"[{_CJK}]")


def terms(text: str) -> list[str]:
    """Return the terms of a text in order, with repetitions."""
    ascii_only = text.isascii()
    runs = _ASCII_RUN.findall(text) if ascii_only else _RUN.findall(unicodedata.normalize("NFKC", text))
    out: list[str] = []
    for run in runs[:TERMS_MAX]:
        if run.isalpha() and (run.islower() or run[1:].islower()) and run.isascii():
            out.append(run[:TERM_CHARS].lower())  # the usual word
        else:
            _add(run, out)
    return out


def _add(run: str, out: list[str]) -> None:
    if _IS_CJK.match(run):
        out.extend([run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)])
        return
    parts: list[str] = []
    for part in _PARTS.findall(run):
        pieces = _CAMEL.findall(part) if part.isascii() else []
        if len(pieces) > 1 and not part.isupper() and not part.islower():
            parts += pieces
            out.append(part.casefold()[:TERM_CHARS])
        else:
            parts.append(part)
    folded = [p.casefold()[:TERM_CHARS] for p in parts]
    out.extend(folded)
    if len(_PARTS.findall(run)) > 1:
        out.append("_".join(folded)[:TERM_CHARS])
