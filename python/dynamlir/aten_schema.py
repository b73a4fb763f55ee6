"""What the recorder must know about operator schemas: full argument lists, real mutation, functional variants.

Schemas are not the whole truth. ``native_batch_norm`` writes its running statistics without saying so, and a functional
variant follows a naming habit that only looking at the registered operators can confirm. Everything here is cached per
overload.

The functional variant of a mutating operator returns, in this order: the results that were fresh, then the new value of
each mutated operand in argument order.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload

from . import functional_ops
from .reasons import Fallback

# Operators whose schema hides a mutation: names of the arguments written, and the variant that returns them instead.
_HIDDEN_MUTATION: dict[str, tuple[tuple[str, ...], str]] = {
    "aten.native_batch_norm.default": (
        ("running_mean", "running_var"),
        "aten._native_batch_norm_legit_functional.default",
    ),
    "aten.cudnn_batch_norm.default": (("running_mean", "running_var"), ""),
    "aten.miopen_batch_norm.default": (("running_mean", "running_var"), ""),
    "aten._batch_norm_impl_index.default": (("running_mean", "running_var"), ""),
}

# A hidden or declared mutation that only happens while this argument is true.
_MUTATES_WHEN: dict[str, str] = {
    "aten.native_batch_norm.default": "training",
    "aten.cudnn_batch_norm.default": "training",
    "aten.miopen_batch_norm.default": "training",
    "aten._native_batch_norm_legit.default": "training",
    "aten._native_batch_norm_legit_functional.default": "training",
}

# In-place operators that compute in their operand's element type, where their variant would choose another.
_KEEP_DTYPE = frozenset({"aten.cumsum_.default", "aten.cumprod_.default"})

# In-place operators whose variant is not found by dropping the underscore.
_FUNCTIONAL: dict[str, str] = {
    "aten._native_batch_norm_legit.default": "aten._native_batch_norm_legit_functional.default",
    "aten._batch_norm_with_update.default": "aten._batch_norm_with_update_functional.default",
    "aten._fused_moving_avg_obs_fq_helper.default": "aten._fused_moving_avg_obs_fq_helper_functional.default",
    "aten.normal_.default": "aten.normal_functional.default",
    "aten.rrelu_with_noise.default": "aten.rrelu_with_noise_functional.default",
    "aten.rrelu_with_noise_.default": "aten.rrelu_with_noise_functional.default",
}

# Change the metadata of a tensor object in place; the out-of-place view operator of the same arguments.
INPLACE_VIEWS: dict[str, str] = {
    "aten.t_.default": "aten.t.default",
    "aten.transpose_.default": "aten.transpose.int",
    "aten.squeeze_.default": "aten.squeeze.default",
    "aten.squeeze_.dim": "aten.squeeze.dim",
    "aten.squeeze_.dims": "aten.squeeze.dims",
    "aten.unsqueeze_.default": "aten.unsqueeze.default",
    "aten.swapaxes_.default": "aten.swapaxes.default",
    "aten.swapdims_.default": "aten.swapdims.default",
    "aten.as_strided_.default": "aten.as_strided.default",
    "aten.detach_.default": "aten.detach.default",
}

# Change storage or shape of a tensor in ways that no value semantics can express.
STORAGE_TRICKS = frozenset(
    {
        "set_", "resize_", "resize_as_", "_resize_output_", "set_data", "requires_grad_", "rename_",
        "share_memory_", "untyped_storage", "_fsdp_copy_", "sparse_resize_", "swap_",
    }
)  # fmt: skip


class Argument(NamedTuple):
    """One argument of a schema."""

    name: str
    type: str
    keyword_only: bool
    default: Any
    has_default: bool
    written: bool


class SchemaInfo(NamedTuple):
    """The facts about one overload."""

    name: str
    arguments: tuple[Argument, ...]
    has_written: bool
    random: bool


@functools.cache
def info(op: OpOverload) -> SchemaInfo:
    """Facts about ``op``, read once from its schema."""
    name = str(op)
    hidden = _HIDDEN_MUTATION.get(name, ((), ""))[0]
    arguments = tuple(
        Argument(
            argument.name,
            str(argument.type),
            argument.kwarg_only,
            argument.default_value if argument.has_default_value() else None,
            argument.has_default_value(),
            argument.name in hidden or bool(argument.alias_info is not None and argument.alias_info.is_write),
        )
        for argument in op._schema.arguments
    )
    return SchemaInfo(
        name,
        arguments,
        any(argument.written for argument in arguments),
        torch.Tag.nondeterministic_seeded in op.tags,
    )


def full_arguments(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """All arguments in schema order, defaults filled in, and what the defaults mean where a variant has others."""
    full: list[Any] = []
    for position, argument in enumerate(info(op).arguments):
        if position < len(args) and not argument.keyword_only:
            full.append(args[position])
        elif argument.name in kwargs:
            full.append(kwargs[argument.name])
        else:
            full.append(argument.default)
    if info(op).name in _KEEP_DTYPE and full[-1] is None:
        full[-1] = full[0].dtype
    return full


def call(op: OpOverload, full: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inverse of `full_arguments`: positional and keyword arguments to call ``op`` with."""
    arguments = info(op).arguments
    positional = tuple(value for value, argument in zip(full, arguments) if not argument.keyword_only)
    keywords = {argument.name: value for value, argument in zip(full, arguments) if argument.keyword_only}
    return positional, keywords


