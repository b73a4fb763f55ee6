"""Rechecks calls of torch's functions that made assumptions about unbacked sizes.

If such a function asks whether a size is 0 or 1, the answer is assumed to be no. So the call is recorded again with
each of these numbers instead of the size. If this records other operations, or results that do not match the
expressions, the recording is not valid for all sizes: the capture ends before the call. Strides are an exception, where
they are arbitrary: those for these numbers are noted (`Layouts`).
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from . import interruptions, modes
from .aten import composites
from .aten.unbacked import Birth, Sources
from .device import device_of
from .fakes import Faker, give_history, made_fake
from .reasons import Fallback
from .recorder import OpRecorder
from .recording import OpRecord, Recording, Ref, TensorMeta

Layouts = list[tuple[dict[int, int], TensorMeta]]
"""The layouts of a value for given values of symbols, by their numbers; the last match counts."""

_MOST = 4
"""The maximum number of sizes with assumptions at once: each has three cases."""


class Calls:
    """The calls of one recording that may involve unbacked sizes."""

    def __init__(self, recorder: OpRecorder, sizes: Any, makes_sizes: bool, reads_numbers: bool) -> None:
        self.recorder, self.sizes = recorder, sizes
        self.births: list[Birth] = []
        """The operations that create unbacked sizes and numbers."""
        self.layouts: dict[int, Layouts] = {}
        """The layouts of values for unbacked sizes of 0 or 1, if they differ from the expressions."""
        recorder.sources = Sources(sizes, makes_sizes, reads_numbers, self.births)

    def run(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls one of torch's functions on fakes; raises `Fallback` if the recording is not valid for all sizes."""
        sizes = self.sizes
        before = len(self.recorder.recording.ops), len(self.births)
        sizes.presume(True)
        try:
            out = self._first(target, args, kwargs)
            symbols = sizes.presume(True)
            if (symbols or self.layouts) and sizes.undecided is None:
                _look_again(self, target, args, kwargs, (*before, out), symbols)
        finally:
            sizes.presume(False)
        if sizes.undecided is not None:
            raise Fallback("data-dependent", sizes.undecided)
        return out

    def _first(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the call with all such sizes assumed to be 2 or more. Whether it raises for smaller ones is unknown."""
        try:
            return composites.run(self.recorder, target, args, kwargs)
        except Fallback:
            raise
        except Exception as error:
            interruptions.pass_on(error)
            if self.sizes.presume(True):
                name = getattr(target, "__name__", "an operation")
                told = f"{name}, which may raise for some unbacked sizes"
                raise Fallback("data-dependent", told) from error
            raise


def _look_again(
    calls: Calls,
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    seen: tuple[int, int, Any],
    symbols: Sequence[int],
) -> None:
    """Raises `Fallback` if the call would have been a different one for a size of 0 or 1. ``seen`` describes its
    recording: the number of operations and of symbols before it, and its result."""
    symbols = sorted({*symbols, *_noted(calls, args, kwargs, target)})
    if not symbols:
        return
    if len(symbols) > _MOST:
        raise Fallback("data-dependent", f"{len(symbols)} unbacked sizes in one operation")
    many = len(symbols) * [None]
    for case in itertools.product((None, 0, 1), repeat=len(symbols)):
        values = {symbol: value for symbol, value in zip(symbols, case) if value is not None}
        if list(case) == many or not calls.sizes.can_be(list(values.items())):
            continue
        again = _Again(calls, values, seen)
        try:
            same = again.is_same(target, args, kwargs)
        except _Raises:
            # As in eager: for such a size the call is left to eager.
            if len(values) == 1 and all(calls.sizes.never(*pair) for pair in values.items()):
                continue
            same = False
        if same:
            for value, meta in again.otherwise.items():
                calls.layouts.setdefault(value, []).append((values, meta))
        else:
            told = " and ".join(f"s{symbol} is {value}" for symbol, value in values.items())
            name = getattr(target, "__name__", "an operation")
            raise Fallback(
                "data-dependent",
                f"{name}, which is another operation where {told}, and that is unbacked;"
                " torch._check can state that it is not",
            )


class _Raises(Exception):
    """A call raises for these numbers."""


def _noted(calls: Calls, args: Any, kwargs: Any, target: Any) -> set[int]:
    """Returns the symbols for which an operand has noted layouts."""
    if not calls.layouts:
        return set()
    operands = pytree.tree_leaves((args, kwargs, getattr(target, "__self__", None)))
    numbers = (calls.recorder.number(operand) for operand in operands if isinstance(operand, FakeTensor))
    noted = [calls.layouts.get(number, ()) for number in numbers if number is not None]
    return {symbol for layouts in noted for values, _ in layouts for symbol in values}


class _Again:
    """One call, recorded with numbers for some sizes."""

    def __init__(self, calls: Calls, values: Mapping[int, int], seen: tuple[int, int, Any]) -> None:
        self.calls, self.values = calls, values
        ops, births, self.returned = seen
        sources = calls.recorder.sources
        assert sources is not None
        self.expected = calls.recorder.recording.ops[ops:]
        mode = calls.recorder.faker.mode
        self.recorder = OpRecorder(Recording("again"), Faker(mode))
        self.recorder.memo.varies, self.recorder.memo.assumes = True, False
        self.recorder.sources = _Numbers(self, sources, births)
        self.twins: dict[int, torch.Tensor] = {}
        self.storages: dict[int, torch.Tensor] = {}
        self.otherwise: dict[int, TensorMeta] = {}
        """The values whose layouts differ here."""
        self.ids: dict[int, int] = {}
        """The values of the original recording by those of this one."""

    def number(self, size: Any) -> Any:
        """Returns a size with these numbers substituted."""
        if not isinstance(size, torch.SymInt):
            return size
        return self.calls.sizes.where_they_are(size, list(self.values.items()))

    def is_same(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Returns true if the call records the same operations with these numbers."""
        owner = getattr(target, "__self__", None)
        try:
            with modes.set_aside(), self.calls.recorder.faker.mode:
                if isinstance(owner, FakeTensor):
                    target = getattr(self.twin(owner), target.__name__)
                args, kwargs = pytree.tree_map(self.argument, (args, kwargs))
                with self.recorder:
                    returned = composites.run(self.recorder, target, args, kwargs)
        except Fallback:
            raise
        except Exception as error:
            interruptions.pass_on(error)
            raise _Raises from error
        if self.recorder.failure is not None:
            raise self.recorder.failure
        ops = self.recorder.recording.ops
        if len(ops) != len(self.expected):
            return False
        return all(map(self.same_op, self.expected, ops)) and self.same(self.returned, returned)

    def argument(self, value: Any) -> Any:
        """Returns an argument with these numbers substituted."""
        if isinstance(value, FakeTensor):
            return self.twin(value)
        if isinstance(value, (torch.Tensor, torch.SymFloat)):
            raise Fallback("data-dependent", "an operation on unbacked sizes and on other values")
        if isinstance(value, slice):
            return slice(*map(self.number, (value.start, value.stop, value.step)))
        return self.number(value)

    def twin(self, fake: torch.Tensor) -> torch.Tensor:
        """Returns a fake with these numbers as sizes."""
        known = self.twins.get(id(fake))
        if known is not None:
            return known
        recorder = self.calls.recorder
        value = recorder.id_of(fake)
        with modes.set_aside():
            meta = self.layout(value, self.calls.recorder.recording.metas[value])
            sizes, strides, offset = list(meta.sizes), list(meta.strides), meta.offset
            storage = fake.untyped_storage()._cdata
            base = self.storages.get(storage)
            if base is None:
                elem = torch.empty_strided(sizes, strides, dtype=fake.dtype, device="meta")
                if isinstance(offset, torch.SymInt) or offset:
                    memory = torch.empty(
                        elem.untyped_storage().nbytes() // elem.element_size() + offset, dtype=fake.dtype, device="meta"
                    )
                    elem = torch.empty(0, dtype=fake.dtype, device="meta").set_(
                        memory.untyped_storage(), offset, sizes, strides
                    )
                self.storages[storage] = elem
            else:
                elem = torch.empty(0, dtype=fake.dtype, device="meta").set_(
                    base.untyped_storage(), offset, sizes, strides
                )
            made = made_fake(self.calls.recorder.faker.mode, elem, device_of(fake))
        if fake.requires_grad:
            if fake.is_leaf:
                made.requires_grad_(True)
            else:
                give_history(made)
        self.twins[id(fake)] = made
        self.ids[self.recorder.add_value(made)] = value
        return made

    def same_op(self, one: OpRecord, other: OpRecord) -> bool:
        """Returns true if two operations are the same."""
        facts = ("schema", "aliases", "mutates", "functional", "grad_enabled", "needs_grad")
        if any(getattr(one, name) != getattr(other, name) for name in facts):
            return False
        if len(one.results) != len(other.results) or not self.same_args(one.raw, other.raw):
            return False
        self.ids.update(zip(other.result_ids, one.result_ids))
        return all(map(self.same_meta, one.result_ids, one.results, other.results))

    def layout(self, value: int, meta: TensorMeta) -> TensorMeta:
        """Returns the metadata of an original value with these numbers, according to the noted layouts."""
        for values, noted in reversed(self.calls.layouts.get(value, ())):
            if values.items() <= self.values.items():
                meta = noted
                break
        sizes, strides = (tuple(map(self.number, numbers)) for numbers in (meta.sizes, meta.strides))
        return TensorMeta(meta.dtype, sizes, strides, self.number(meta.offset))

    def same_args(self, one: Any, other: Any) -> bool:
        """Returns true if the arguments of the original recording and of this one are the same."""
        if isinstance(one, Ref):
            return isinstance(other, Ref) and self.ids.get(other.id) == one.id
        if isinstance(one, (list, tuple)):
            return isinstance(other, (list, tuple)) and len(one) == len(other) and all(map(self.same_args, one, other))
        if isinstance(one, torch.SymInt) or isinstance(other, torch.SymInt):
            return _same_size(self.number(one), other)
        return type(one) is type(other) and (one is other or one == other or one != one)

    def same_meta(self, value: int, one: TensorMeta, other: TensorMeta) -> bool:
        """Returns true if an original value has the same sizes here. Records different strides."""
        if one.dtype != other.dtype or len(one.sizes) != len(other.sizes):
            return False
        if not all(_same_size(self.number(a), b) for a, b in zip(one.sizes, other.sizes)):
            return False
        left, right = (*one.strides, one.offset), (*other.strides, other.offset)
        if not all(_same_size(self.number(a), b) for a, b in zip(left, right)):
            self.otherwise[value] = other
        return True

    def same(self, one: Any, other: Any) -> bool:
        """Returns true if both calls returned the same."""
        left, right = pytree.tree_leaves(one), pytree.tree_leaves(other)
        return len(left) == len(right) and all(map(self._same_leaf, left, right))

    def _same_leaf(self, one: Any, other: Any) -> bool:
        if isinstance(one, torch.Tensor):
            if not isinstance(other, torch.Tensor) or one.requires_grad != other.requires_grad:
                return False
            number = self.recorder.number(other)
            return number is not None and self.ids.get(number) == self.calls.recorder.id_of(one)
        if isinstance(one, torch.SymInt) or isinstance(other, torch.SymInt):
            return _same_size(self.number(one), other)
        if isinstance(one, (types.BuiltinMethodType, types.MethodType)):
            return isinstance(other, type(one)) and one.__name__ == other.__name__  # bound to the tensor
        return type(one) is type(other) and (one is other or bool(one == other))


class _Numbers(Sources):
    """The symbols that a call creates: the same ones, or numbers."""

    def __init__(self, again: _Again, known: Sources, first: int) -> None:
        super().__init__(known.sizes, known.makes_sizes, known.reads_numbers, [])
        self.again = again
        self.made = iter([birth.symbol for birth in known.births[first:]])

    def size(self) -> Any:
        symbol = next(self.made, None)
        if symbol is None:
            raise Fallback("data-dependent", "another operation where a size is 0 or 1")
        return self.again.number(self.sizes.symbol(symbol))

    number = size


def _same_size(one: Any, other: Any) -> bool:
    if isinstance(one, torch.SymInt) and isinstance(other, torch.SymInt):
        return str(one.node) == str(other.node)
    return not isinstance(one, torch.SymInt) and not isinstance(other, torch.SymInt) and int(one) == int(other)
