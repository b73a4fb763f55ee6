"""The facts about operator schemas that the recorder needs: full argument lists, real mutation, functional variants.

Schemas are incomplete: what they do not state is in `table`. A functional variant follows a naming convention that has
to be checked against the registered operators. Everything here is cached per overload.

The functional variant of a mutating operator returns, in this order: the results that were fresh, then the new value of
each mutated operand in argument order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload

from ..reasons import Fallback
from . import custom, table


class Argument(NamedTuple):
    """One argument of a schema."""

    name: str
    type: str
    keyword_only: bool
    default: Any
    has_default: bool
    written: bool


class Operator(NamedTuple):
    """One overload."""

    name: str
    """``aten.add.Tensor``."""
    arguments: tuple[Argument, ...]
    has_written: bool
    random: bool
    """True if it may draw random numbers."""
    pointwise: bool
    """True if it computes element by element."""
    inplace_view: bool
    """True if it changes the metadata of a tensor object."""
    reads_contents: bool
    """True if its result, or the result's size, depends on contents that fakes do not have."""
    facts: table.Facts
    """Facts that the schema does not state."""


@functools.cache
def info(op: OpOverload) -> Operator:
    """Returns the facts about ``op``, read once from its schema, its tags and the table."""
    name = str(op)
    facts = table.facts(name)
    arguments = tuple(
        Argument(
            argument.name,
            str(argument.type),
            argument.kwarg_only,
            argument.default_value if argument.has_default_value() else None,
            argument.has_default_value(),
            argument.name in facts.hidden_writes
            or bool(argument.alias_info is not None and argument.alias_info.is_write),
        )
        for argument in op._schema.arguments
    )
    return Operator(
        name,
        arguments,
        has_written=any(argument.written for argument in arguments),
        random=torch.Tag.nondeterministic_seeded in op.tags,
        pointwise=facts.pointwise or torch.Tag.pointwise in op.tags,
        inplace_view=torch.Tag.inplace_view in op.tags,
        reads_contents=torch.Tag.data_dependent_output in op.tags or torch.Tag.dynamic_output_shape in op.tags,
        facts=facts,
    )


def may_draw(op: OpOverload, full: Sequence[Any]) -> bool:
    """Returns true if a call with these arguments may draw random numbers."""
    known = info(op)
    never = any(argument.name == "dropout_p" and value == 0 for argument, value in zip(known.arguments, full))
    return known.random and not never


def named(schema: str) -> OpOverload | None:
    """Returns the overload of this name (``aten.add.Tensor``); None if it does not exist."""
    found: Any = torch.ops
    for part in schema.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, OpOverload) else None


def draws(schema: str) -> bool:
    """Returns true if an operator, by the name of its overload, may draw random numbers; False if it does not exist."""
    found = named(schema)
    return found is not None and info(found).random


