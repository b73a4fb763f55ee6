"""Functional variants for user-defined operators that write their arguments: `torch.library` does not define any.

Such a variant copies what the operator would write, calls the operator on the copies, and returns them after the
results. It is an ordinary operator, so graphs, dumps and the runtime do not need to know about this.
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
# The namespaces of operators with variants provided by torch.
TORCHS = frozenset({"aten", "prim", "prims", "quantized", "_c10d_functional", "c10d", "profiler", "inductor"})


@functools.cache
def variant(op: OpOverload) -> OpOverload | None:
    """Returns the functional variant of a user's operator, defined on first use. None for torch's own operators, and
    for one that writes anything other than tensors or lists of tensors, or returns anything else."""
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
    # For example `Tensor(a0!) x, int[] sizes=[1], *, float by=1.0`.
    arguments = re.sub(r"\(\w+!\)", "", text[text.index("(") + 1 : text.rindex(") ->")])
    results = ", ".join(["Tensor"] * (len(schema.returns) + len(written)))
    # If one argument is a list, or may be None, the number of written tensors depends on the call: all are in one list.
    listed = any(str(schema.arguments[at].type) != "Tensor" for at in written)
    library = _library()
    library.define(f"{name}({arguments}) -> {'Tensor[]' if listed else f'({results})' if ',' in results else results}")
    library.impl(name, _implementation(op, written, listed), "CompositeExplicitAutograd")
    return getattr(getattr(torch.ops, NAMESPACE), name).default


_taken: collections.Counter[str] = collections.Counter()


def _free(name: str) -> str:
    """Returns a name not used by any variant yet. An operator that is redefined gets another variant; code compiled
    before continues to call the old one."""
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
            # An argument that is not given is None.
            if (at < len(given) or place in named) and holder[place] is not None:
                holder[place] = _copied(holder[place])
                copies += [holder[place]] if isinstance(holder[place], torch.Tensor) else holder[place]
        result = op(*given, **named)
        results = [] if result is None else [result] if isinstance(result, torch.Tensor) else list(result)
        results += copies
        return results if listed else results[0] if len(results) == 1 else tuple(results)

    return call
