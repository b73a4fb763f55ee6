"""Queries on the histories that torch gives to fakes: the user's operators that are differentiated, and the values that
autograd has saved.

Torch calls an operator with a derivative from `torch.library.register_autograd` beneath its own function, where grad
mode is off: only its results show afterwards that it has a derivative.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any

import torch

from . import modes
from .fake_memory import share_counter
from .reasons import Fallback
from .recording import DETACH, OpRecord, Recording, Ref, TensorMeta

if TYPE_CHECKING:
    from .recorder import OpRecorder

Met = tuple[OpRecord, list[torch.Tensor], list[torch.Tensor | None]]
"""An operator recorded with grad mode off, its operands, some of which require a gradient, and its results."""

_CREATIONS = {
    torch._C._autograd.CreationMeta.NO_GRAD_MODE: "no_grad",
    torch._C._autograd.CreationMeta.MULTI_OUTPUT_NODE: "one_of_several",
    # Compiled code creates this instead, if the memory is not shared.
    torch._C._autograd.CreationMeta.IN_CUSTOM_FUNCTION: "no_grad",
}

_GENERATED = "GeneratedBackwardFor_"
"""The prefix of torch's names for the histories of such operators."""
_OURS = "_HistoryBackward"
"""The name of the histories recorded by `functions`."""


def settle(met: list[Met], fakes: Iterable[torch.Tensor]) -> None:
    """Records which operators are differentiated. Raises `Fallback` if ``fakes`` have the history of another function,
    which the recording does not contain."""
    for record, operands, results in met:
        if any(_name(result).startswith(_GENERATED) for result in results if result is not None):
            record.grad_enabled = True
            record.needs_grad = tuple(at for at, tensor in enumerate(operands) if tensor.requires_grad)
    met.clear()
    for fake in fakes:
        name = _name(fake)
        if name and not name.startswith((_GENERATED, _OURS)):
            raise Fallback("autograd", f"{name}, the history of a torch.autograd.Function")


def creation(fake: torch.Tensor) -> str | None:
    """Returns how a fake was created, as far as torch's rules for later writes depend on it: as a view with grad mode
    off (``no_grad``), or as ``one_of_several`` views of an operation such as ``unbind``; else None."""
    made = _CREATIONS.get(torch._C._autograd._get_creation_meta(fake)) if fake._is_view() else None
    # A view of a tensor created with grad mode off has a history again, which leads to that tensor.
    return None if made == "no_grad" and fake.grad_fn is not None else made


def mark_made_in_function(fake: torch.Tensor) -> None:
    """Marks a view as created by a `torch.autograd.Function`: torch has a special message for writes to it."""
    if fake._is_view():
        torch._C._autograd._set_creation_meta(fake, torch._C._autograd.CreationMeta.IN_CUSTOM_FUNCTION)


def refuse_made_in_function(recorder: OpRecorder, fake: torch.Tensor) -> None:
    """Raises `Fallback` for a view of pre-existing memory created by such a function."""
    of_function = torch._C._autograd.CreationMeta.IN_CUSTOM_FUNCTION
    if not fake._is_view() or torch._C._autograd._get_creation_meta(fake) != of_function:
        return
    if fake.untyped_storage()._cdata in recorder._input_storages:
        raise Fallback("autograd", "a view of an argument that a torch.autograd.Function has made is returned")


def _name(tensor: torch.Tensor) -> str:
    """Returns the name of a history created by a Python function; empty for others."""
    history = _history(tensor)
    return str(history.name()) if isinstance(history, torch.autograd.graph.Node) and _is_of_python(history) else ""


def _is_of_python(node: Any) -> bool:
    return isinstance(node, torch.autograd.function.BackwardCFunction)


def _history(tensor: torch.Tensor) -> Any:
    """Returns the node that created a tensor; None if it does not exist."""
    try:
        return tensor.grad_fn if tensor.requires_grad else None
    except RuntimeError:  # a view made with grad mode off, of a tensor written since: it has no history
        return None


