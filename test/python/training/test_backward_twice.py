"""A second backward pass through a graph that was not retained: refused if eager's nodes have saved something, and
allowed any number of times otherwise. For operators that have rules, and for PyTorch's others, whose formulas are
recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dynamlir
import pytest
import torch
from both import DOORS
from gradient_cases import CASES, F64, made
from sampled import one_in
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

Call = tuple[Callable[..., Any], list[Any], list[int]]


def of(make: Callable[[], Any]) -> list[str]:
    """Returns the outcome of the second backward, for each result separately."""
    said = []
    for at in range(len(_differentiable(make()))):
        result = _differentiable(make())[at]
        said.append("walked")
        for _ in range(2):
            try:
                result.backward(torch.ones_like(result))
            except RuntimeError as error:
                said[-1] = "refused" if "a second time" in str(error) else "raised"
    return said


def _differentiable(results: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, Tensor) and leaf.requires_grad]


def some(arguments: Sequence[Any]) -> Iterator[list[int]]:
    """The positions of all tensors that require a gradient, and of only one of them."""
    places = [at for at, value in enumerate(arguments) if isinstance(value, Tensor) and value.requires_grad]
    yield places
    yield from ([at] for at in places if len(places) > 1)


def compared(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[list[str], list[list[str]]]:
    """Returns eager's outcomes, and those of ours that differ, for each choice of operands that require a gradient."""
    seen, wrong = [], []
    for places in some(arguments):

        def fresh(places: list[int] = places) -> list[Any]:
            # Values are the same, and so is everything that depends on them.
            torch.manual_seed(1)
            copies = [value.detach().clone() if isinstance(value, Tensor) else value for value in arguments]
            return [value.requires_grad_() if at in places else value for at, value in enumerate(copies)]

        compiled = dynamlir.compile(lambda *arguments: function(*arguments))
        eager, ours = of(lambda: function(*fresh())), of(lambda compiled=compiled: compiled(*fresh()))
        seen += eager
        wrong += [[str(places), *eager, "here:", *ours]] if eager != ours else []
    return seen, wrong


@pytest.mark.parametrize("case", one_in(4, CASES), ids=lambda case: case.name)
def test_what_has_a_rule(case: Any) -> None:
    assert not compared(case.function, made(case.inputs, F64))[1]


# The jiterator exists for GPUs only. The loss is a Function of torch's that permanently keeps tensors as attributes of
# its node, whereas ours are freed by the first backward.
OPERATORS = [
    op
    for op in op_db
    if F64 in op.dtypes
    and op.supports_autograd
    and "jiterator" not in op.name
    and (op.name, op.variant_test_name) != ("nn.functional.linear_cross_entropy", "chunked")
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", one_in(20, range(40)))
def test_operators(part: int) -> None:
    found, seen = [], []
    for op in OPERATORS[part::40]:
        for _, sample in zip(range(2), op.sample_inputs("cpu", F64, requires_grad=True)):
            leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))

            def function(*leaves: Any, op: Any = op, spec: Any = spec) -> Any:
                first, others, named = pytree.tree_unflatten(leaves, spec)
                return op.op(first, *others, **named)

            told, wrong = compared(function, leaves)
            seen += told
            found += [(op.name, *each) for each in wrong]
    assert not found
    assert {"walked", "refused"} <= set(seen)


class Second(torch.autograd.Function):
    """Gives no gradient to its second operand, and saves nothing."""

    @staticmethod
    def forward(ctx: Any, w: Tensor, x: Tensor) -> Tensor:
        return w + x

    @staticmethod
    def backward(ctx: Any, *tangents: Tensor) -> tuple[Tensor, None]:
        return tangents[0] * 2, None


def keeping(backward: Callable[[Any, Tensor], Tensor], saves: bool = True) -> Any:
    """An autograd Function that may save its operand."""

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            if saves:
                ctx.save_for_backward(x)
            return x.sign()

    Made.backward = staticmethod(backward)  # type: ignore[method-assign]
    return Made


