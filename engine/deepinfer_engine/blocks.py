"""The pool of cache blocks. Counts references, so that sequences can share blocks one day."""

from __future__ import annotations

from collections.abc import Sequence


class BlockPool:
    """Blocks numbered 0 to total - 1, each free or referenced.

    Invariant: free + referenced == total, and a referenced block is never handed out again.

    Args:
        total: Number of blocks.
        block_tokens: Tokens per block.
    """

    def __init__(self, total: int, block_tokens: int) -> None:
        self.total = total
        self.block_tokens = block_tokens
        self._free = list(range(total - 1, -1, -1))
        self._references = [0] * total

    @property
    def free(self) -> int:
        """Number of free blocks."""
        return len(self._free)

    @property
    def used(self) -> int:
        """Number of referenced blocks."""
        return self.total - len(self._free)

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold `tokens` tokens."""
        return -(-tokens // self.block_tokens)

    def take(self, count: int) -> list[int]:
        """`count` free blocks, referenced once.

        Raises:
            ValueError: There are not that many.
        """
        if count > len(self._free):
            raise ValueError(f"{count} blocks asked for, {len(self._free)} are free")
        taken = [self._free.pop() for _ in range(count)]
        for block in taken:
            self._references[block] = 1
        return taken

    def share(self, blocks: Sequence[int]) -> None:
        """Add a reference to each block.

        Raises:
            ValueError: A block is free.
        """
        if any(self._references[block] == 0 for block in blocks):
            raise ValueError("a free block cannot be shared")
        for block in blocks:
            self._references[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """Drop a reference to each block; last to first, so that early blocks are reused last.

        Raises:
            ValueError: A block is free already.
        """
        for block in reversed(blocks):
            if self._references[block] == 0:
                raise ValueError(f"block {block} was released twice")
            self._references[block] -= 1
            if self._references[block] == 0:
                self._free.append(block)
