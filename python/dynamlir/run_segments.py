"""Runs a graph with unbacked sizes: its segments in order, and between them the operators called by the host.

Each segment is compiled once, for all sizes from 2 on. For 0, 1 and negative numbers there are graphs with static
sizes, as for dynamic sizes without code of their own (`instances`).
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import interruptions, logs, native, reports
from .aten.rerun_on_fakes import split_arguments
from .compilation import compile_recording
from .cut_recording import Call, Plan, Segment
from .options import Options
from .reasons import Fallback
from .recording import InputRecord, Layouts, Recording, Ref, TensorMeta
from .shape_env import of_length

if TYPE_CHECKING:
    from .capture.backends import Runner

_KEPT = 16
"""The maximum number of static graphs per segment; the least recently used is dropped first."""


@dataclasses.dataclass
class Whole:
    """The recording, and its cuts."""

    name: str
    recording: Recording
    plan: Plan
    sizes: Any
    bound: Sequence[tuple[int, int] | None]
    """The input and its dimension for each symbol; None if unbacked."""
    layouts: Layouts
    strict: bool
    """True if a call must not run as plain Python."""


class Part:
    """One segment, compiled."""

    def __init__(self, segment: Segment, whole: Whole, mode: FakeTensorMode, settings: Options) -> None:
        from .capture.graphs_by_size import Instances  # only graphs whose sizes change need it

        self.segment = segment
        self._name = f"{whole.name}, {segment.recording.name}"
        self._make = Instances(segment.recording, self._name, settings, whole.strict, whole.layouts)
        self._numeric: collections.OrderedDict[tuple[int, ...], Runner] = collections.OrderedDict()
        self.lengths: list[int] = []
        """The symbols for each of which it gets a tensor of that length."""
        self._for_many: Runner | None = None
        try:
            self._for_many = self._compile(whole.sizes, mode, settings)
        except Fallback as failure:
            if not segment.symbols:
                raise
            logs.logger("recompiles").info("%s: a graph for each size, since %s", self._name, failure.message)

    def _compile(self, sizes: Any, mode: FakeTensorMode, settings: Options) -> Runner:
        """Compiles the graph for all sizes from 2 on."""
        recording = self.segment.recording
        if self.segment.symbols:
            recording = self._bound(recording, sizes)
        variant, made = compile_recording(recording, mode, settings, self._name)
        reports.add(made)
        return variant.native()

    def _bound(self, recording: Recording, sizes: Any) -> Recording:
        """Adds an input for each symbol that is not the size of one."""
        bound: list[tuple[int, int] | None] = [None] * len(sizes)
        records = list(recording.inputs)
        value = max((*recording.metas, *(record.id for record in records)), default=0)
        storage = max((record.storage for record in records), default=0)
        for symbol in self.segment.symbols:
            bound[symbol] = _place(recording.inputs, symbol)
            if bound[symbol] is not None:
                continue
            self.lengths.append(symbol)
            bound[symbol] = len(records), 0
            meta = TensorMeta("i64", (sizes.symbol(symbol),), (0,), 0)
            number = len(self.lengths)
            records.append(InputRecord(value + number, f"s{symbol}", meta, storage + number))
        return dataclasses.replace(recording, inputs=records, varying=(sizes, bound))

    def __call__(self, values: Sequence[int], tensors: Sequence[Any]) -> Sequence[Any]:
        """Runs the segment for these values of the symbols."""
        sizes = tuple([values[symbol] for symbol in self.segment.symbols])
        if self._for_many is not None and (not sizes or min(sizes) >= 2):
            return self._for_many(*tensors, *[values[symbol] for symbol in self.lengths])
        graph = self._numeric.get(sizes)
        if graph is None:
            graph = self._numeric[sizes] = self._make(tuple(values))
            if len(self._numeric) > _KEPT:
                self._numeric.popitem(last=False)
        self._numeric.move_to_end(sizes)
        return graph(*tensors)


def _place(records: Sequence[InputRecord], symbol: int) -> tuple[int, int] | None:
    """Returns the input, and its dimension, whose size is a symbol."""
    for at, record in enumerate(records):
        for dim, size in enumerate(record.meta.sizes):
            if isinstance(size, torch.SymInt) and size.node.str() == f"s{symbol}":
                return at, dim
    return None


class Host:
    """An operator that is called as in eager, and determines sizes."""

    def __init__(self, call: Call) -> None:
        assert call.op.raw is not None
        overload, raw = call.op.raw
        positional, self._keywords = split_arguments(overload, raw)
        self._function = _DIRECT.get(overload, overload)
        self._arguments = [
            (isinstance(value, Ref), value.id if isinstance(value, Ref) else value) for value in positional
        ]
        self._with_grad = call.op.grad_enabled
        self._births = [(birth.symbol, birth.dim) for birth in call.births]
        self._results = list(zip(call.op.result_ids, (_Layout(meta) for meta in call.op.results)))

    def __call__(self, values: dict[int, Any], sizes: list[int | None], now: list[int]) -> None:
        """Adds its results to ``values``, and newly known sizes to ``sizes``; these are 0 in ``now`` until then."""
        arguments = [values[value] if is_value else value for is_value, value in self._arguments]
        if self._with_grad or not torch.is_grad_enabled():
            results = self._function(*arguments, **self._keywords)
        else:
            with torch.no_grad():
                results = self._function(*arguments, **self._keywords)
        listed = results if isinstance(results, (tuple, list)) else (results,)
        for symbol, dim in self._births:
            sizes[symbol] = now[symbol] = listed[0] if dim is None else listed[0].shape[dim]
        for (value, layout), result in zip(self._results, listed):
            if not layout.is_of(result, now):
                raise native.module().RunError(f"{tuple(result.shape)} with strides {result.stride()} is not expected")
            values[value] = result


_DIRECT: dict[Any, Any] = {
    torch.ops.aten._local_scalar_dense.default: torch.Tensor.item,
    torch.ops.aten.nonzero.default: torch.nonzero,
    torch.ops.aten.masked_select.default: torch.masked_select,
}
"""The same operators as torch's own functions, which are called faster."""


