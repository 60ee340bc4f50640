"""Token automata as flat device tables, which the sampler and the mask builder read."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass
class AutomatonTables:
    """Device tables of any number of automata over one vocabulary; global state ids, 0 is dead.

    Attributes:
        byte_class: uint8 [automata, 256].
        state_automaton: int32 [states], row of `byte_class`.
        state_edges: int32 [states], offset into `edges`, -1 where not expanded.
        edges: int32 [n], next state by byte class; 0 dead, -1 unknown.
        state_fewest: int32 [states], fewest bytes that complete the text, 0 where it is complete.
        state_row: int32 [states], index into `rows`, -1 where missing.
        state_enough: int32 [states], least budget at which that mask holds unnarrowed.
        rows: int32 [masks, ceil(V/32)], bit i%32 of word i//32 allows id i.
        token_start: int32 [V + 1], offsets into `token_bytes`; ids without bytes are never text.
        token_bytes: uint8 [total].
        eos: int32 [ceil(V/32)], packed ids that end a text.
    """

    byte_class: torch.Tensor
    state_automaton: torch.Tensor
    state_edges: torch.Tensor
    edges: torch.Tensor
    state_fewest: torch.Tensor
    state_row: torch.Tensor
    state_enough: torch.Tensor
    rows: torch.Tensor
    token_start: torch.Tensor
    token_bytes: torch.Tensor
    eos: torch.Tensor

    @property
    def vocab_size(self) -> int:
        """V."""
        return len(self.token_start) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of all tables."""
        return sum(table.nbytes for table in vars(self).values())

    def to(self, device: torch.device | str) -> AutomatonTables:
        """The same tables on a device."""
        return AutomatonTables(**{name: value.to(device) for name, value in vars(self).items()})
