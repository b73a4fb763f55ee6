"""Derivatives for which the compiler has no rule: torch's own formula, recorded at an operation's shapes and attached.

The operation is run on fakes that require gradients, and torch's engine differentiates it; all operations dispatched by
both are recorded. The operation itself is dropped from the recording, because the graph has it. Its results become
arguments, along with its operands and the tangents of its results. So any formula, including one that a user registered
for an operator, is correct without being written down here, and appears as text (``vjp = @f``).
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from .. import interruptions, logs, modes, native
from ..fakes import Faker, quiet_fakes
from ..reasons import Fallback
from ..recorder import OpRecorder
from ..recording import NO_RESULT, InputRecord, OpRecord, OutputRecord, Recording, TensorMeta
from . import custom, formulas, schema
from .rerun_on_fakes import Operands, fake_like, freeze, split_arguments

_BY_A_BIT = {
    torch.ops.aten._conj.default: torch.ops.aten._conj_physical.default,
    torch.ops.aten._neg_view.default: torch.ops.aten.neg.default,
}


class _FormulaRecorder(OpRecorder):
    """Computes conjugates and negations that torch marks by a bit: a formula's tensors are neither seen nor written."""

    def _dispatch(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return super()._dispatch(_BY_A_BIT.get(func, func), args, kwargs)


class _NoFormula(Exception):
    """An operation that torch does not differentiate, or not as a function of its known values."""


class Differentiator:
    """Finds, records and caches derivatives. ``rules`` holds the schemas for which the compiler has rules, ``others``
    those for which a recording is better, with torch's decomposition of the backward operator."""

    def __init__(self, rules: set[str] | frozenset[str], others: set[str] | frozenset[str] = frozenset()) -> None:
        self.rules = frozenset(rules)
        self.all_rules = self.rules | others
        self._cache: dict[Any, Recording | None] = {}
        self._lock = threading.Lock()

    def attach(self, recording: Recording, mode: FakeTensorMode, order: int = 1, all_of_them: bool = False) -> None:
        """Attaches a derivative to every operation that needs one, where one exists. With ``all_of_them`` also where
        the compiler has a rule, which may not be valid for all arguments.

        With ``order`` 2 or more, the operations of derivatives get theirs, too, and so on.
        """
        varies = recording.varying is not None
        # The formulas of derivatives read results that the program does not.
        used = _used(recording) if order == 1 else None
        with _disable_current_modes(), quiet_fakes():
            for op in recording.ops:
                if op.vjp is None and self.wants(op, recording, all_of_them, varies):
                    some = None if used is None else _some(op, used)
                    find = self._vary if varies else self._find
                    op.vjp = find(op, recording, mode, order, some)
                if op.vjp is not None and order > 1:
                    self.attach(op.vjp, mode, order - 1, all_of_them)

    def wants(self, op: OpRecord, of: Recording, all_of_them: bool = False, varies: bool = False) -> bool:
        """Returns true if the compiler may have to differentiate this operation and has no rule for it or, with static
        sizes, none as good as a recording. Its rules are for real numbers."""
        if not op.needs_grad or op.raw is None or op.schema == "aten.detach.default":
            return False
        # The formula of an operation that draws numbers into an operand reads them there, not from the new value.
        rules = self.all_rules if varies else self.rules
        known = (op.functional or op.schema) in rules and not _has_complex(op, of)
        return (all_of_them or not known) and not (op.random and op.functional)

    def _vary(
        self, op: OpRecord, recording: Recording, mode: FakeTensorMode, order: int, some: frozenset[int] | None
    ) -> Recording | None:
        """Returns the derivative for dynamic sizes. It is not cached, because its sizes belong to this recording."""
        assert op.raw is not None and recording.varying is not None
        sizes, _ = recording.varying
        known = len(sizes.guards)
        try:
            found = record_vjp(op, *op.raw, recording, mode, some=some)
        except Exception as error:
            interruptions.pass_on(error)
            logs.logger("decomposition").info("%s: no derivative: %s: %s", op.schema, type(error).__name__, error)
            found = None
        if len(sizes.guards) != known or sizes.failed is not None:
            # No guard would check this in later calls.
            raise Fallback("dynamic-shape", f"the derivative of {op.schema} depends on sizes", op.location)
        return found

    def _find(
        self, op: OpRecord, recording: Recording, mode: FakeTensorMode, order: int, some: frozenset[int] | None
    ) -> Recording | None:
        assert op.raw is not None
        overload, raw = op.raw
        device = str(recording.device or "cpu")
        key = (str(overload), freeze(raw, recording.metas, []), op.needs_grad, tuple(op.results), device, order, some)
        # A user may replace an operator's formula, or reuse its name for another operator.
        remembers = overload.namespace in custom.TORCHS
        with self._lock:
            if remembers and key in self._cache:
                return self._cache[key]
        log = logs.logger("decomposition")
        try:
            found = record_vjp(op, overload, raw, recording, mode, again=order > 1, some=some)
            log.info("%s: %s", overload, dict(found.histogram()))
        except Exception as error:
            interruptions.pass_on(error)
            log.info("%s: no derivative: %s: %s", overload, type(error).__name__, error)
            found = None
        if remembers:
            with self._lock:
                self._cache[key] = found
        return found


def _has_complex(op: OpRecord, of: Recording) -> bool:
    return any(of.metas[value].dtype.startswith("complex") for value in (*op.operands, *op.result_ids))


def _used(recording: Recording) -> set[int]:
    """Returns the values that are used or returned, and their bases."""
    roots = recording.roots()
    read = {operand for op in recording.ops for operand in op.operands}
    found = read | {output.id for output in recording.outputs}
    return found | {roots[value] for value in found if value in roots}


def _some(op: OpRecord, used: set[int]) -> frozenset[int] | None:
    """Returns the indices of those results of an operation that are used; None if all are.

    No gradient can reach the others. Eager's formula leaves out absent results. Zeros in their place would be wrong:
    zero times infinity is NaN.
    """
    some = frozenset(at for at, value in enumerate(op.result_ids) if value in used)
    # The values that a writing operation leaves are read through its operands.
    return None if op.mutates or not some or len(some) == len(op.result_ids) else some


def record_vjp(
    op: OpRecord,
    overload: OpOverload,
    raw: list[Any],
    of: Recording,
    mode: FakeTensorMode,
    again: bool = False,
    some: frozenset[int] | None = None,
) -> Recording:
    """Records the derivative of one operation, which may be differentiated ``again``; only for ``some`` results, by
    index.

    The inputs of the recording are the operation's operands, its results, and the tangents of those results that have
    one; the outputs are gradients of the operands that need one. `OutputRecord.gradient` gives the operand.
    """
    recording = Recording(f"vjp of {overload}", device=of.device)
    faker = Faker(mode)
    recorder = _FormulaRecorder(recording, faker)
    recorder.memo.varies, recorder.memo.assumes = of.varying is not None, False
    wanted = {op.operands[at] for at in op.needs_grad}
    operands = Operands(recorder, faker, of, lambda fake, value: fake.requires_grad_(value in wanted))
    arguments = [operands.replaced(value) for value in raw]
    positional, keywords = split_arguments(overload, arguments)
    cast = torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False)
    alone = torch.autograd.set_multithreading_enabled(False)
    with cast[0], cast[1], alone, torch.enable_grad(), mode, recorder:
        results = pytree.tree_leaves(overload(*positional, **keywords))
        forward = list(recording.ops)
        given = [_input(recorder, leaf, at) for at, leaf in enumerate(results)]
        wanted_of = range(len(results)) if some is None else some
        differentiable = [
            at for at, leaf in enumerate(results) if leaf is not None and leaf.requires_grad and at in wanted_of
        ]
        if not differentiable:
            raise _NoFormula("no result requires a gradient")
        tangents = [_tangent(recorder, faker, results[at], at).requires_grad_(again) for at in differentiable]
        leaves = [fake for fake in operands.fakes.values() if fake.requires_grad]
        with modes.set_aside():
            recording.keeps = _keeps([results[at].grad_fn for at in differentiable])
        outputs = [results[at] for at in differentiable]
        formula = formulas.find(overload)
        if formula is None or len(leaves) != 1 or leaves[0].is_complex():
            gradients = torch.autograd.grad(outputs, leaves, tangents, allow_unused=True, create_graph=again)
        else:
            with torch.set_grad_enabled(again):
                gradients = (formula(outputs[0], tangents[0], arguments),)
        recorder.note_histories()
    if recorder.failure is not None:
        raise recorder.failure
    recording.inputs[len(operands.order) : len(operands.order)] = given
    itself = [record for record in forward if record.schema == schema.info(overload).name]
    recording.ops = [record for record in recording.ops if record is not itself[0]]
    if len(itself) != 1 or recording.mutates_inputs or recording.has_random:
        raise _NoFormula("the formula is not a function of the operands, the results and their tangents")
    by_leaf = {id(leaf): gradient for leaf, gradient in zip(leaves, gradients, strict=True)}
    for at in dict.fromkeys(op.needs_grad):
        gradient = by_leaf.get(id(operands.fakes[op.operands[at]]))
        if gradient is not None and op.operands.index(op.operands[at]) == at:
            place = operands.order.index(op.operands[at])
            recording.outputs.append(OutputRecord("value", recorder.id_of(gradient), gradient=place))
    return recording


