"""Runs a graph with sizes that only running tells: its parts in order, and between them what the host calls.

Each part is compiled once, for all sizes from 2 on. For 0, 1 and numbers below zero there are graphs of numbers, as
where sizes vary in what has no code for that (`instances`).
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import interruptions, logs, native, report
from .aten.replaying import map_refs, split_arguments
from .options import Options
from .reasons import Fallback
from .recording import InputRecord, Recording, TensorMeta
from .segments import Call, Plan, Segment
from .shape_env import of_length
from .sizes import Layouts

if TYPE_CHECKING:
    from .capture.backends import Runner

_KEPT = 16
"""So many graphs of numbers a part has at most; that which was not used for the longest time goes first."""


@dataclasses.dataclass
class Whole:
    """What was recorded, and how it is cut."""

    name: str
    recording: Recording
    plan: Plan
    sizes: Any
    bound: Sequence[tuple[int, int] | None]
    """Which input, and which size of that, each symbol is; None where only running tells."""
    layouts: Layouts
    strict: bool
    """Whether a call must not run as plain Python."""


class Part:
    """One part, compiled."""

    def __init__(self, segment: Segment, whole: Whole, mode: FakeTensorMode, settings: Options) -> None:
        from .capture.instances import Instances

        self.segment = segment
        self._name = f"{whole.name}, {segment.recording.name}"
        self._make = Instances(segment.recording, self._name, settings, whole.strict, whole.layouts)
        self._numeric: collections.OrderedDict[tuple[int, ...], Runner] = collections.OrderedDict()
        self.lengths: list[int] = []
        """The symbols for which it is given a tensor that is so long."""
        self._for_many: Runner | None = None
        try:
            self._for_many = self._compile(whole.sizes, mode, settings)
        except Fallback as failure:
            if not segment.symbols:
                raise
            logs.logger("recompiles").info("%s: a graph for each size, since %s", self._name, failure.message)

    def _compile(self, sizes: Any, mode: FakeTensorMode, settings: Options) -> Runner:
        """The graph for all sizes from 2 on."""
        from .backend import compile_recording

        recording = self.segment.recording
        if self.segment.symbols:
            recording = self._bound(recording, sizes)
        variant, made = compile_recording(recording, mode, settings, self._name)
        report.add(made)
        return variant.native()

    def _bound(self, recording: Recording, sizes: Any) -> Recording:
        """With an input for each symbol whose size it is."""
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
        """Run it where the symbols have these values."""
        sizes = tuple(values[symbol] for symbol in self.segment.symbols)
        if self._for_many is not None and all(size >= 2 for size in sizes):
            element = torch.zeros(1, dtype=torch.int64, device="cpu") if self.lengths else None
            lengths = [of_length(element, values[symbol]) for symbol in self.lengths if element is not None]
            return self._for_many(*tensors, *lengths)
        graph = self._numeric.get(sizes)
        if graph is None:
            graph = self._numeric[sizes] = self._make(tuple(values))
            if len(self._numeric) > _KEPT:
                self._numeric.popitem(last=False)
        self._numeric.move_to_end(sizes)
        return graph(*tensors)


def _place(records: Sequence[InputRecord], symbol: int) -> tuple[int, int] | None:
    """The input, and its dimension, whose size a symbol is."""
    for at, record in enumerate(records):
        for dim, size in enumerate(record.meta.sizes):
            if isinstance(size, torch.SymInt) and size.node.str() == f"s{symbol}":
                return at, dim
    return None


class Segmented:
    """A graph in parts, which is called with its inputs and returns its outputs."""

    def __init__(self, whole: Whole, mode: FakeTensorMode, settings: Options, constants: Sequence[Any] = ()) -> None:
        """``constants`` are given to the graph after its inputs."""
        self._plan, self._sizes, self._bound = whole.plan, whole.sizes, whole.bound
        self._constants = constants
        self._sizes.take_for_many()
        self._steps: list[Part | Call] = [
            Part(step, whole, mode, settings) if isinstance(step, Segment) else step for step in self._plan.steps
        ]
        self._failure = native.module().RunError

    def __call__(self, *inputs: Any) -> list[Any]:
        state = torch.get_rng_state() if self._plan.random else None
        try:
            return self._run([*map(_tensor, inputs), *self._constants])
        except (native.module().WrittenError, Fallback):
            if state is not None:
                torch.set_rng_state(state)
            raise
        except Exception as error:
            interruptions.pass_on(error)
            if state is not None:
                torch.set_rng_state(state)
            if isinstance(error, self._failure):
                raise
            raise self._failure(f"{type(error).__name__}: {error}") from error

    def _run(self, inputs: list[torch.Tensor]) -> list[Any]:
        plan = self._plan
        values: dict[int, Any] = dict(zip(plan.inputs, inputs))
        originals = {value: values[value] for value in plan.copied}
        if originals:
            self._check_memory(list(originals.values()), inputs)
        values.update((value, _copied(tensor)) for value, tensor in originals.items())
        sizes: list[int | None] = [None] * len(self._sizes)
        for symbol, place in enumerate(self._bound):
            if place is not None:
                sizes[symbol] = int(inputs[place[0]].shape[place[1]])
        self._check(sizes)
        for step in self._steps:
            if isinstance(step, Part):
                segment = step.segment
                now = [0 if size is None else size for size in sizes]
                results = step(now, [values[value] for value in segment.inputs])
                values.update(zip(segment.outputs, results))
            else:
                self._call(step, values, sizes)
        if originals:
            self._write_back(originals, values)
        return self._returned({**values, **originals}, sizes)

    def _check_memory(self, written: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> None:
        """What is copied must not be seen through another input."""
        storages = [tensor.untyped_storage()._cdata for tensor in inputs]
        if any(storages.count(tensor.untyped_storage()._cdata) > 1 for tensor in written):
            raise native.module().Unfit("an input that is written shares its memory with another one")

    def _check(self, sizes: Sequence[int | None]) -> None:
        broken = self._sizes.violated(sizes)
        if broken is not None:
            raise self._failure(f"{broken} does not hold")

    def _call(self, call: Call, values: dict[int, Any], sizes: list[int | None]) -> None:
        """Call an operator as eager does, and look what sizes it gives."""
        assert call.op.raw is not None
        overload, raw = call.op.raw
        positional, keywords = split_arguments(overload, [map_refs(value, lambda ref: values[ref.id]) for value in raw])
        with torch.set_grad_enabled(call.op.grad_enabled and torch.is_grad_enabled()):
            results = overload(*positional, **keywords)
        listed = results if isinstance(results, (tuple, list)) else [results]
        for birth in call.births:
            found = int(listed[0]) if birth.dim is None else listed[0].shape[birth.dim]
            sizes[birth.symbol] = found
        self._check(sizes)
        now = [0 if size is None else size for size in sizes]
        for value, meta, result in zip(call.op.result_ids, call.op.results, listed):
            expected = tuple(_number(size, now) for size in (*meta.sizes, *meta.strides))
            if expected != (*result.shape, *result.stride()):
                raise self._failure(f"{overload} gives {tuple(result.shape)} with strides {result.stride()}")
            values[value] = result

    def _write_back(self, originals: dict[int, torch.Tensor], values: dict[int, Any]) -> None:
        for value, tensor in originals.items():
            version = None if tensor.is_inference() else tensor._version
            with torch.no_grad():
                tensor.copy_(values[value])
            if version is not None:
                torch._C._autograd._unsafe_set_version_counter((tensor,), (version + self._plan.copied[value],))

    def _returned(self, values: dict[int, Any], sizes: Sequence[int | None]) -> list[Any]:
        now = [0 if size is None else size for size in sizes]
        made: list[Any] = []
        for output in self._plan.outputs:
            if output.kind == "value":
                made.append(values[output.id])
            else:
                made.append(_number(output.const, now) if output.kind == "const" else None)
        return made


def _tensor(value: Any) -> torch.Tensor:
    """What the graph is given of an input: of a float a tensor that has it, of an int one that is so long."""
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


def _number(size: Any, values: Sequence[int]) -> Any:
    node: Any = size.node if isinstance(size, torch.SymInt) else None
    return size if node is None else node.at(values)