def layers(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yields the tensor and, for a tensor of a `torch.func` transform, those beneath it: each has its own history."""
    functorch = torch._C._functorch
    yield tensor
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
        yield tensor


def nodes(tensors: Iterable[torch.Tensor]) -> Iterator[Any]:
    """Yields the nodes of autograd's graph that gradients of tensors go to, each once, starting at the tensors."""
    waiting = [node for node in map(_history, tensors) if node is not None]
    seen: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        waiting += [further for further, _ in reversed(node.next_functions) if further is not None]


def saved(node: Any) -> Iterator[torch.Tensor]:
    """Yields the tensors that a node has saved. Torch raises if one was written since, or if they were freed."""
    if _is_of_python(node):
        yield from (tensor for tensor in node.saved_tensors if tensor is not None)
        return
    for name in dir(type(node)):
        if name.startswith("_saved_"):
            value = getattr(node, name)
            listed = value if isinstance(value, (list, tuple)) else (value,)
            yield from (tensor for tensor in listed if isinstance(tensor, torch.Tensor))


@dataclasses.dataclass
class State:
    """A recorder's knowledge of histories, besides those of its fakes."""

    lacking: bool = False
    """True if operations were repeated whose results do not have their own history."""
    wanted: bool = False
    """True if such a history is needed."""
    refused: list[Any] = dataclasses.field(default_factory=list)
    """The nodes that have saved a tensor which has since been detached in place."""
    cut: set[int] = dataclasses.field(default_factory=set)
    """The values of tensors after they were detached in place."""
    levels: list[int] = dataclasses.field(default_factory=list)
    """The first value of each active transform of `torch.func`."""
    data: set[int] = dataclasses.field(default_factory=set)
    """The storages exposed by ``.data``, with a separate version counter."""

    def note(self, builtin: str | None, tensor: torch.Tensor) -> None:
        """Records a ``detach``, and the builtin function that called it."""
        if builtin in (None, "getattr", "_get_data_attr"):
            self.data.add(tensor.untyped_storage()._cdata)


def cut(recorder: OpRecorder, fake: torch.Tensor) -> None:
    """Records that a tensor was detached in place (``detach_``): from here on it is the result of a ``detach``."""
    before, meta = recorder.id_of(fake), TensorMeta.of(fake)
    if any(op.vjp is not None and before in op.operands for op in recorder.recording.ops):
        # Its backward gets the tensor without a history, so that gradients cannot be differentiated.
        raise Fallback("autograd", "what a torch.autograd.Function may have saved is detached in place")
    grad = torch.is_grad_enabled()
    record = OpRecord(
        schema=DETACH,
        args=[("t", before)],
        operands=[before],
        results=[meta],
        result_ids=[recorder.rename(fake, meta)],
        aliases=[0],
        mutates=[],
        functional=None,
        grad_enabled=grad,
        location=recorder.location,
        raw=(torch.ops.aten.detach.default, [Ref(before)]),
        needs_grad=(0,) if grad else (),
    )
    recorder.recording.append(record, asked=True)
    recorder.histories.cut.update(record.result_ids)
    with modes.set_aside():
        each = nodes([*recorder._alive, *recorder.input_fakes])
        recorder.histories.refused += [node for node in each if any(one is fake for one in _saved_still(node))]


def refuse_write(recorder: OpRecorder, written: Sequence[torch.Tensor]) -> None:
    """Raises `Fallback` if the graph would write these wrongly: if gradients are computed from the new value, or,
    within a transform of `torch.func`, if they existed before it, which torch may refuse."""
    refuse_hidden_write(recorder, written)
    levels = recorder.histories.levels
    if levels and any((recorder.number(tensor) or 0) < levels[-1] for tensor in written):
        raise Fallback("autograd", "a tensor from outside of a transform of torch.func is written within it")


def refuse_hidden_write(recorder: OpRecorder, written: Sequence[torch.Tensor]) -> None:
    """Raises `Fallback` if a write to these changes a value saved by autograd without bumping its version, as a write
    through ``.data`` does. Eager then computes gradients from the new value, but the graph does not."""
    for tensor in written:
        storage = tensor.untyped_storage()._cdata
        if storage not in recorder.histories.data:
            continue
        with modes.set_aside():
            if all(share_counter(tensor, other) for other in _showing(recorder, storage) if other is not tensor):
                continue
            recorder.histories.wanted |= recorder.histories.lacking
            if recorder.histories.wanted or _has_saved(recorder, storage):
                raise Fallback("autograd", "what gradients are made of is written through .data")


def _showing(recorder: OpRecorder, storage: int) -> list[torch.Tensor]:
    """Returns the fakes of this memory, except those saved by autograd, each of which has its own counter."""
    saved_ones = recorder.recording._detached
    return [
        fake
        for fake in (*recorder._alive, *recorder.input_fakes)
        if fake.untyped_storage()._cdata == storage and recorder.number(fake) not in saved_ones
    ]


def _has_saved(recorder: OpRecorder, storage: int) -> bool:
    """Returns true if autograd has saved a tensor of this memory."""
    for node in nodes([*recorder._alive, *recorder.input_fakes]):
        if any(tensor.untyped_storage()._cdata == storage for tensor in _saved_still(node)):
            return True
    return False


def check_saved(recorder: OpRecorder, results: Sequence[Any]) -> None:
    """Raises `Fallback` if the gradients of the graph's results need a value that was written or detached in place
    since, which torch refuses, or one that may be written unnoticed through another result."""
    tensors = [one for one in results if isinstance(one, torch.Tensor)]
    refuse_hidden_write(recorder, [one for one in tensors if not one.requires_grad])
    wanting = [one for one in tensors if one.requires_grad]
    cut = recorder.histories.cut
    if wanting and (recorder.versions or cut) and _writes_what_is_kept_unseen(recorder.recording, cut):
        raise Fallback("autograd", "a value that gradients may be made of is written or detached in place")
    writes = recorder.versions and _writes_what_is_used(recorder)
    if not wanting or not (writes or recorder.histories.refused):
        return
    with modes.set_aside():
        for node in nodes(wanting):
            if node in recorder.histories.refused or _is_stale(node):
                raise Fallback("autograd", "a value that gradients are made of is written or detached in place")


_KEEPING_NOTHING = frozenset(["add_", "sub_", "copy_", "fill_", "zero_", "neg_"])
"""Writes whose gradients do not depend on values."""


def _writes_what_is_kept_unseen(recording: Recording, cut: Set[int]) -> bool:
    """Returns true if memory is written, or a tensor detached in place (``cut``), that may have been saved invisibly:
    by the node of a write to a view, which is nested in another node, or by a torch.utils.checkpoint, which rereads its
    inputs."""
    roots, views = recording.roots(), set[int]()
    kept, made = set[int](), dict[int, int | None]()
    for op in recording.ops:
        memory = [roots.get(value, value) for value in op.operands]
        into_view = any(op.operands[at] in views for at in op.mutates)
        if op.needs_grad and into_view and op.schema.split(".")[1] not in _KEEPING_NOTHING:
            kept.update(root for at, root in enumerate(memory) if at not in op.mutates)
        changed = [0] if not cut.isdisjoint(op.result_ids) else op.mutates
        if any(memory[at] in kept for at in changed):
            return True
        if op.recompute is not None and op.needs_grad:
            kept.update(root for root in memory if made.get(root) != op.recompute)
        is_apart = "unsafe_" in op.schema  # its results share memory, but are not views for autograd
        for value, alias in zip(op.result_ids, op.aliases):
            made.setdefault(roots.get(value, value), op.recompute)
            if alias >= 0 and not is_apart and (alias not in op.mutates or op.operands[alias] in views):
                views.add(value)
    return False


def _is_stale(node: Any) -> bool:
    """Returns true if a tensor that a node has saved was written since."""
    try:
        collections.deque(saved(node), maxlen=0)
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)
    return False


def _saved_still(node: Any) -> list[torch.Tensor]:
    """Returns the tensors that a node has saved, if torch still gives access to them."""
    try:
        return list(saved(node))
    except RuntimeError:
        return []


def _writes_what_is_used(recorder: OpRecorder) -> bool:
    """Returns true if memory is written that an earlier operation with a gradient has read or created."""
    roots, used = recorder.recording.roots(), set[int]()
    for op in recorder.recording.ops:
        if any(roots.get(op.operands[at], op.operands[at]) in used for at in op.mutates):
            return True
        if op.needs_grad:
            used.update(roots.get(value, value) for value in (*op.operands, *op.result_ids))
    return False