class _Layout:
    """The sizes and strides of a tensor."""

    def __init__(self, meta: TensorMeta) -> None:
        self._sizes, self._strides = ([_Number(size) for size in sizes] for sizes in (meta.sizes, meta.strides))

    def is_of(self, tensor: torch.Tensor, values: Sequence[int]) -> bool:
        """Returns true if a tensor has this layout for these values of the symbols."""
        sizes, strides = (tuple([number.at(values) for number in numbers]) for numbers in (self._sizes, self._strides))
        return tensor.shape == sizes and tensor.stride() == strides


class _Number:
    """A number, or one that is computed from symbols."""

    def __init__(self, value: Any) -> None:
        node: Any = value.node if isinstance(value, torch.SymInt) else None
        text = "" if node is None else node.str()
        self._known = value if node is None else None
        self._symbol = int(text[1:]) if text[1:].isdigit() else None
        self._node = node

    def at(self, values: Sequence[int]) -> Any:
        """Returns its value for these values of the symbols."""
        if self._node is None:
            return self._known
        return self._node.at(values) if self._symbol is None else values[self._symbol]


class Segmented:
    """A graph in segments, which is called with its inputs and returns its outputs."""

    def __init__(self, whole: Whole, mode: FakeTensorMode, settings: Options, constants: Sequence[Any] = ()) -> None:
        """``constants`` are passed to the graph after its inputs."""
        self._plan, self._sizes = whole.plan, whole.sizes
        self._bound = [(symbol, *place) for symbol, place in enumerate(whole.bound) if place is not None]
        self._count = len(whole.sizes)
        self._constants = constants
        self._sizes.take_for_many()
        self._steps: list[Part | Host] = [
            Part(step, whole, mode, settings) if isinstance(step, Segment) else Host(step) for step in self._plan.steps
        ]
        self._outputs: list[tuple[bool, Any]] = [
            (output.kind == "value", output.id if output.kind == "value" else _Number(output.const))
            for output in self._plan.outputs
        ]
        self._refused, self._written = native.module().RunError, native.module().WrittenError

    def __call__(self, *inputs: Any) -> list[Any]:
        state = torch.get_rng_state() if self._plan.random else None
        try:
            return self._run([*map(_tensor, inputs), *self._constants])
        except (self._refused, self._written, Fallback):
            if state is not None:
                torch.set_rng_state(state)
            raise

    def _run(self, inputs: list[torch.Tensor]) -> list[Any]:
        plan = self._plan
        values: dict[int, Any] = dict(zip(plan.inputs, inputs))
        originals = {value: values[value] for value in plan.copied}
        if originals:
            self._check_memory(list(originals.values()), inputs)
            values.update((value, _copied(tensor)) for value, tensor in originals.items())
        sizes: list[int | None] = [None] * self._count
        now = [0] * self._count
        for symbol, at, dim in self._bound:
            sizes[symbol] = now[symbol] = inputs[at].shape[dim]
        for at, step in enumerate(self._steps):
            if isinstance(step, Host):
                self._ask(step, values, sizes, now)
                if (broken := self._sizes.violated(sizes)) is not None:
                    raise self._refused(f"{broken} does not hold")
                continue
            segment = step.segment
            try:
                results = step(now, [values[value] for value in segment.inputs])
            except self._written as error:
                if at == len(self._steps) - 1:
                    raise
                raise self._refused(str(error)) from error  # the written memory is not visible outside
            values.update(zip(segment.outputs, results))
        if originals:
            self._write_back(originals, values)
        return [values[what] if is_value else what.at(now) for is_value, what in self._outputs]

    def _ask(self, step: Host, values: dict[int, Any], sizes: list[int | None], now: list[int]) -> None:
        """Has the host call its operator; eager will raise its exceptions again. A segment raises only from a hook."""
        try:
            step(values, sizes, now)
        except self._refused:
            raise
        except Exception as error:
            interruptions.pass_on(error)
            raise self._refused(f"{type(error).__name__}: {error}") from error

    def _check_memory(self, written: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> None:
        """Checks that copied inputs do not share memory with another input."""
        storages = [tensor.untyped_storage()._cdata for tensor in inputs]
        if any(storages.count(tensor.untyped_storage()._cdata) > 1 for tensor in written):
            raise native.module().Unfit("an input that is written shares its memory with another one")

    def _write_back(self, originals: dict[int, torch.Tensor], values: dict[int, Any]) -> None:
        for value, tensor in originals.items():
            version = None if tensor.is_inference() else tensor._version
            with torch.no_grad():
                tensor.copy_(values[value])
            if version is not None:
                torch._C._autograd._unsafe_set_version_counter((tensor,), (version + self._plan.copied[value],))
        values.update(originals)


def _tensor(value: Any) -> torch.Tensor:
    """Converts an input for the graph: a float to a tensor that holds it, an int to a tensor of that length."""
    if type(value) is float:
        return torch.tensor(value, dtype=torch.float64, device="cpu")
    if type(value) is int:
        return of_length(torch.zeros(1, dtype=torch.int64, device="cpu"), value)
    return value


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(
            tensor
        )
