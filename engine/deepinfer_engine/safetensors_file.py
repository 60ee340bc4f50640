"""Tensors of one or several safetensors files, by name, read through a memory map.

The `safetensors` library checks headers and offsets; bfloat16, which NumPy does not know, is taken
as bit patterns from the same map.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from deepinfer_kernels.cpu import Weight
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from .errors import EngineError

_TYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}


class Shards:
    """All tensors of a model folder.

    Args:
        folder: Holds model.safetensors, or shards with model.safetensors.index.json.
        progress: Called with (label, bytes done, bytes in all).

    Attributes:
        digest: Hash over everything read.

    Raises:
        EngineError: A file is missing or damaged.
    """

    def __init__(self, folder: Path, progress: Callable[[str, int, int], None]) -> None:
        self._folder = folder
        self._progress = progress
        self.digest = hashlib.blake2b(digest_size=16)
        self._where: dict[str, tuple[NDArray[np.uint8], dict[str, Any], str]] = {}
        self._read_names: set[str] = set()
        files = self._files()
        for file in files:
            self._index(file)
        self._total = sum(file.stat().st_size for file in files)
        self._done = 0

    def __enter__(self) -> Self:
        """The shards themselves."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go of the maps."""
        self._where.clear()

    def _files(self) -> list[Path]:
        single = self._folder / "model.safetensors"
        if single.exists():
            return [single]
        index = self._folder / "model.safetensors.index.json"
        if not index.exists():
            raise EngineError(
                "model",
                f"{self._folder} has neither model.safetensors nor model.safetensors.index.json",
                hint="Only safetensors weights are read; convert .bin files first",
            )
        try:
            names = sorted(
                set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
            )
        except (ValueError, KeyError, AttributeError) as error:
            raise EngineError(
                "model", f"{index} is damaged: {error!r}", hint="Fetch the file again"
            ) from None
        files = [self._folder / name for name in names]
        missing = [file.name for file in files if not file.exists()]
        if missing:
            raise EngineError(
                "model",
                f"{self._folder} lacks {missing[0]} ({len(missing)} of {len(files)} shards)",
                hint="Fetch the model again",
            )
        return files

    def _index(self, file: Path) -> None:
        try:
            with safe_open(file, framework="numpy"):
                pass  # checks the header, the offsets and the file's length
            with file.open("rb") as stream:
                (length,) = struct.unpack("<Q", stream.read(8))
                header = json.loads(stream.read(length))
            data = np.memmap(file, np.uint8, "r", offset=8 + length)
        except (SafetensorError, OSError, ValueError, struct.error) as error:
            raise EngineError(
                "model",
                f"{file.name} is damaged or truncated ({file.stat().st_size} bytes): {error}",
                hint="Fetch the file again",
            ) from None
        for name, entry in header.items():
            if name != "__metadata__":
                self._where[name] = (data, entry, file.name)

    def _read(self, name: str, shape: tuple[int, ...]) -> tuple[str, NDArray[Any]]:
        if name not in self._where:
            raise EngineError(
                "model", f"{self._folder.name} lacks the tensor {name}", hint="Fetch it again"
            )
        data, entry, file = self._where[name]
        if tuple(entry["shape"]) != shape:
            raise EngineError(
                "model",
                f"tensor {name} in {file} is {entry['shape']}, config.json says {list(shape)}",
                hint="Weights and config.json belong to different models; fetch both again",
            )
        kind = entry["dtype"]
        if kind not in _TYPES:
            raise EngineError(
                "model",
                f"tensor {name} in {file} is stored as {kind}, which is not supported",
                hint=f"Supported: {', '.join(_TYPES)}",
            )
        self._read_names.add(name)
        first, last = entry["data_offsets"]
        raw = data[first:last].tobytes()
        self.digest.update(name.encode())
        self.digest.update(raw)
        self._done += last - first
        self._progress("weights", self._done, self._total)
        return kind, np.frombuffer(raw, _TYPES[kind]).reshape(shape)

    def refuse_unread(self, ignored: Sequence[str]) -> None:
        """Refuse tensors that no part of the model has asked for, as they would change it.

        Args:
            ignored: Names that may be there. So may be the rotary frequencies of older files.
        """
        left = {
            name
            for name in self._where.keys() - self._read_names
            if name not in ignored and not name.endswith("rotary_emb.inv_freq")
        }
        if left:
            name = min(left)
            raise EngineError(
                "model",
                f"{self._where[name][2]} holds the tensor {name}, which a Llama model does not "
                f"have ({len(left)} such tensors)",
                hint="Biases, adapters and experts are not supported; use another model",
            )

    def matrix(self, name: str, rows: int, columns: int) -> Weight:
        """A matrix [rows, columns]."""
        kind, values = self._read(name, (rows, columns))
        if kind == "BF16":
            return Weight.from_bfloat16_bits(values)
        return Weight.from_float32(values.astype(np.float32))

    def vector(self, name: str, size: int) -> NDArray[np.float32]:
        """A vector [size] in float32."""
        kind, values = self._read(name, (size,))
        if kind == "BF16":
            return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return values.astype(np.float32)
