"""Derivatives that the compiler has no rule for: torch's own formula, recorded at an operation's shapes and attached.

The operation is run on fakes that require gradients, and torch's engine differentiates it; what both dispatch is
recorded. The operation itself, which the graph has, is dropped from that: its results become arguments beside its
operands and the tangents of its results. So a formula that nobody has written down here, or that a user registered for
an operator, is right at once, and is text like everything else (``vjp = @f``).
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from .. import interruptions, logs, modes
from ..fakes import Faker, quiet_fakes
from ..reasons import Fallback
from ..recorder import OpRecorder
from ..recording import NO_RESULT, InputRecord, OpRecord, OutputRecord, Recording, TensorMeta
from . import custom, formulas, schema
from .replaying import Operands, fake_like, freeze, split_arguments

_BY_A_BIT = {
    torch.ops.aten._conj.default: torch.ops.aten._conj_physical.default,
    torch.ops.aten._neg_view.default: torch.ops.aten.neg.default,
}


class _FormulaRecorder(OpRecorder):
    """Computes what torch conjugates or negates by a bit: nobody sees the tensors of a formula, or writes to them."""

    def _dispatch(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return super()._dispatch(_BY_A_BIT.get(func, func), args, kwargs)


class _NoFormula(Exception):
    """An operation that torch does not differentiate, or not as a function of what is known of it."""


class Differentiator:
    """Finds, records and remembers derivatives. ``rules`` holds the schemas that the compiler has rules for, ``others``
    those of which a recording serves better, with torch's decomposition of the backward operator."""

    def __init__(self, rules: set[str] | frozenset[str], others: set[str] | frozenset[str] = frozenset()) -> None:
        self.rules = frozenset(rules)
        self.all_rules = self.rules | others
        self._cache: dict[Any, Recording | None] = {}
        self._lock = threading.Lock()

    def attach(self, recording: Recording, mode: FakeTensorMode, order: int = 1, all_of_them: bool = False) -> None:
        """Give every operation that needs one its derivative, where there is one; ``all_of_them`` also where the
        compiler has a rule, which need not hold for all arguments.

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
        """Whether the compiler may have to differentiate this operation of a recording and knows no rule for it, or
        where sizes are numbers, none that serves as well as a recording. Its rules are for real numbers."""
        if not op.needs_grad or op.raw is None or op.schema == "aten.detach.default":
            return False
        # What draws numbers into an operand has a formula that takes them from there, and not from the new value.
        rules = self.all_rules if varies else self.rules
        known = (op.functional or op.schema) in rules and not _has_complex(op, of)
        return (all_of_them or not known) and not (op.random and op.functional)

    def _vary(
        self, op: OpRecord, recording: Recording, mode: FakeTensorMode, order: int, some: frozenset[int] | None
    ) -> Recording | None:
        """The derivative where sizes vary. It is not remembered: its sizes are this recording's."""
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
            # Nobody asks for that in later calls.
            raise Fallback("dynamic-shape", f"the derivative of {op.schema} depends on sizes", op.location)
        return found

    def _find(
        self, op: OpRecord, recording: Recording, mode: FakeTensorMode, order: int, some: frozenset[int] | None
    ) -> Recording | None:
        assert op.raw is not None
        overload, raw = op.raw
        device = str(recording.device or "cpu")
        key = (str(overload), freeze(raw, recording.metas, []), op.needs_grad, tuple(op.results), device, order, some)
        # A user may give an operator another formula, and the name to another operator.
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
    """The values that something is made of, or that are returned, and what they are views of."""
    roots = recording.roots()
    read = {operand for op in recording.ops for operand in op.operands}
    found = read | {output.id for output in recording.outputs}
    return found | {roots[value] for value in found if value in roots}


def _some(op: OpRecord, used: set[int]) -> frozenset[int] | None:
    """The places of those results of an operation that are used; None where all of them are.

    No gradient can reach the others. Eager's formula leaves out what is not there, and zeros in its place would not do:
    zero times infinity is no number.
    """
    some = frozenset(at for at, value in enumerate(op.result_ids) if value in used)
    # One that writes is read by what it has written.
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
    """The derivative of one operation, which may be differentiated ``again``; of ``some`` results, by their places.

    The inputs of the recording are the operation's operands, its results, and the tangents of those results that
    have one; the outputs are gradients of the operands that need one. `OutputRecord.gradient` says of which.
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
    """Returns true if a node of these, or one that they lead to, keeps a tensor. What a user's function
    keeps is told by its backward alone."""
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
    """A result of the operation as an argument of its derivative."""
    if result is None:
        return InputRecord(-1 - at, f"result{at}", NO_RESULT, -1)
    return InputRecord(recorder.id_of(result), f"result{at}", TensorMeta.of(result), -1)


def _tangent(recorder: OpRecorder, faker: Faker, result: torch.Tensor, at: int) -> torch.Tensor:
    """The tangent of a result: a new input that looks like it."""
    with modes.set_aside():
        fake = fake_like(faker, TensorMeta.of(result)._replace(offset=0), ("tangent", at), recorder.recording.device)
    recorder.add_input(fake, f"tangent{at}")
    recorder.recording.inputs[-1].tangent = at
    return fake