FUNCTIONS: dict[str, Any] = {
    "asks for what it saves": keeping(lambda ctx, gradient: (ctx.saved_tensors, gradient)[1]),
    "asks for its shape": keeping(lambda ctx, gradient: gradient * torch.ones(ctx.saved_tensors[0].shape, dtype=F64)),
    "asks for nothing": keeping(lambda ctx, gradient: gradient),
    "asks, and saves nothing": keeping(lambda ctx, gradient: gradient * (1 + len(ctx.saved_tensors)), saves=False),
    "reads it": keeping(lambda ctx, gradient: gradient * ctx.saved_tensors[0].cos()),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_save(name: str) -> None:
    """Only through our own door: a graph from Dynamo does not show that a Function requests saved tensors that it does
    not read.
    """
    function = FUNCTIONS[name]
    compiled = dynamlir.compile(lambda x: function.apply(x * 2))

    def fresh() -> Tensor:
        return torch.ones(2, 2, dtype=F64, requires_grad=True)

    assert of(lambda: compiled(fresh())) == of(lambda: function.apply(fresh() * 2))
    assert not dynamlir.counters()["fallbacks"]


PROGRAMS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "without a gradient": lambda w, x: Second.apply(w, x.exp()),
    "further away": lambda w, x: Second.apply(w, (x.exp() + x).sum().expand(2, 2)),
    "nothing kept there": lambda w, x: Second.apply(w, x + x.sum()),
    "no gradient at all": lambda w, x: Second.apply(w.detach(), x.exp()),
    "a part of several": lambda w, x: (x * 2, Second.apply(w, x.exp())),
    "by two ways": lambda w, x: (lambda e: Second.apply(w, e) + Second.apply(w, e))(x.exp()),
    "a count": lambda w, x: x.norm(p=0),
    "a constant index": lambda w, x: x.index_select(0, torch.tensor([1, 0])),
    "a constant mask": lambda w, x: x.masked_fill(torch.eye(2).bool(), 0.0),
    "a constant factor": lambda w, x: torch.addmm(x, torch.ones(2, 2, dtype=F64), torch.eye(2, dtype=F64)),
    "constant products": lambda w, x: torch.addcdiv(x, torch.ones(2, 2, dtype=F64), torch.ones(2, 2, dtype=F64)),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, door: str) -> None:
    def fresh() -> list[Tensor]:
        return [torch.ones(2, 2, dtype=F64, requires_grad=True) for _ in range(2)]

    compiled = DOORS[door](PROGRAMS[name])
    assert of(lambda: compiled(*fresh())) == of(lambda: PROGRAMS[name](*fresh()))


VARYING: dict[str, Callable[[Tensor], Any]] = {
    "sum": lambda x: x.sum(),
    "mean": lambda x: x[1:].mean(0),
    "cat": lambda x: torch.cat([x, x]),
    "repeat": lambda x: x.repeat(2, 2),
    "several": lambda x: (x.sum(), x.flip(0), x.exp()),
    "kept": lambda x: x.masked_fill(x.detach() > 0, 1.0).sum(),
    "kept as a constant": lambda x: x.sum() * torch.ones(()),
    "random numbers": lambda x: (x + torch.rand_like(x)).sum(),
    "random numbers that are kept": lambda x: (x * torch.rand_like(x)).sum(),
}


@pytest.mark.parametrize("name", VARYING)
def test_sizes_that_vary(name: str) -> None:
    """Eager saves numbers, and so do nodes that need only sizes; also for each of several calls."""
    function = VARYING[name]
    for door in (dynamlir.compile(function, dynamic=True), torch.compile(function, backend="dynamlir", dynamic=True)):
        for rows in (3, 5, 7):
            x = torch.ones(rows, rows + 1, requires_grad=True)
            assert of(functools.partial(door, x)) == of(functools.partial(function, x))
        first, second = (torch.ones(rows, 4, requires_grad=True) for rows in (3, 6))
        results = [_differentiable(door(x))[0] for x in (first, second)]
        for x, result in zip((first, second), results):
            result.backward(torch.ones_like(result))
            assert x.grad is not None
            assert x.grad.shape == x.shape