def written_arguments(op: OpOverload, full: Sequence[Any]) -> list[int]:
    """Positions of the arguments this very call writes."""
    facts = info(op)
    if not facts.has_written:
        return []
    condition = _MUTATES_WHEN.get(facts.name)
    if condition is not None:
        by_name = {argument.name: value for argument, value in zip(facts.arguments, full)}
        if not by_name[condition]:
            return []
    return [
        position for position, argument in enumerate(facts.arguments) if argument.written and full[position] is not None
    ]


def counts_by_itself(op: OpOverload) -> bool:
    """Whether the kernel bumps the version of what it writes, as ``_foreach`` ones do; else the dispatcher does it."""
    return op._schema.name.startswith("aten::_foreach_")


def find(name: str) -> OpOverload | None:
    """The overload called ``namespace.op.overload``, or None."""
    namespace, _, rest = name.partition(".")
    op, _, overload = rest.rpartition(".")
    packet = getattr(getattr(torch.ops, namespace), op, None)
    found = getattr(packet, overload, None) if packet is not None else None
    return found if isinstance(found, OpOverload) else None


@functools.cache
def functional_variant(op: OpOverload) -> OpOverload | None:
    """The overload that returns new values where ``op`` writes into operands; None when there is none that fits."""
    facts = info(op)
    explicit = _HIDDEN_MUTATION.get(facts.name, ((), ""))[1] or _FUNCTIONAL.get(facts.name)
    if explicit:
        return find(explicit)
    written_kept = [argument for argument in facts.arguments if not is_out_argument(argument)]
    base = op._schema.name.split("::")[-1]
    namespace = op.namespace
    inplace = base.endswith("_") and not base.endswith("__")
    iop = base.startswith("__i") and base.endswith("__")
    names = [base]
    if inplace:
        names = [base[:-1]]
    elif iop:
        names = ["__" + base[3:]]
    candidates: list[OpOverload] = []
    for name in names:
        packet = getattr(getattr(torch.ops, namespace), name, None)
        if packet is None:
            continue
        overloads = packet.overloads()
        same = op._overloadname
        candidates += [getattr(packet, same)] if same in overloads else []
        candidates += [getattr(packet, overload) for overload in overloads if overload != same]
    for candidate in candidates:
        if _fits(candidate, written_kept, op):
            return candidate
    return functional_ops.variant(op)


def is_out_argument(argument: Argument) -> bool:
    """Whether the argument is an ``out=`` tensor, whose old contents do not matter."""
    return argument.written and argument.keyword_only


def _fits(candidate: OpOverload, wanted: Sequence[Argument], op: OpOverload) -> bool:
    facts = info(candidate)
    if facts.has_written or len(facts.arguments) > len(wanted):
        return False
    if [(a.name, _plain(a.type)) for a in facts.arguments] != [
        (a.name, _plain(a.type)) for a in wanted[: len(facts.arguments)]
    ]:
        return False
    if len(facts.arguments) < len(wanted):
        return False
    written = sum(1 for argument in info(op).arguments if argument.written)
    fresh = sum(1 for result in op._schema.returns if result.alias_info is None)
    return len(candidate._schema.returns) == written + fresh


def _plain(type_text: str) -> str:
    return type_text.replace("Optional[Tensor]", "Tensor").replace("Tensor?", "Tensor")


def functional_arguments(op: OpOverload, functional: OpOverload, full: Sequence[Any]) -> list[Any]:
    """The arguments of the functional variant for a call of ``op``: the same, less the ``out=`` tensors."""
    names = {argument.name: value for argument, value in zip(info(op).arguments, full)}
    return [names.get(argument.name, argument.default) for argument in info(functional).arguments]


def require_functional(op: OpOverload) -> OpOverload:
    """`functional_variant`, or `Fallback` when there is none."""
    found = functional_variant(op)
    if found is None:
        raise Fallback("no-functional-variant", str(op))
    return found
