"""Functional variants for operators of users' that write their arguments: `torch.library` defines none.

Such a variant copies what the operator would write, calls the operator on the copies, and returns them after the
results. It is an operator like any other, so that graphs, dumps and the runtime need to know nothing of this.
"""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

NAMESPACE = "dynamlir_functional"
# Whose operators have the variants that torch gives them.
TORCHS = frozenset({"aten", "prim", "prims", "quantized", "_c10d_functional", "c10d", "profiler", "inductor"})


@functools.cache
def variant(op: OpOverload) -> OpOverload | None:
    """The functional variant of a user's operator, defined when first asked for. None for torch's own, and where it
    writes anything but tensors, which may be in lists, or returns anything else."""
    schema = op._schema
    written = [at for at, argument in enumerate(schema.arguments) if argument.is_write]
    if op.namespace in TORCHS or not written:
        return None
    if any(str(schema.arguments[at].type) not in ("Tensor", "Optional[Tensor]", "List[Tensor]") for at in written):
        return None
    if any(result.alias_info is not None or str(result.type) != "Tensor" for result in schema.returns):
        return None
    name = _free("_".join([op.namespace, schema.name.split("::")[-1], op._overloadname]))
    text = str(schema)
    # Such as `Tensor(a0!) x, int[] sizes=[1], *, float by=1.0`.
    arguments = re.sub(r"\(\w+!\)", "", text[text.index("(") + 1 : text.rindex(") ->")])
    results = ", ".join(["Tensor"] * (len(schema.returns) + len(written)))
    # How many are written is known at a call where one is a list, or may be None: then all are in one list.
    listed = any(str(schema.arguments[at].type) != "Tensor" for at in written)
    library = _library()
    library.define(f"{name}({arguments}) -> {'Tensor[]' if listed else f'({results})' if ',' in results else results}")
    library.impl(name, _implementation(op, written, listed), "CompositeExplicitAutograd")
    return getattr(getattr(torch.ops, NAMESPACE), name).default


_taken: collections.Counter[str] = collections.Counter()


def _free(name: str) -> str:
    """A name that no variant has yet. An operator that is defined again gets another variant: what was compiled before
    goes on calling the old one."""
    _taken[name] += 1
    return name if _taken[name] == 1 else _free(f"{name}_{_taken[name]}")


@functools.cache
def _library() -> torch.library.Library:
    return torch.library.Library(NAMESPACE, "FRAGMENT")


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone(memory_format=torch.preserve_format)
    return value if value is None else [_copied(element) for element in value]


def _implementation(op: OpOverload, written: list[int], listed: bool) -> Callable[..., Any]:
    arguments = op._schema.arguments

    def call(*args: Any, **kwargs: Any) -> Any:
        given, named = list(args), dict(kwargs)
        copies: list[torch.Tensor] = []
        for at in written:
            holder: Any = named if at >= len(given) else given
            place = arguments[at].name if at >= len(given) else at
            # One that is not given is None.
            if (at < len(given) or place in named) and holder[place] is not None:
                holder[place] = _copied(holder[place])
                copies += [holder[place]] if isinstance(holder[place], torch.Tensor) else holder[place]
        result = op(*given, **named)
        results = [] if result is None else [result] if isinstance(result, torch.Tensor) else list(result)
        results += copies
        return results if listed else results[0] if len(results) == 1 else tuple(results)

    return call
