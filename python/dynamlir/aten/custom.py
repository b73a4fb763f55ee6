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
    writes anything but tensors that each have an argument of their own."""
    schema = op._schema
    written = [at for at, argument in enumerate(schema.arguments) if argument.is_write]
    if op.namespace in TORCHS or not written:
        return None
    if any(str(schema.arguments[at].type) != "Tensor" or schema.arguments[at].kwarg_only for at in written):
        return None
    if any(result.alias_info is not None or str(result.type) != "Tensor" for result in schema.returns):
        return None
    name = _free("_".join([op.namespace, schema.name.split("::")[-1], op._overloadname]))
    text = str(schema)
    # Such as `Tensor(a0!) x, int[] sizes=[1], *, float by=1.0`.
    arguments = re.sub(r"\(\w+!\)", "", text[text.index("(") + 1 : text.rindex(") ->")])
    results = ", ".join(["Tensor"] * (len(schema.returns) + len(written)))
    library = _library()
    library.define(f"{name}({arguments}) -> {f'({results})' if ',' in results else results}")
    library.impl(name, _implementation(op, written), "CompositeExplicitAutograd")
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


def _implementation(op: OpOverload, written: list[int]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        for at in written:
            given[at] = given[at].clone(memory_format=torch.preserve_format)
        result = op(*given, **kwargs)
        results = [] if result is None else [result] if isinstance(result, torch.Tensor) else list(result)
        results += [given[at] for at in written]
        return results[0] if len(results) == 1 else tuple(results)

    return call
