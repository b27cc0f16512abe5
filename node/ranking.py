"""STUB to unblock others; replaced by its owner."""

from __future__ import annotations


def distance(mode: str, cosine: float, share: float) -> float:
    score = cosine if mode == "vector" else share if mode == "lexical" else 0.35 * cosine + 0.65 * share
    return min(1.0, max(0.0, 1.0 - score))
