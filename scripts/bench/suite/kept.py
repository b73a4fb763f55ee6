"""What lives from the forward to the backward: bytes that autograd keeps, by whoever computes the forward.

Counted is what `torch.autograd.graph.saved_tensors_hooks` are shown, each piece of memory once, without parameters,
buffers and inputs, which are there anyway. A compiled graph keeps its values through autograd as well, so that this
is the same count for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch


def kept_bytes(function: Callable[..., Any], module: torch.nn.Module, inputs: Mapping[str, Any]) -> int:
    """The bytes that a forward keeps for its backward. The function has been compiled; buffers are put back."""
    mine = [*module.parameters(), *module.buffers()]
    there = {
        tensor.untyped_storage().data_ptr() for tensor in [*mine, *inputs.values()] if isinstance(tensor, torch.Tensor)
    }
    found: dict[int, int] = {}
    # What has been counted lives on, so that no memory is given out twice.
    alive: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in there:
            found[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    before = [buffer.clone() for buffer in module.buffers()]
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = function(**inputs)
    del output
    with torch.no_grad():
        for buffer, value in zip(module.buffers(), before):
            buffer.copy_(value)
    return sum(found.values())
