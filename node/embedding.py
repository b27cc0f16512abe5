"""Port: text in, unit vectors out.

An `Embedder` promises the same space for its whole life, answers in the order of its input, and lets a query
overtake everything else that waits.  It knows nothing of cells, beacons or indexes.  Adapters:
`onnx_embedder` (the product) and `hash_embedder` (simulation and chaos).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

TOKENS_MAX: Final = 256  # of one text, special tokens included; what lies beyond is not embedded


@dataclass(frozen=True, slots=True)
class Embedding:
    """One embedded text.

    Args:
        vector: float32[dim], length 1.
        chars: how much of the text, from its beginning, the vector stands for.
        cut: the text was longer than that.
    """

    vector: Floats
    chars: int
    cut: bool


class Embedder(Protocol):
    """Turns text into vectors, off the caller's thread.

    A call that is cancelled leaves nothing behind: its texts are skipped when their turn comes.
    An error concerns the call that raised it and no other.
    """

    @property
    def space(self) -> str:
        """ASCII name of the vector space: vectors of different names must never be compared."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        ...

    async def query(self, text: str) -> Embedding:
        """Embed a question, before everything else that waits.

        Raises:
            Invalid: the text has no UTF-8 form; Overloaded: too much waits, `retry_after_ms` says how long;
            Unavailable: there is no model, or it is still loading.  Nothing is left behind.
        """
        ...

    async def store(self, text: str) -> Embedding:
        """Embed one text to be stored, before any bulk.

        Raises:
            As `query`.
        """
        ...

    async def bulk(self, texts: Sequence[str]) -> list[Embedding]:
        """Embed many texts to be stored, after everything else.

        Returns:
            One embedding a text, in the same order.

        Raises:
            As `query`; if one text is refused, none is embedded.
        """
        ...

    def close(self) -> None:
        """Stop; calls that still wait fail with Unavailable.  Closing twice is harmless."""
        ...
