"""Gradients with dynamic sizes: eager's for each size, from one graph for all of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import dynamlir
import pytest
import torch
import torch.nn.functional as F

pytestmark = [pytest.mark.usefixtures("quiet")]

SIZES = [5, 7, 2, 1, 0, 3, 64, 13, 31, 7]
"""All but three share one graph: the first comes before the size is known to vary; 0 and 1 have their own graphs."""

Case = tuple[Callable[..., Any], Callable[[int], list[torch.Tensor]]]


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64)


def compiled_graphs() -> int:
    return dynamlir.counters().get("graphs_compiled", 0)


def leaves(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.clone().requires_grad_(tensor.is_floating_point()) for tensor in tensors]


def gradients(
    function: Callable[..., Any], tensors: Sequence[torch.Tensor], used: int | None = None
) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
    """The results, and the gradients of ``used``, or of all results, where each element has its own weight."""
    inputs = leaves(tensors)
    results = function(*inputs)
    results = list(results) if isinstance(results, tuple) else [results]
    total = sum(
        (result * torch.linspace(-1, 1, result.numel(), dtype=result.dtype).view(result.shape)).sum()
        for result in (results if used is None else [results[used]])
    )
    assert isinstance(total, torch.Tensor)
    asked = [tensor for tensor in inputs if tensor.requires_grad]
    return results, list(torch.autograd.grad(total, asked, allow_unused=True))


def check(function: Callable[..., Any], inputs: Callable[[int], list[torch.Tensor]], used: int | None = None) -> int:
    """Compares a compiled function with eager at all sizes. Returns the number of graphs besides those of entries."""
    compiled, before = dynamlir.compile(function), compiled_graphs()
    for size in SIZES:
        torch.manual_seed(size)
        tensors = inputs(size)
        expected, found = gradients(function, tensors, used), gradients(compiled, tensors, used)
        for left, right in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
            torch.testing.assert_close(left, right, equal_nan=True)
    assert not dynamlir.counters()["fallbacks"], [guards.code_parts for guards, _ in compiled._cache]
    assert len(compiled._cache) <= 5
    return compiled_graphs() - before - len(compiled._cache)


def labels(size: int) -> torch.Tensor:
    return torch.randint(0, 5, (size,))


def rows(*more: int) -> Callable[[int], list[torch.Tensor]]:
    return lambda size: [randn(size, *more)]


WEIGHTS = torch.rand(5, dtype=torch.float64)

ONE_GRAPH: dict[str, Case] = {
    "sum": (lambda x: x.sum(), rows(4)),
    "sum of squares": (lambda x: (x * x).sum(1), rows(4)),
    "mean": (lambda x: x.mean(0), rows(4)),
    "number": (lambda x: x / x.shape[0] + x * x.shape[0], rows(4)),
    "extremes": (lambda x: x.amax(1) + x.min(1)[0], rows(4)),
    "variance": (lambda x: x.var(1) + x.std(1, correction=0), rows(4)),
    "softmax": (lambda x: x.softmax(1) + x.log_softmax(1), lambda n: [randn(3, n)]),
    "running": (lambda x: x.cumsum(0), rows(4)),
    "layer norm": (lambda x: F.layer_norm(x, (4,)), rows(4)),
    "group norm": (lambda x: F.group_norm(x, 2), rows(4, 6)),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), rows(4)),
    "where": (lambda x, y: torch.where(x > 0, x, y), lambda n: [randn(n, 4), randn(4)]),
    "maximum": (torch.maximum, lambda n: [randn(n, 4), randn(n, 4)]),
    "activations": (lambda x: F.gelu(x) + F.silu(x) + F.elu(x) + F.softplus(x) + F.hardswish(x), rows(4)),
    "gated": (lambda x: F.glu(x, 1), rows(4)),
    "slices": (lambda x: x[1:].sum(0) + x[:, 1:3].sum() + x[::2].sum(0), rows(4)),
    "joined": (lambda x, y: torch.cat([x, y, x]), lambda n: [randn(n, 4), randn(3, 4)]),
    "turned": (lambda x: x.roll(1, 0).flip(0).t(), rows(4)),
    "repeated": (lambda x: x.repeat(2, 1), rows(4)),
    "padded": (lambda x: F.pad(x, (1, 2, 0, 3)), rows(5)),
    "spread": (lambda x, y: x.expand(y.shape[0], 4) * y, lambda n: [randn(1, 4), randn(n, 4)]),
    "outer": (lambda x, y: x[:, None] * y[None], lambda n: [randn(n), randn(n + 2)]),
    "heads": (lambda x: x.view(-1, 2, 2).transpose(0, 1).reshape(2, -1), rows(4)),
    "product": (torch.matmul, lambda n: [randn(n, 4), randn(4, n)]),
    "batches": (lambda x, y: torch.bmm(x, y).relu(), lambda n: [randn(2, n, 4), randn(2, 4, n)]),
    "linear": (lambda x, w, b: F.linear(x, w, b).tanh(), lambda n: [randn(2, n, 4), randn(3, 4), randn(3)]),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda n: [randn(2, 2, n, 8) for _ in range(3)],
    ),
    "read": (lambda x, i: x[i], lambda n: [randn(9, 4), torch.randint(0, 9, (n,))]),
    "embedding": (lambda w, i: F.embedding(i, w), lambda n: [randn(9, 4), torch.randint(0, 9, (2, n))]),
    "cross entropy": (F.cross_entropy, lambda n: [randn(n, 5), labels(n)]),
    "logits": (
        lambda x: F.binary_cross_entropy_with_logits(x, x.detach().sin(), weight=WEIGHTS, pos_weight=WEIGHTS),
        rows(5),
    ),
    "mean squares": (F.mse_loss, lambda n: [randn(n, 5), randn(n, 5)]),
    "images": (lambda x, w: F.conv2d(x, w, padding=1), lambda n: [randn(n, 3, 6, 6), randn(4, 3, 3, 3)]),
    "pooled": (lambda x: F.max_pool2d(x, 2) + F.avg_pool2d(x, 2), rows(3, 6, 6)),
    "resampled": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), lambda n: [randn(2, 3, n + 2, n + 1)]),
    "in place": (lambda x: (x * 2).add_(1).mul_(x), rows(4)),
    "detached": (lambda x: x * x.detach(), rows(4)),
}


@pytest.mark.parametrize("name", ONE_GRAPH)
def test_one_graph_for_all_sizes(name: str) -> None:
    assert check(*ONE_GRAPH[name]) == 0


A_GRAPH_EACH: dict[str, Case] = {
    "product of all": (lambda x: x.prod(0), rows(4)),
    "windows": (lambda x: x.unfold(1, 2, 1).sum(-1), lambda n: [randn(3, n + 2)]),
}
"""The gradients whose computation in torch's formula depends on sizes."""


