"""Kernels with which the program has replaced torch's own (`torch.library.Library("aten", "IMPL")`).

The behaviour of torch's own kernels is known here, that of others is not: a graph that would call one runs plain.
"""

from __future__ import annotations

import functools
import re

import torch

from ..reasons import Fallback
from ..recording import Recording

_COMPUTING = re.compile(r"(Autograd|Autocast)?(CPU|CUDA)?|Composite\w+|ADInplaceOrView|BackendSelect")
"""The dispatch keys under which kernels run on ordinary tensors."""


def names() -> frozenset[str]:
    """Returns the names of operators whose kernels were replaced, with the overload unless it is the default."""
    return _named(frozenset(torch.library._impls))


@functools.lru_cache(maxsize=4)
def _named(entries: frozenset[str]) -> frozenset[str]:
    """Returns the operators that these entries name. Cached: torch has thousands of its own, which rarely change."""
    found = set()
    for entry in entries:
        if entry.startswith("aten/"):
            _, name, key = entry.split("/")
            if _COMPUTING.fullmatch(key) and not key.endswith("CUDA"):
                found.add(name.removesuffix(".default"))
    return frozenset(found)


def check(recording: Recording) -> None:
    """Raises `Fallback` if the graph, or a formula of its gradients, may call such a kernel."""
    replaced = names()
    if not replaced:
        return
    if recording.is_training:
        raise Fallback("unsupported", f"gradients while the kernel of aten.{min(replaced)} is replaced")
    for op in recording.ops:
        if op.schema.removeprefix("aten.").removesuffix(".default") in replaced:
            raise Fallback("unsupported", f"the kernel of {op.schema} is replaced", op.location)
