"""An embedder without a model: texts that share words get similar vectors.

For simulations and chaos runs, where thousands of texts must be embedded at no cost and alike in every
process.  Each word is hashed to a few signed coordinates (feature hashing, Weinberger et al. 2009), so two
texts are about as similar as the share of words that they have in common.  It knows no meaning.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from node.embedding import TOKENS_MAX, Embedding, Floats
from proto.errors import Invalid

_COORDINATES: Final = (
    8  # per word: two unrelated words then meet in 0.17 of 384 coordinates, signs cancelling
)
_WORD = re.compile(r"\w+")


class HashEmbedder:
    """See `node.embedding.Embedder`.

    Args:
        dimensions: 1 to 65,536; few make unrelated words collide.
    """

    def __init__(self, dimensions: int = 384) -> None:
        self._dimensions = dimensions

    @property
    def space(self) -> str:
        return f"hash-words-1-d{self._dimensions}"

    @property
    def dimensions(self) -> int:
        return self._dimensions

    async def query(self, text: str) -> Embedding:
        return self.embed(text)

    async def store(self, text: str) -> Embedding:
        return self.embed(text)

    async def bulk(self, texts: Sequence[str]) -> list[Embedding]:
        return [self.embed(text) for text in texts]

    def close(self) -> None:
        pass

    def embed(self, text: str) -> Embedding:
        """Embed one text at once; a text without words is hashed as one word.

        Raises:
            Invalid: the text has no UTF-8 form (lone surrogates).
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise Invalid(f"a text has a lone surrogate at character {error.start}") from error
        found = list(_WORD.finditer(text))
        words = [match.group().casefold() for match in found] or [text]
        vector = np.zeros(self._dimensions, dtype=np.float32)
        for word in set(words[:TOKENS_MAX]):
            places, signs = _coordinates(word, self._dimensions)
            np.add.at(vector, places, signs)
        length = float(np.linalg.norm(vector))
        if length == 0.0:  # all signs cancelled
            vector[0] = length = 1.0
        cut = len(words) > TOKENS_MAX
        chars = found[TOKENS_MAX - 1].end() if cut else len(text)
        return Embedding(vector / np.float32(length), chars, cut)


@lru_cache(maxsize=8192)
def _coordinates(word: str, dimensions: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Floats]:
    """Return (places int64[n], signs float32[n]) of a word, the same in every process."""
    digest = hashlib.blake2b(word.encode(), digest_size=4 * _COORDINATES).digest()
    hashes = np.frombuffer(digest, dtype="<u4").astype(np.int64)
    signs = np.where(hashes & 1, 1.0, -1.0).astype(np.float32)
    return (hashes >> 1) % dimensions, signs