@pytest.mark.parametrize("name", A_GRAPH_EACH)
def test_a_graph_for_each_size(name: str) -> None:
    assert check(*A_GRAPH_EACH[name]) > 0


@pytest.mark.parametrize("used", [0, 1])
def test_a_result_that_nobody_differentiates(used: int) -> None:
    """A tangent is missing, and so is the information that it would give about sizes."""
    assert check(lambda x, y: (x.exp(), x.sum() * y), lambda n: [randn(n, 4), randn()], used) == 0
    assert check(lambda x: (x + 1, x - 1), lambda n: [randn(n, 4)], used) == 0


def test_a_size_that_nothing_has() -> None:
    """The size is kept as a tensor without elements. The input is not kept, so writing to it is not an error."""
    compiled = dynamlir.compile(lambda x: x.sum())
    for size in (5, 7, 9):
        x = randn(size, 4).requires_grad_()
        total = compiled(x)
        with torch.no_grad():
            x.zero_()
        (found,) = torch.autograd.grad(total, x)
        assert torch.equal(found, torch.ones(size, 4, dtype=torch.float64))
    assert compiled_graphs() == 2


def test_calls_of_other_sizes_before_the_gradients() -> None:
    compiled = dynamlir.compile(lambda x: (x.exp() * x).sum(0))
    inputs = [randn(size, 4).requires_grad_() for size in (5, 7, 9, 30, 7)]
    results = [compiled(x) for x in inputs]
    for x, result in reversed(list(zip(inputs, results))):
        for _ in range(2):
            (found,) = torch.autograd.grad(result.sum(), x, retain_graph=True)
            torch.testing.assert_close(found, (x.exp() * (x + 1)).detach())
    assert compiled_graphs() == 2