def full_arguments(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Returns all arguments in schema order, with defaults, made explicit where the variant has different ones."""
    full: list[Any] = []
    for position, argument in enumerate(info(op).arguments):
        if position < len(args) and not argument.keyword_only:
            full.append(args[position])
        elif argument.name in kwargs:
            full.append(kwargs[argument.name])
        else:
            full.append(argument.default)
    if info(op).facts.keeps_dtype and full[-1] is None:
        full[-1] = full[0].dtype
    return full


def call(op: OpOverload, full: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inverse of `full_arguments`: returns positional and keyword arguments for calling ``op``."""
    arguments = info(op).arguments
    positional = tuple(value for value, argument in zip(full, arguments) if not argument.keyword_only)
    keywords = {argument.name: value for value, argument in zip(full, arguments) if argument.keyword_only}
    return positional, keywords


def written_arguments(op: OpOverload, full: Sequence[Any]) -> list[int]:
    """Returns the positions of the arguments that this particular call writes."""
    known = info(op)
    if not known.has_written:
        return []
    condition = known.facts.writes_when
    if condition is not None:
        by_name = {argument.name: value for argument, value in zip(known.arguments, full)}
        if not by_name[condition]:
            return []
    return [
        position for position, argument in enumerate(known.arguments) if argument.written and full[position] is not None
    ]


def counts_by_itself(op: OpOverload) -> bool:
    """Returns true if the kernel bumps the version of what it writes, as for ``_foreach``, not the dispatcher."""
    return op._schema.name.startswith("aten::_foreach_")


def find(name: str) -> OpOverload | None:
    """Returns the overload called ``namespace.op.overload``, or None."""
    namespace, _, rest = name.partition(".")
    op, _, overload = rest.rpartition(".")
    packet = getattr(getattr(torch.ops, namespace), op, None)
    found = getattr(packet, overload, None) if packet is not None else None
    return found if isinstance(found, OpOverload) else None


@functools.cache
def functional_variant(op: OpOverload) -> OpOverload | None:
    """Returns the overload that returns new values where ``op`` writes into operands; None if none fits."""
    known = info(op)
    if known.facts.functional:
        return find(f"aten.{known.facts.functional}")
    kept = [argument for argument in known.arguments if not is_out_argument(argument)]
    base = op._schema.name.split("::")[-1]
    name = base[:-1] if base.endswith("_") and not base.endswith("__") else base
    names = [f"{name}_functional", name] if len(kept) == len(known.arguments) else [name]
    if base.startswith("__i"):
        names = ["__" + base[3:]]
    for packet in (getattr(getattr(torch.ops, op.namespace), name, None) for name in names):
        overloads = packet.overloads() if packet is not None else []
        # The overload of the same name first.
        for overload in sorted(overloads, key=lambda overload: overload != op._overloadname):
            if _fits(getattr(packet, overload), kept, op):
                return getattr(packet, overload)
    return custom.variant(op)


def as_called(name: str, functional: OpOverload) -> OpOverload | None:
    """Returns the mutating overload of this name, if it takes the arguments of its functional variant."""
    op = find(name)
    if op is None or [each.name for each in info(op).arguments] != [each.name for each in info(functional).arguments]:
        return None
    return op


def inplace_view(op: OpOverload) -> OpOverload | None:
    """Returns the view operator with the same arguments if ``op`` changes a tensor object; None if there is none."""
    view = functional_variant(op)
    return view if view is not None and view._schema.returns[0].alias_info is not None else None


def is_out_argument(argument: Argument) -> bool:
    """Returns true if the argument is an ``out=`` tensor, whose old contents do not matter."""
    return argument.written and argument.keyword_only


def _fits(candidate: OpOverload, wanted: Sequence[Argument], op: OpOverload) -> bool:
    known = info(candidate)
    if known.has_written or len(known.arguments) != len(wanted):
        return False
    if [(a.name, _plain(a.type)) for a in known.arguments] != [(a.name, _plain(a.type)) for a in wanted]:
        return False
    written = sum(1 for argument in info(op).arguments if argument.written)
    fresh = sum(1 for result in op._schema.returns if result.alias_info is None)
    return len(candidate._schema.returns) == written + fresh


def _plain(type_text: str) -> str:
    return type_text.replace("Optional[Tensor]", "Tensor").replace("Tensor?", "Tensor")


_COMPUTED = frozenset(["number", "Optional[number]", "List[number]", "Tensor", "Optional[Tensor]"])
"""The types of arguments whose ints are computed with: 64 bits must hold them, and the results."""


def fit(func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Assumes that no dynamic int is too large to be computed with."""
    arguments = info(func).arguments
    kinds = {argument.name: argument.type for argument in arguments}
    given = [*zip((argument.type for argument in arguments), args), *((kinds[name], kwargs[name]) for name in kwargs)]
    for kind, value in given:
        if kind in _COMPUTED:
            for number in value if type(value) in (list, tuple) else (value,):
                if isinstance(number, torch.SymInt):
                    number.node.fit()  # type: ignore[attr-defined]


def functional_arguments(op: OpOverload, functional: OpOverload, full: Sequence[Any]) -> list[Any]:
    """Returns the arguments of the functional variant for a call of ``op``: the same, less the ``out=`` tensors."""
    names = {argument.name: value for argument, value in zip(info(op).arguments, full)}
    return [names.get(argument.name, argument.default) for argument in info(functional).arguments]


def require_functional(op: OpOverload) -> OpOverload:
    """Returns the `functional_variant`; raises `Fallback` if it does not exist."""
    found = functional_variant(op)
    if found is None:
        raise Fallback("no-functional-variant", str(op))
    return found


def without_writes(op: OpOverload) -> OpOverload:
    """Returns the operator for a call that writes nothing, because all that a user's operator may write is an empty
    list or None."""
    return require_functional(op) if info(op).has_written and op.namespace not in custom.TORCHS else op


def by_aten(prim: OpOverload) -> Callable[..., Any]:
    """Returns torch's own implementation of an operator of ``prims``, which calls those of ATen.

    Raises a `Fallback` if it does not exist.
    """
    implementation = getattr(prim, "impl_aten", None)
    if implementation is None:
        raise Fallback("no-fake", str(prim))
    return implementation
