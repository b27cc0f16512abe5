"""What ought to arrive, computed without a peer: every memory against one interest, pair by pair.

It uses the product's embedder and the definition of a score in `proto.scoring`, and none of the matching
that it is there to check.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from deploy.demo.corpus import Memory
from proto.scoring import Quantised, quantise, score


@dataclass(frozen=True, slots=True)
class Agreement:
    """How what arrived compares with what its authors labelled.

    Args:
        arrived: how many arrived.
        labelled: how many carry the label.
        both: how many do both.
    """

    arrived: int
    labelled: int
    both: int

    @property
    def precision(self) -> float:
        """The share of what arrived that was labelled; 1 when nothing arrived."""
        return self.both / self.arrived if self.arrived else 1.0

    @property
    def recall(self) -> float:
        """The share of what was labelled that arrived; 1 when nothing was labelled."""
        return self.both / self.labelled if self.labelled else 1.0


@dataclass(frozen=True, slots=True)
class Forecast:
    """The scores of memories against one interest.

    Args:
        reader: the agent that placed the interest; its own memories do not come back to it.
        threshold: ten-thousandths of cosine.
        scores: by content, ten-thousandths of cosine.
        authors: by content.
    """

    reader: str
    threshold: int
    scores: dict[str, int]
    authors: dict[str, str]

    def due(self, memories: Sequence[Memory]) -> set[str]:
        """Return the contents of those memories that ought to arrive."""
        contents = {memory.content for memory in memories}
        return {
            content
            for content in contents
            if self.scores[content] >= self.threshold and self.authors[content] != self.reader
        }


def foresee(reader: str, interest: str, threshold: int, memories: Sequence[Memory]) -> Forecast:
    """Embed an interest and memories, and score each pair.

    Raises:
        HyphaeError: there is no model, or it refused a text.
    """
    wanted, cells = asyncio.run(_embedded(interest, [memory.content for memory in memories]))
    return predict(reader, threshold, memories, wanted, cells)


def predict(
    reader: str, threshold: int, memories: Sequence[Memory], wanted: Quantised, cells: Sequence[Quantised]
) -> Forecast:
    """Return the forecast for vectors.

    Args:
        wanted: of the interest.
        cells: of the memories, in their order.
    """
    scores = {
        memory.content: score(wanted.q, wanted.n, cell.q, cell.n)
        for memory, cell in zip(memories, cells, strict=True)
    }
    return Forecast(reader, threshold, scores, {memory.content: memory.agent for memory in memories})


def agreement(arrived: set[str], memories: Sequence[Memory], label: str) -> Agreement:
    """Compare the contents that arrived with the label that the authors set."""
    labelled = {memory.content for memory in memories if label in memory.about}
    return Agreement(len(arrived), len(labelled), len(arrived & labelled))


async def _embedded(interest: str, texts: list[str]) -> tuple[Quantised, list[Quantised]]:
    from node.onnx_embedder import OnnxEmbedder

    embedder = OnnxEmbedder(spinning=False)  # kinder to what else runs on this machine
    try:
        wanted = await embedder.query(interest)
        cells = await embedder.bulk(texts)
    finally:
        embedder.close()
    return quantise(wanted.vector), [quantise(cell.vector) for cell in cells]