def test_gradients_of_gradients() -> None:
    def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return ((x @ w).tanh().sum(1) / x.shape[0]).sum()

    def second(function: Callable[..., torch.Tensor], x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
        x, w = leaves([x, w])
        first = torch.autograd.grad(function(x, w), [x, w], create_graph=True)
        penalty = sum(gradient.square().sum() for gradient in first)
        assert isinstance(penalty, torch.Tensor)
        return [*first, *torch.autograd.grad(penalty, [x, w])]

    compiled = dynamlir.compile(loss)
    for size in SIZES:
        x, w = randn(size, 4), randn(4, 3)
        torch.testing.assert_close(second(compiled, x, w), second(loss, x, w))
    # A sum: no tensor in the computation of its gradient has its size.
    total = dynamlir.compile(lambda x: x.sum())
    for size in SIZES:
        x = randn(size, 4).requires_grad_()
        (first,) = torch.autograd.grad(total(x), x, create_graph=True)
        assert torch.equal(first, torch.ones(size, 4, dtype=torch.float64))
    assert not dynamlir.counters()["fallbacks"], [guards.code_parts for guards, _ in compiled._cache]


def test_behind_torch_compile() -> None:
    def loss(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        hidden = F.layer_norm(F.gelu(F.linear(x, w, b)), (3,))
        return (hidden[1:] / x.shape[0]).sum() + x.sum()

    compiled = torch.compile(loss, backend="dynamlir", dynamic=True)
    for size in (5, 7, 2, 3, 64, 13):
        tensors = [randn(size, 4), randn(3, 4), randn(3)]
        expected, found = gradients(loss, tensors), gradients(compiled, tensors)
        for left, right in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
            torch.testing.assert_close(left, right)
    assert compiled_graphs() <= 2
    assert not dynamlir.counters()["fallbacks"], [guards.code_parts for guards, _ in compiled._cache]


class Cube(torch.autograd.Function):
    """A derivative written by its author."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * x * x * 3


def test_a_function_of_a_user() -> None:
    check(lambda x: Cube.apply(x * 2).sum(0), rows(4))


class Dropping(torch.nn.Module):
    """Two layers that use random numbers, for masks and for noise."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(self.head(self.layer(x) + torch.rand_like(x)), 0.5)


def test_random_numbers_are_those_of_a_graph_for_one_size() -> None:
    module = Dropping().double()
    compiled = dynamlir.compile(module)
    for batch, length in [(2, 5), (3, 7), (4, 2), (2, 3), (5, 31), (3, 64)]:
        x = randn(batch, length, 8)
        static = dynamlir.compile(module, dynamic=False)
        torch.manual_seed(length)
        found = torch.autograd.grad(compiled(x).square().sum(), list(module.parameters()))
        torch.manual_seed(length)
        expected = torch.autograd.grad(static(x).square().sum(), list(module.parameters()))
        torch.testing.assert_close(found, expected)
    assert len(compiled._cache) == 2
    assert compiled._cache[0].compiled.instances or compiled._cache[1].compiled.instances
    assert not dynamlir.counters()["fallbacks"], [guards.code_parts for guards, _ in compiled._cache]


def test_gradients_of_gradients_with_random_numbers() -> None:
    """They use the numbers that were drawn: keys are saved, and sizes may vary."""
    compiled = dynamlir.compile(lambda x: (F.dropout(x, 0.5) ** 3).sum(0))
    for size in (5, 7, 9, 31):
        x = randn(size, 4).requires_grad_()
        (first,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        kept = first != 0
        torch.testing.assert_close(first, torch.where(kept, 24 * x * x, 0.0))
        torch.testing.assert_close(second, torch.where(kept, 48 * x, 0.0))
        assert 0 < kept.sum() < kept.numel()
