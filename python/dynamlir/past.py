"""Gradients of what torch's operators compute anew, which lead to the results that somebody has.

Torch's nodes keep the results that their formulas read as results of their own, so a gradient of gradients that comes
to one of these comes to what was computed anew. In eager that is the tensor which the user has, which may have hooks,
and which gradients may be asked with respect to.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch


class Past:
    """Leads what reaches a result that is computed anew past all that makes it, to the one that somebody has.

    The node that makes such a result is let go without what has reached that, and the node that all of the inputs come
    through, which a walk comes to afterwards, hands it on.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        """``numbers`` are those of the results that somebody has."""
        # Numbers and not tensors, whose nodes hold this object: they would keep one another alive.
        self._numbers = numbers
        self._met: dict[int, dict[int, torch.Tensor]] = {}
        """By the walk: what has reached results, by their numbers."""

    def lead(self, makers: dict[int, torch.Tensor]) -> None:
        """Do so from now on, for these results that were computed anew."""
        for number, result in makers.items():
            if result.grad_fn is not None:
                result.grad_fn.register_prehook(functools.partial(self._meet, number, result.output_nr))

    def _meet(
        self, number: int, place: int, gradients: tuple[torch.Tensor | None, ...]
    ) -> tuple[torch.Tensor | None, ...] | None:
        gradient = gradients[place]
        if gradient is None:
            return None
        self._met.setdefault(torch._C._current_graph_task_id(), {})[number] = gradient
        return (*gradients[:place], None, *gradients[place + 1 :])

    def met(self) -> list[torch.Tensor | None]:
        """The gradients that this walk has taken from results, in the order of the results."""
        met = self._met.pop(torch._C._current_graph_task_id(), {})
        return [met.get(number) for number in self._numbers]


class _Passing(torch.autograd.Function):
    """The inputs of what is computed anew. Their gradients come after those that nodes have been let go without."""

    @staticmethod
    def forward(ctx: Any, past: Past, count: int, *tensors: torch.Tensor) -> Any:
        ctx.set_materialize_grads(False)
        ctx.past = past
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        return None, None, *gradients, *ctx.past.met()


def passing(wanted: dict[int, torch.Tensor], held: dict[int, torch.Tensor]) -> tuple[Past, dict[int, torch.Tensor]]:
    """The object that leads gradients past all that is made of the inputs ``wanted``, to results that somebody has; and
    these inputs as they are to be taken."""
    past = Past(tuple(held))
    if not held or not wanted:
        return past, wanted
    passed = _Passing.apply(past, len(wanted), *wanted.values(), *held.values())
    return past, dict(zip(wanted, passed))


def reached(gradient: torch.Tensor, makers: dict[int, torch.Tensor], ends: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """The numbers of those results that a walk from a gradient comes to, as results. It goes no further than to the
    ends."""
    seen: set[Any] = {tensor.grad_fn for tensor in ends}
    edges = set[tuple[Any, int]]()
    waiting = [gradient.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        edges.update(node.next_functions)
        waiting.extend(following for following, _ in node.next_functions)
    found = [number for number, result in makers.items() if (result.grad_fn, result.output_nr) in edges]
    return tuple(found)
