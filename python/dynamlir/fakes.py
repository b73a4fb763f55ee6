"""Fakes for the tensors a graph receives; overlap between inputs is preserved, strangers are refused."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from .device import device_of
from .reasons import Fallback
from .recording import dtype_name

_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer, FakeTensor)


# Looked up once: `getLogger` takes a lock, which an interruption could leave taken.
_FAKES_LOG = logging.getLogger("torch._subclasses.fake_tensor")


@contextlib.contextmanager
def quiet_fakes() -> Iterator[None]:
    """Suppresses torch's log entries for operators that refuse fakes: the consequence is reported elsewhere."""
    thread = threading.get_ident()

    def is_of_another(record: logging.LogRecord) -> bool:
        return record.thread != thread

    _FAKES_LOG.addFilter(is_of_another)
    try:
        yield
    finally:
        _FAKES_LOG.removeFilter(is_of_another)


def check_supported(tensor: torch.Tensor) -> None:
    """Raises `Fallback` unless ``tensor`` is a plain, strided tensor of a known element type, on the CPU or CUDA."""
    kind = type(tensor)
    if kind not in _PLAIN:
        raise Fallback("subclass", kind.__name__)
    if tensor.layout is not torch.strided:
        raise Fallback("layout", str(tensor.layout))
    if tensor.is_nested or tensor.is_quantized:
        raise Fallback("layout", "nested" if tensor.is_nested else "quantized")
    # A fake's `device` is a dispatched operation; this is the result it would have.
    device = tensor.fake_device if isinstance(tensor, FakeTensor) else tensor.device
    if device.type not in ("cpu", "cuda"):
        raise Fallback("device", str(device))
    dtype_name(tensor.dtype)
    if tensor.is_neg() or tensor.is_conj():
        raise Fallback("lazy-bit")
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        raise Fallback("subclass", "a tensor of a function transform")


_CPU = torch.device("cpu")
_META = torch.device("meta")


def made_fake(mode: FakeTensorMode, elem: torch.Tensor, device: torch.device = _CPU) -> FakeTensor:
    """Returns ``FakeTensor(mode, elem, device)`` in a sixth of the time: the constructor always finds the same."""
    state = fake_state(mode, device)
    fake = torch.Tensor._make_subclass(FakeTensor, elem, False, dispatch_device=True, device_for_backend_keys=device)
    if mode._allow_unsafe_data_ptr_access:
        torch._C._set_warn_deprecated_on_mutable_data_ptr(fake)
    else:
        torch._C._set_throw_on_mutable_data_ptr(fake)
    vars(fake).update(state)
    if fake._version:
        torch._C._autograd._unsafe_set_version_counter((fake,), (0,))
    return fake


def fake_state(mode: FakeTensorMode, device: torch.device) -> dict[str, Any]:
    """Returns the attributes that the constructor gives each fake of a mode on a device, cached with the mode."""
    states: dict[torch.device, dict[str, Any]] = vars(mode).setdefault("_dynamlir_states", {})
    state = states.get(device)
    if state is None:
        with torch._C._DisableTorchDispatch():
            state = states[device] = dict(vars(FakeTensor(mode, torch.empty(0, device="meta"), device)))
    return state


class Giving(TorchDispatchMode):
    """Answers operations with an existing tensor."""

    answer: torch.Tensor

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return device_of(args[0]) if func is torch.ops.prim.device.default else self.answer


def give_history(fake: torch.Tensor) -> None:
    """Makes autograd treat a fake as the result of a differentiable operation; only an operation can do that."""
    leaf = torch.empty(0, device=_META, requires_grad=True)
    with torch.enable_grad(), Giving() as giving:
        giving.answer = fake
        leaf.clone()


class Faker:
    """Creates fakes for one recording. The same tensor gives the same fake; equal storages give equal storages."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self.mode = mode
        self._fakes: dict[int, torch.Tensor] = {}
        self._storages: dict[Hashable, torch.Tensor] = {}
        self._alive: list[Any] = []
        self._varying: set[int] = set()
        """The storages of tensors with dynamic sizes."""

    def known(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Returns the existing fake for ``tensor``."""
        return self._fakes.get(id(tensor))

    def storage(self, tensor: torch.Tensor) -> Any:
        """Returns a key that distinguishes the memory of a tensor's fake, which need not exist, from other memory."""
        key = tensor.untyped_storage()._cdata
        base = self._storages.get(key)
        return ("new", key) if base is None else base.untyped_storage()._cdata

    def fake(self, tensor: torch.Tensor, sized: tuple[list[Any], list[Any]] | None = None) -> torch.Tensor:
        """Returns the fake for ``tensor``, which may itself be a fake of another mode; with the given sizes and
        strides, some of them dynamic."""
        found = self._fakes.get(id(tensor))
        if found is not None:
            return found
        check_supported(tensor)
        if sized is not None or tensor.untyped_storage()._cdata in self._varying:
            fake = self._sized(tensor, sized)
        else:
            fake = self.make(
                tensor.dtype,
                [int(size) for size in tensor.shape],
                [int(stride) for stride in tensor.stride()],
                int(tensor.storage_offset()),
                tensor.untyped_storage()._cdata,
                int(tensor.untyped_storage().nbytes()),
                device_of(tensor),
            )
        if tensor.requires_grad and tensor.is_leaf:
            fake.requires_grad_(True)
        elif tensor.requires_grad:
            give_history(fake)
        self._fakes[id(tensor)] = fake
        self._alive.append(tensor)
        return fake

    def _sized(self, tensor: torch.Tensor, sized: tuple[list[Any], list[Any]] | None) -> torch.Tensor:
        """Returns a fake with dynamic sizes, which covers all of its memory, whose amount is dynamic as well."""
        storage = tensor.untyped_storage()._cdata
        if sized is None or storage in self._storages:
            raise Fallback("dynamic-shape", "a tensor whose sizes vary shares its memory with another input")
        base = torch.empty_strided(*sized, dtype=tensor.dtype, device=_META)
        if offset := int(tensor.storage_offset()):
            # The amount of memory after it is unknown.
            memory = torch.empty(
                base.untyped_storage().nbytes() // base.element_size() + offset, dtype=tensor.dtype, device=_META
            )
            base = torch.empty(0, dtype=tensor.dtype, device=_META).set_(memory.untyped_storage(), offset, *sized)
        self._storages[storage] = base
        self._varying.add(storage)
        return made_fake(self.mode, base, device_of(tensor))

    def make(
        self,
        dtype: torch.dtype,
        sizes: list[int],
        strides: list[int],
        offset: int,
        storage: Hashable,
        nbytes: int,
        device: torch.device | None = None,
    ) -> torch.Tensor:
        """Returns a fake tensor over the fake of the storage with key ``storage``."""
        base = self._storages.get(storage)
        meta = None
        if base is None:
            # Usually a tensor covers all of its memory.
            base = meta = torch.empty_strided(sizes, strides, dtype=dtype, device=_META)
            if offset or meta.untyped_storage().nbytes() != nbytes:
                base, meta = torch.empty(nbytes, dtype=torch.uint8, device=_META), None
            self._storages[storage] = base
        if meta is None:
            meta = torch.empty(0, dtype=dtype, device=_META)
            meta.set_(base.untyped_storage(), offset, sizes, strides)
        return made_fake(self.mode, meta, device or _CPU)


def is_stranger(value: Any) -> bool:
    """Returns true for a tensor that is not a fake."""
    return isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)
