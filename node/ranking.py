"""How far a cell is from a query: one number in 0..1 from both arms.  Pure.

The mix is absolute: cosine as it is, and BM25 as a share of what the query could score.  So a distance does not
depend on which other cells were found, and an agent sees when nothing fits.
"""

from __future__ import annotations

DENSE_WEIGHT = 0.5
LEXICAL_WEIGHT = 0.5
NEARLY_SAME = 0.9  # cosine from which the distance falls to 0, whatever the words weigh


def distance(mode: str, cosine: float, share: float) -> float:
    """Return the distance of a cell.

    Args:
        mode: hybrid, vector or lexical.
        cosine: of cell and query, -1 to 1.
        share: of the cell in what the query could score by words, 0 to 1.
    """
    cosine = min(1.0, max(0.0, cosine))
    if mode == "vector":
        return 1.0 - cosine
    if mode == "lexical":
        return 1.0 - share
    mixed = 1.0 - (DENSE_WEIGHT * cosine + LEXICAL_WEIGHT * share)
    return mixed * min(1.0, (1.0 - cosine) / (1.0 - NEARLY_SAME))
