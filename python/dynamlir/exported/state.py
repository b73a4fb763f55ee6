"""The tensors of an exported program, as a module: parameters and buffers under their names, and constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch


class ProgramModule(torch.nn.Module):
    """An exported program as a module, with the parameters and buffers of the original."""

    def __init__(self, program: Callable[..., Any], training: bool | None) -> None:
        super().__init__()
        object.__setattr__(self, "_program", program)
        self.training = bool(training)
        object.__setattr__(self, "_made_in", training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program."""
        program: Any = self._program
        return program(*args, **kwargs)

    def train(self, mode: bool = True) -> ProgramModule:
        """Rejects any mode except the one that the program was captured in."""
        if self._made_in not in (None, mode):
            raise NotImplementedError(
                f"the program was exported in {'training' if self._made_in else 'evaluation'} mode, and stays in it"
            )
        return self


class State:
    """Tensors by their names: parameters and buffers live in a module, constants here."""

    def __init__(self, module: ProgramModule) -> None:
        self.module = module
        self.constants: dict[str, torch.Tensor] = {}
        self._owners: dict[str, tuple[dict[str, Any], str]] = {}
        self._facts: dict[str, tuple[torch.Size, torch.dtype, torch.device]] = {}

    def add_parameter(self, name: str, parameter: torch.nn.Parameter) -> None:
        """Adds a parameter."""
        owner, last = self._owner(name)
        owner.register_parameter(last, parameter)
        self._owners[name] = (owner._parameters, last)

    def add_buffer(self, name: str, buffer: torch.Tensor, persistent: bool) -> None:
        """Adds a buffer."""
        owner, last = self._owner(name)
        owner.register_buffer(last, buffer, persistent)
        self._owners[name] = (owner._buffers, last)

    def add_constant(self, name: str, tensor: torch.Tensor) -> None:
        """Adds a tensor that is neither."""
        self.constants[name] = tensor
        self._owners[name] = (self.constants, name)

    def settle(self) -> None:
        """Records that all tensors are present, in the form that the program requires."""
        self._facts = {name: (self[name].shape, self[name].dtype, self[name].device) for name in self}

    def now(self) -> dict[str, torch.Tensor]:
        """Returns all tensors; raises `ValueError` if one no longer has the form that the program requires."""
        found = {name: self[name] for name in self}
        for name, tensor in found.items():
            if (tensor.shape, tensor.dtype, tensor.device) != self._facts[name]:
                shape, dtype, device = self._facts[name]
                raise ValueError(
                    f"{name} is {tensor.dtype} of {tuple(tensor.shape)} on {tensor.device}, and the program was made "
                    f"for {dtype} of {tuple(shape)} on {device}"
                )
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._owners

    def __getitem__(self, name: str) -> torch.Tensor:
        table, last = self._owners[name]
        tensor: torch.Tensor = table[last]
        return tensor

    def __setitem__(self, name: str, tensor: torch.Tensor) -> None:
        table, last = self._owners[name]
        table[last] = tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._owners)

    def kind(self, name: str) -> str:
        """Returns ``parameter``, ``buffer``, ``non-persistent buffer`` or ``constant``."""
        if name in self.constants:
            return "constant"
        owner, last = self._owner(name)
        if last in owner._parameters:
            return "parameter"
        return "non-persistent buffer" if last in owner._non_persistent_buffers_set else "buffer"

    def _owner(self, name: str) -> tuple[torch.nn.Module, str]:
        *path, last = name.split(".")
        owner: torch.nn.Module = self.module
        for part in path:
            if part not in owner._modules:
                inner = torch.nn.Module()
                inner.training = self.module.training
                owner.add_module(part, inner)
            owner = owner.get_submodule(part)
        return owner, last


def copied(tensors: Iterable[torch.Tensor], written: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
    """Returns copies, by id, of those tensors that share memory with tensors the program writes.

    So running a program does not write to the original model. Copies share memory as the originals do.
    """
    storages = {tensor.untyped_storage().data_ptr() for tensor in written} - {0}
    made: dict[int, torch.UntypedStorage] = {}
    found: dict[int, torch.Tensor] = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address not in storages or id(tensor) in found:
            continue
        if address not in made:
            made[address] = storage.clone()
        with torch.no_grad():
            copy = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            copy.set_(made[address], tensor.storage_offset(), tensor.shape, tensor.stride())
        if isinstance(tensor, torch.nn.Parameter):
            copy = torch.nn.Parameter(copy, tensor.requires_grad)
        found[id(tensor)] = copy
    return found
