"""The memory that lives from the forward to the backward: bytes saved by autograd, for each implementation of the
forward.

Counts what `torch.autograd.graph.saved_tensors_hooks` see, each piece of memory once, without parameters, buffers and
inputs, which exist anyway. A compiled graph saves its values through autograd as well, so that the count is comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch


def kept_bytes(function: Callable[..., Any], module: torch.nn.Module, inputs: Mapping[str, Any]) -> int:
    """Returns the bytes that a forward saves for its backward. The function has been compiled; buffers are restored."""
    mine = [*module.parameters(), *module.buffers()]
    there = {
        tensor.untyped_storage().data_ptr() for tensor in [*mine, *inputs.values()] if isinstance(tensor, torch.Tensor)
    }
    found: dict[int, int] = {}
    # Counted tensors are kept alive, so that no memory is reused.
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
