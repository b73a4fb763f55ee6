"""Differential comparison: the same call in plain eager and compiled, on inputs that alias in the same way.

Tests use `check`; `clone_tree`, `observe` and `differences` are its parts, which the OpInfo runner shares.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import dynamlir
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

# Dispatched by the runtime for outputs that alias, or visible although they compute nothing.
HOUSEKEEPING = frozenset({"aten.as_strided", "aten.detach", "aten.alias", "prim.device"})


class Cloner:
    """Copies tensors so that the copies overlap and are views of each other in the same way as the originals."""

    def __init__(self) -> None:
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._tensors: dict[int, torch.Tensor] = {}
        self._alive: list[Any] = []

    def tensor(self, value: torch.Tensor) -> torch.Tensor:
        """The copy of ``value``; the same one each time."""
        if id(value) not in self._tensors:
            self._alive.append(value)
            self._tensors[id(value)] = self._copy(value)
        return self._tensors[id(value)]

    def _copy(self, value: torch.Tensor) -> torch.Tensor:
        if value.layout is not torch.strided or type(value) not in (torch.Tensor, torch.nn.Parameter):
            return value.detach().clone().requires_grad_(value.requires_grad)
        if (
            value.is_quantized
            or value.is_nested
            or value.device.type not in ("cpu", "cuda")
            or value.is_neg()
            or value.is_conj()
        ):
            return value.clone() if not value.requires_grad else value.detach().clone().requires_grad_()
        if value._is_view() and value._base is not None and value._base.dtype == value.dtype:
            with torch.no_grad():
                made = self.tensor(value._base).as_strided(value.shape, value.stride(), value.storage_offset())
            return made
        storage = value.untyped_storage()
        if storage._cdata not in self._storages:
            self._alive.append(storage)
            self._storages[storage._cdata] = storage.clone()
        with torch.no_grad():
            made = torch.empty(0, dtype=value.dtype, device=value.device)
            made.set_(self._storages[storage._cdata], value.storage_offset(), value.shape, value.stride())
        torch._C._autograd._unsafe_set_version_counter((made,), (0,))
        if isinstance(value, torch.nn.Parameter):
            return torch.nn.Parameter(made, value.requires_grad)
        return made.requires_grad_(value.requires_grad)


def clone_tree(tree: Any) -> Any:
    """A copy of nested containers with all their tensors."""
    with torch.inference_mode(False):
        return pytree.tree_map_only(torch.Tensor, Cloner().tensor, tree)


@dataclasses.dataclass
class Outcome:
    """The effects of a call: result or exception, and the inputs afterwards."""

    inputs: list[torch.Tensor]
    result: Any = None
    error: BaseException | None = None


def run(fn: Callable[..., Any], args: Any, kwargs: dict[str, Any], extra: Sequence[torch.Tensor] = ()) -> Outcome:
    """Calls ``fn`` and records the outcome; ``extra`` are tensors (parameters) to watch like inputs.

    In compiled code, random numbers are eager's here, so that they can be compared; `test_random_numbers` covers the
    others.
    """
    inputs = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    outcome = Outcome([*inputs, *extra])
    torch.manual_seed(1234)
    try:
        with dynamlir.config.patch(eager_random=True):
            outcome.result = fn(*args, **kwargs)
    except Exception as error:
        outcome.error = error
    return outcome


def observe(outcome: Outcome) -> list[tuple[str, Any]]:
    """Everything except values that must agree, as pairs of a label and an observation."""
    facts: list[tuple[str, Any]] = []
    leaves, spec = pytree.tree_flatten(outcome.result)
    facts.append(("structure", str(spec)))
    names: dict[int, str] = {}
    storages: dict[int, str] = {}
    alive: list[Any] = []
    for kind, tensors in (("input", outcome.inputs), ("output", leaves)):
        for at, tensor in enumerate(tensors):
            label = f"{kind} {at}"
            if not isinstance(tensor, torch.Tensor):
                facts.append((f"{label} value", (type(tensor).__name__, tensor)))
                continue
            facts.append((f"{label} object", names.setdefault(id(tensor), label)))
            facts.extend((f"{label} {name}", fact) for name, fact in _facts(tensor))
            if tensor.layout is not torch.strided:
                continue
            storage = tensor.untyped_storage()
            alive.append(storage)
            if storage.nbytes() and tensor.numel():
                facts.append((f"{label} memory", storages.setdefault(storage._cdata, label)))
            if not tensor.is_inference() and tensor._is_view() and tensor._base is not None:
                base = tensor._base
                alive.append(base)
                facts.append((f"{label} base", names.setdefault(id(base), f"hidden base of {label}")))
    return facts


def _facts(tensor: torch.Tensor) -> list[tuple[str, Any]]:
    strided = tensor.layout is torch.strided
    inference = tensor.is_inference()
    return [
        ("type", type(tensor).__name__),
        ("dtype", tensor.dtype),
        ("device", tensor.device),
        ("layout", tensor.layout),
        ("shape", tuple(tensor.shape)),
        ("strides", tensor.stride() if strided else None),
        ("storage offset", tensor.storage_offset() if strided else None),
        ("requires_grad", tensor.requires_grad),
        ("has grad_fn", tensor.grad_fn is not None),
        ("is inference", inference),
        ("is view", None if inference else tensor._is_view()),
        ("version", None if inference else tensor._version),
        ("negative bit", tensor.is_neg()),
        ("conjugate bit", tensor.is_conj()),
    ]


Tolerance = tuple[float, float]
"""Relative, absolute."""


def differences(
    eager: Outcome, compiled: Outcome, *, values: bool = True, tolerance: Tolerance | None = None
) -> list[str]:
    """The differences between two outcomes, as text; empty if they agree."""
    if (eager.error is None) != (compiled.error is None):
        return [f"eager {_describe(eager)}, compiled {_describe(compiled)}"]
    found: list[str] = []
    raised = eager.error, compiled.error
    if len({(type(error), _message(error)) for error in raised}) > 1:
        found.append(f"exception: eager {raised[0]!r}, compiled {raised[1]!r}")
    left, right = observe(eager), observe(compiled)
    if [name for name, _ in left] != [name for name, _ in right]:
        names = sorted({name for name, _ in left} ^ {name for name, _ in right})
        found.append(f"only on one side: {', '.join(names)}")
    theirs = dict(right)
    for name, fact in left:
        if name in theirs and not _same(fact, theirs[name]):
            found.append(f"{name}: eager {fact}, compiled {theirs[name]}")
    for kind, pair in (
        ("input", (eager.inputs, compiled.inputs)),
        ("output", tuple(pytree.tree_leaves(outcome.result) for outcome in (eager, compiled))),
    ):
        for at, (ours, other) in enumerate(zip(*pair)):
            if isinstance(ours, torch.Tensor) and isinstance(other, torch.Tensor):
                found.extend(_memory(f"{kind} {at}", ours, other, values or kind == "input", tolerance))
    return found


def _memory(
    label: str, eager: torch.Tensor, compiled: torch.Tensor, values: bool, tolerance: Tolerance | None
) -> list[str]:
    rtol, atol = tolerance or (None, None)
    if eager.shape != compiled.shape or eager.dtype != compiled.dtype or not values:
        return []
    with torch.no_grad():
        try:
            torch.testing.assert_close(compiled.detach(), eager.detach(), equal_nan=True, rtol=rtol, atol=atol)
        except AssertionError as error:
            return [f"{label} values: {' '.join(str(error).split())}"]
        if not label.startswith("input") or eager.layout is not torch.strided or eager.device.type != "cpu":
            return []
        return _whole_storage(label, eager, compiled)


def _whole_storage(label: str, eager: torch.Tensor, compiled: torch.Tensor) -> list[str]:
    """Differences in the bytes of the storage that the tensor itself does not cover, which must agree too."""
    sides = []
    for tensor in (eager, compiled):
        storage = tensor.untyped_storage()
        count = storage.nbytes() // tensor.element_size()
        sides.append(torch.empty(0, dtype=tensor.dtype).set_(storage, 0, (count,), (1,)))
    if sides[0].shape != sides[1].shape:
        return [f"{label} storage size: eager {sides[0].numel()}, compiled {sides[1].numel()}"]
    raw = [bytes(side.view(torch.uint8).numpy().tobytes()) if side.numel() else b"" for side in sides]
    if raw[0] == raw[1]:
        return []
    try:
        torch.testing.assert_close(sides[1], sides[0], equal_nan=True)
    except AssertionError as error:
        return [f"{label} storage: {' '.join(str(error).split())}"]
    return []


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, tuple) and len(left) == 2 and left[0] == "float" and left[1] != left[1]:
        return isinstance(right, tuple) and right[1] != right[1]
    return bool(left == right)


def _message(error: BaseException | None) -> str:
    return str(error).strip().split("\n")[0]


def _describe(outcome: Outcome) -> str:
    return f"raised {type(outcome.error).__name__}: {outcome.error}" if outcome.error is not None else "returned"


class _SeenOps(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Lets Dynamo use its compiled code although a mode is active."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def packet(schema: str) -> str:
    """``aten.add.Tensor`` → ``aten.add``: variants of one operation count as one."""
    return ".".join(schema.split(".")[:2]).removesuffix("_")


def unexpected_ops(call: Callable[[], Any], reports: Sequence[dynamlir.CompileReport]) -> list[str]:
    """The operations that a compiled call dispatches beyond the extern calls that its reports list."""
    mode = _SeenOps()
    with mode:
        call()
    allowed = {packet(extern.schema) for made in reports for extern in made.externs} | HOUSEKEEPING
    if torch.cuda.is_available():
        allowed.add("aten.empty_strided")  # GPU memory is allocated through torch's dispatcher
    return [seen for seen in mode.seen if packet(seen) not in allowed]


def check(
    fn: Callable[..., Any],
    *args: Any,
    expect: str | None = None,
    no_grad: bool = True,
    dispatch: bool = True,
    values: bool = True,
    calls: int = 2,
    **kwargs: Any,
) -> list[dynamlir.CompileReport]:
    """Asserts that ``fn`` compiled agrees with eager. ``expect`` is "compiled", or the ID of the reason for the
    fallback to eager.
    """
    torch._dynamo.reset()
    dynamlir.reset()
    is_module = isinstance(fn, torch.nn.Module)
    eager_fn, compiled_fn = (copy.deepcopy(fn), copy.deepcopy(fn)) if is_module else (fn, fn)
    extra = [list(m.state_dict(keep_vars=True).values()) if is_module else [] for m in (eager_fn, compiled_fn)]
    compiled = torch.compile(compiled_fn, backend="dynamlir")
    with torch.set_grad_enabled(torch.is_grad_enabled() and not no_grad):
        for call in range(calls):
            eager_args, eager_kwargs = clone_tree((args, kwargs))
            our_args, our_kwargs = clone_tree((args, kwargs))
            eager = run(eager_fn, eager_args, eager_kwargs, extra[0])
            ours = run(compiled, our_args, our_kwargs, extra[1])
            found = differences(eager, ours, values=values)
            assert not found, f"call {call}: " + "; ".join(found) + "\n" + dynamlir.explain_last()
        reports = dynamlir.compiles()
        reasons = dynamlir.counters()["fallbacks"]
        if expect == "compiled":
            assert reports and not reasons, reasons or "nothing was compiled"
        elif expect is not None:
            assert expect in reasons, f"expected {expect}, met {reasons}"
        if dispatch and expect == "compiled" and eager.error is None and not extra[0]:
            again, again_kwargs = clone_tree((args, kwargs))
            stray = unexpected_ops(lambda: compiled(*again, **again_kwargs), reports)
            assert not stray, f"operations outside the report: {stray}"
    return reports
