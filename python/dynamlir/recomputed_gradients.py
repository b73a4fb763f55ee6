"""Redirects gradients of recomputed results to the results that the user holds.

Torch's nodes save the results that their formulas read. When torch's operators recompute a graph, a gradient of
gradients that reaches such a result reaches the recomputed tensor. In eager it is the tensor that the user holds, which
may have hooks, and for which gradients may be requested.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch


class Past:
    """Redirects the gradient of a recomputed result past the operations that compute it, to the original result.

    The node that computes such a result runs without this gradient. The node that all inputs pass through, which
    backward reaches afterwards, passes it on.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        """``numbers`` are those of the original results."""
        # Numbers and not tensors, whose nodes hold this object: they would keep one another alive.
        self._numbers = numbers
        self._met: dict[int, dict[int, torch.Tensor]] = {}
        """For each backward pass, the gradients that have reached results, by their numbers."""

    def lead(self, makers: dict[int, torch.Tensor]) -> None:
        """Starts redirecting for these recomputed results."""
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
        """Returns the gradients that this backward pass has taken from results, in the order of the results."""
        met = self._met.pop(torch._C._current_graph_task_id(), {})
        return [met.get(number) for number in self._numbers]


class _Passing(torch.autograd.Function):
    """The inputs of a recomputation. Their gradients come after the nodes that run without a redirected gradient."""

    @staticmethod
    def forward(ctx: Any, past: Past, count: int, *tensors: torch.Tensor) -> Any:
        ctx.set_materialize_grads(False)
        ctx.past = past
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        return None, None, *gradients, *ctx.past.met()


def passing(wanted: dict[int, torch.Tensor], held: dict[int, torch.Tensor]) -> tuple[Past, dict[int, torch.Tensor]]:
    """Returns the object that redirects gradients past everything computed from the inputs ``wanted``, to the original
    results; and these inputs in the form to be used."""
    past = Past(tuple(held))
    if not held or not wanted:
        return past, wanted
    passed = _Passing.apply(past, len(wanted), *wanted.values(), *held.values())
    return past, dict(zip(wanted, passed))


def reached(gradient: torch.Tensor, makers: dict[int, torch.Tensor], ends: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """Returns the numbers of the results that a walk from a gradient to the ends reaches, as results."""
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
