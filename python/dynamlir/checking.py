"""``options={"check": True}``: compares the first calls of each compiled graph with eager, and says where they part.

A checked call returns eager's results. The compiled graph runs beside it, on copies of the inputs. Where a result, a
write to an input or a gradient differs by more than rounding explains, the graph runs as plain eager from then on, with
the counted reason ``wrong-result``. Its message names the first operation whose value differs, found by compiling
shorter and shorter beginnings of the graph.
"""

from __future__ import annotations

import dataclasses
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree

from . import interruptions, logs, plain_warnings, reasons, reports
from .compilation import compile_recording
from .graph_modules import forward_of
from .options import Options
from .source_lines import parse_stack
from .tracing import fresh_fake_mode, record

_CALLS = 10
"""The number of calls that ``check=True`` compares, for each graph."""

_SLACK = 8.0
"""The factor by which a compiled result may be further from the exact one than eager's: both round, in other orders."""

Run = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference between a compiled graph and eager."""

    what: str
    """The value that differs, such as ``output 0``."""
    how: str


def checked(name: str, module: torch.fx.GraphModule, compiled: Run, settings: Options) -> Run:
    """Returns a compiled graph, with its first calls compared with ``module`` if the settings say so."""
    if not settings.check:
        return compiled
    if any(node.op == "get_attr" for node in module.graph.nodes):
        # TorchDynamo keeps the state of optimizers so. Each run would write it, since only inputs are copied.
        not_checked(name, "it holds tensors that are not its inputs")
        return compiled
    return _Checked(name, module, compiled, settings)


def not_checked(name: str, why: str) -> None:
    """Tells the user that a graph is not compared although they asked for it."""
    warnings.warn(f"dynamlir: {name} is not checked, since {why}", RuntimeWarning, stacklevel=2)


class _Checked:
    """A compiled graph that is compared with eager. Called as the graph is."""

    def __init__(self, name: str, module: torch.fx.GraphModule, compiled: Run, settings: Options) -> None:
        self._name = name
        self._module = module
        self._compiled = compiled
        self._settings = dataclasses.replace(settings, dump=None)
        self._left = _CALLS if settings.check is True else int(settings.check)
        self._lock = threading.Lock()
        self._subject = plain_warnings.Subject.of_graph(module)
        self._event: reasons.Event | None = None

    def __call__(self, *inputs: Any) -> Any:
        eager = forward_of(self._module)
        if self._event is not None:
            plain_warnings.tell(self._subject, self._event)
            return eager(*inputs)
        with self._lock:
            checks, self._left = self._left > 0, max(0, self._left - 1)
        if checks and not all(map(_can_be_copied, inputs)):
            not_checked(self._name, "an input is a sparse tensor, or of a subclass")
            checks = False
        if not checks:
            return self._compiled(*inputs)
        before = [_Copy(inputs) for _ in range(3)]
        state = torch.get_rng_state()
        results = eager(*inputs)
        after = torch.get_rng_state()
        try:
            self._compare(before, state)
        finally:
            torch.set_rng_state(after)
        return results

    def _compare(self, before: Sequence[_Copy], state: torch.Tensor) -> None:
        """Compares on copies of the inputs: one each for the graph, for eager, and for the search."""
        try:
            ours, eagers = (
                _outcome(run, copy, state) for run, copy in zip((self._compiled, forward_of(self._module)), before)
            )
        except Exception as error:
            # Eager has just run: an exception is the graph's, which reports it at the next call.
            interruptions.pass_on(error)
            not_checked(self._name, f"the comparison raises {type(error).__name__}: {error}")
            return
        difference = _difference(ours, eagers, lambda: _exact(self._module, before[2], state))
        if difference is None:
            logs.logger("fallback").debug("%s: a call agrees with eager", self._name)
            return
        where, location = self._first(before[2], state)
        message = f"{difference.what} {difference.how}{where}"
        self._event = reasons.note("wrong-result", message, location)
        reports.add(reports.CompileReport(graph=self._name, eager=self._event))
        plain_warnings.tell(self._subject, self._event)

    def _first(self, inputs: _Copy, state: torch.Tensor) -> tuple[str, reasons.Location]:
        """Returns the first operation whose value differs, as text and as a location. It is found by bisection, since
        later values usually differ as well."""
        nodes = [node for node in self._module.graph.nodes if node.op not in ("placeholder", "get_attr", "output")]
        low, high = 0, len(nodes) - 1
        found: tuple[torch.fx.Node, Difference] | None = None
        while low <= high:
            middle = (low + high) // 2
            difference = self._differs_at(nodes[middle], inputs, state)
            if difference is None:
                low = middle + 1
            else:
                found, high = (nodes[middle], difference), middle - 1
        if found is None:
            return "; each operation's value is right if the graph ends there, so the error is in what is fused", []
        node, difference = found
        frames = parse_stack(node.stack_trace)
        line = f" at {frames[-1][0]}:{frames[-1][1]}" if frames else ""
        target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
        return f"; the first operation that differs is {target}{line}, which {difference.how}", frames

    def _differs_at(self, end: torch.fx.Node, inputs: _Copy, state: torch.Tensor) -> Difference | None:
        """Compares the graph that ends with an operation and returns its value."""
        part = _beginning(self._module, end)
        try:
            expected = _outcome(forward_of(part), inputs.again(), state, gradients=False)
            ours = _outcome(self._compile(part, inputs.again().inputs), inputs.again(), state, gradients=False)
        except Exception as error:
            # Values that are no tensors, or that cannot be returned.
            interruptions.pass_on(error)
            return None
        return _difference(ours, expected, lambda: _exact(part, inputs, state))

    def _compile(self, part: torch.fx.GraphModule, inputs: Sequence[Any]) -> Run:
        mode = fresh_fake_mode()
        variant, _ = compile_recording(record(part, inputs, mode), mode, self._settings, self._name)
        return lambda *given: variant([value for value in given if isinstance(value, torch.Tensor)])


def _can_be_copied(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided
    return isinstance(value, (int, float, complex, bool, str, type(None), torch.SymInt, torch.SymFloat))


class _Copy:
    """Inputs of a graph with memory of their own, which overlaps as the originals' does."""

    def __init__(self, inputs: Sequence[Any], dtype: torch.dtype | None = None) -> None:
        """With ``dtype``, floating-point inputs are converted to it."""
        storages: dict[int, torch.UntypedStorage] = {}
        self.inputs = [
            _copied(value, storages, dtype) if isinstance(value, torch.Tensor) else value for value in inputs
        ]

    def again(self, dtype: torch.dtype | None = None) -> _Copy:
        """Returns a copy of the copy."""
        return _Copy(self.inputs, dtype)

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors."""
        return [value for value in self.inputs if isinstance(value, torch.Tensor)]


def _copied(tensor: torch.Tensor, storages: dict[int, torch.UntypedStorage], dtype: torch.dtype | None) -> torch.Tensor:
    with torch.no_grad():
        if dtype is not None and tensor.is_floating_point():
            copy = tensor.detach().to(dtype, copy=True)
        else:
            storage = tensor.untyped_storage()
            own = storages.get(storage._cdata)
            if own is None:
                own = storages[storage._cdata] = storage.clone()
            copy = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            copy.set_(own, tensor.storage_offset(), tensor.shape, tensor.stride())
    return copy.requires_grad_(tensor.requires_grad)


@dataclasses.dataclass(frozen=True)
class _Outcome:
    """All that a call of a graph does."""

    outputs: list[Any]
    inputs: list[torch.Tensor]
    """The inputs after the call."""
    gradients: list[torch.Tensor | None]

    def named(self) -> list[tuple[str, Any]]:
        """Its values, with their names."""
        return [
            *((f"output {at}", value) for at, value in enumerate(self.outputs)),
            *((f"input {at} after the call", value) for at, value in enumerate(self.inputs)),
            *((f"the gradient of input {at}", value) for at, value in enumerate(self.gradients)),
        ]


def _outcome(run: Run, given: _Copy, state: torch.Tensor, gradients: bool = True) -> _Outcome:
    """Runs a graph on inputs that are used up, after setting torch's random state."""
    torch.set_rng_state(state)
    leaves = [tensor for tensor in given.tensors if tensor.requires_grad]
    # A graph may write to its inputs, which torch forbids for leaves.
    stand_ins = {id(leaf): leaf.view_as(leaf) for leaf in leaves} if torch.is_grad_enabled() else {}
    outputs = pytree.tree_leaves(run(*(stand_ins.get(id(value), value) for value in given.inputs)))
    found: list[torch.Tensor | None] = []
    ends = [value for value in outputs if isinstance(value, torch.Tensor) and value.requires_grad]
    if gradients and ends and leaves:
        generator = torch.Generator().manual_seed(0)
        tangents = [torch.rand(end.shape, generator=generator, dtype=torch.float64).to(end) + 0.5 for end in ends]
        found = list(torch.autograd.grad(ends, leaves, tangents, allow_unused=True))
    return _Outcome(outputs, [stand_ins.get(id(tensor), tensor) for tensor in given.tensors], found)