def _keeps(nodes: list[Any]) -> bool:
    """Returns true if one of these nodes, or a node they lead to, saves a tensor. For a user's function only its
    backward shows what it saves."""
    seen = set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        nodes += [following for following, _ in node.next_functions]
        names = [name for name in dir(type(node)) if name.startswith("_saved_")]
        if any(isinstance(leaf, torch.Tensor) for name in names for leaf in pytree.tree_leaves(getattr(node, name))):
            return True
    return False


def _input(recorder: OpRecorder, result: torch.Tensor | None, at: int) -> InputRecord:
    """Returns a result of the operation as an argument of its derivative."""
    if result is None:
        return InputRecord(-1 - at, f"result{at}", NO_RESULT, -1)
    return InputRecord(recorder.id_of(result), f"result{at}", TensorMeta.of(result), -1)


def _tangent(recorder: OpRecorder, faker: Faker, result: torch.Tensor, at: int) -> torch.Tensor:
    """Returns the tangent of a result: a new input with the same metadata."""
    with modes.set_aside():
        fake = fake_like(faker, TensorMeta.of(result)._replace(offset=0), ("tangent", at), recorder.recording.device)
    recorder.add_input(fake, f"tangent{at}")
    recorder.recording.inputs[-1].tangent = at
    return fake


@native.derived
def differentiator() -> Differentiator:
    """Returns the process's derivatives, for the operations for which this native module has no rules."""
    return Differentiator(native.module().rust_rules(), native.module().rust_rules(better_recorded=True))