def _exact(module: torch.fx.GraphModule, inputs: _Copy, state: torch.Tensor) -> _Outcome | None:
    """Returns what the graph computes in double precision; None if it cannot."""
    try:
        return _outcome(forward_of(module), inputs.again(torch.float64), state)
    except Exception as error:
        interruptions.pass_on(error)
        return None


def _difference(ours: _Outcome, eagers: _Outcome, exact: Callable[[], _Outcome | None]) -> Difference | None:
    """Returns the first difference that rounding does not explain."""
    pairs = list(zip(ours.named(), eagers.named()))
    if len(ours.outputs) != len(eagers.outputs):
        return Difference("the graph", f"has {len(ours.outputs)} outputs where eager has {len(eagers.outputs)}")
    computed: list[tuple[str, Any]] | None = None
    for at, ((what, value), (_, expected)) in enumerate(pairs):
        how = _how(value, expected)
        if how is None:
            continue
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.shape == expected.shape:
            if computed is None:
                made = exact()
                computed = [] if made is None else made.named()
            if at < len(computed) and _is_as_good(value, expected, computed[at][1]):
                continue
        return Difference(what, how)
    return None


def _how(value: Any, expected: Any) -> str | None:
    """Returns the difference of two values as text; None if they are close."""
    if not isinstance(expected, torch.Tensor) or not isinstance(value, torch.Tensor):
        return (
            None
            if type(value) is type(expected) and value == expected
            else f"is {value!r} where eager has {expected!r}"
        )
    for name in ("dtype", "shape", "device", "requires_grad"):
        if getattr(value, name) != getattr(expected, name):
            return f"has {name} {getattr(value, name)} where eager's has {getattr(expected, name)}"
    value, expected = value.detach(), expected.detach()
    try:
        torch.testing.assert_close(value, expected, equal_nan=True)
    except AssertionError:
        kind = torch.complex128 if value.is_complex() else torch.float64
        gaps = (value.to(kind) - expected.to(kind)).abs().nan_to_num(nan=torch.inf).reshape(-1)
        gaps = torch.where((value.isnan() & expected.isnan()).reshape(-1), 0.0, gaps)
        worst = int(gaps.argmax())
        pair = f"{value.reshape(-1)[worst].item()} where eager has {expected.reshape(-1)[worst].item()}"
        if not value.dim():
            return f"is {pair}"
        at = tuple(int(index) for index in torch.unravel_index(torch.tensor(worst), value.shape))
        return f"has {pair} at {list(at)}, and differs in {int((gaps > 0).sum())} of {gaps.numel()} elements"
    return None


def _is_as_good(value: torch.Tensor, expected: torch.Tensor, exact: Any) -> bool:
    """Returns true if a value is about as close to the exact one as eager's is."""
    if not isinstance(exact, torch.Tensor) or exact.shape != value.shape:
        return False
    own, eagers = (
        float((it.detach().double() - exact.detach()).abs().nan_to_num().amax()) if it.numel() else 0.0
        for it in (value, expected)
    )
    same_holes = torch.equal(value.detach().isfinite(), expected.detach().isfinite())
    return same_holes and own <= _SLACK * eagers


def _beginning(module: torch.fx.GraphModule, end: torch.fx.Node) -> torch.fx.GraphModule:
    """Returns the graph up to an operation, whose value it returns."""
    graph, copies = torch.fx.Graph(), dict[torch.fx.Node, torch.fx.Node]()
    for node in module.graph.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
        if node is end:
            break
    for node in module.graph.find_nodes(op="placeholder"):
        if node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output((copies[end],))
    return torch.fx.GraphModule(module, graph)
