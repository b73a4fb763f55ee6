"""Chains of pointwise operations and reductions, drawn at random over shapes, layouts and element types, agree with
eager.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from harness import check
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

Step = Callable[[Tensor, Tensor], Tensor]

STEPS: dict[str, Step] = {
    "add": lambda a, x: a + x,
    "sub": lambda a, x: a - 0.5,
    "mul": lambda a, x: a * x,
    "div": lambda a, x: a / (x.abs() + 1),
    "tanh": lambda a, x: a.tanh(),
    "sin": lambda a, x: a.sin(),
    "relu": lambda a, x: a.relu(),
    "neg": lambda a, x: -a,
    "max": lambda a, x: torch.maximum(a, x),
    "where": lambda a, x: torch.where(x > 0, a, x),
    "clamp": lambda a, x: a.clamp(-2, 2),
    "center": lambda a, x: a - a.mean(-1, keepdim=True),
    "rowmax": lambda a, x: a - a.amax(-1, keepdim=True),
    "softmax": lambda a, x: a.softmax(-1),
    "columns": lambda a, x: a + a.sum(0, keepdim=True) * 0.1,
    "transpose": lambda a, x: a.transpose(0, -1).contiguous().transpose(0, -1),
    "inplace": lambda a, x: a.clone().add_(1),
    "write": lambda a, x: torch.slice_scatter(a, x[:1] * 2, 0, 0, 1) if a.shape[0] > 1 else a,
}
ENDS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda a: a,
    "sum": lambda a: a.sum(),
    "mean": lambda a: a.mean(-1),
    "columns": lambda a: a.sum(0),
    "max": lambda a: a.amax(0),
    "argmax": lambda a: a.argmax(-1),
    "norm": lambda a: (a * a).sum(-1).sqrt(),
    "view": lambda a: a.reshape(-1)[1:],
    "half": lambda a: a.to(torch.bfloat16),
}
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    "sliced": lambda x: torch.cat([x, x])[x.shape[0] :],
    "strided": lambda x: torch.stack([x, x], -1)[..., 0],
}


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=6),
    end=st.sampled_from(sorted(ENDS)),
    shape=st.lists(st.sampled_from([1, 2, 3, 5, 8, 17, 33]), min_size=1, max_size=3),
    layout=st.sampled_from(sorted(LAYOUTS)),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 1000),
)
def test_chain(steps: list[str], end: str, shape: list[int], layout: str, dtype: torch.dtype, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = LAYOUTS[layout](torch.randn(shape, dtype=dtype, generator=generator))

    def fn(x: Tensor) -> Tensor:
        a = x
        for name in steps:
            a = STEPS[name](a, x)
        return ENDS[end](a)

    check(fn, x, expect="compiled", calls=1, dispatch=False)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(st.sampled_from(["add", "mul", "max", "neg", "where", "floor", "shift", "compare"]), max_size=5),
    dtype=st.sampled_from([torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]),
    shape=st.lists(st.integers(0, 9), min_size=0, max_size=3),
    seed=st.integers(0, 1000),
)
def test_integer_chain(names: list[str], dtype: torch.dtype, shape: list[int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-100, 100, shape, generator=generator).to(dtype)
    steps: dict[str, Step] = {
        "add": lambda a, x: a + x,
        "mul": lambda a, x: a * x,
        "max": lambda a, x: torch.maximum(a, x),
        "neg": lambda a, x: ~a,
        "where": lambda a, x: torch.where(x > 1, a, x),
        "floor": lambda a, x: a // 3,
        "shift": lambda a, x: a * 2 + 1,
        "compare": lambda a, x: a >= x,
    }

    def fn(x: Tensor) -> tuple[Tensor, Tensor]:
        a = x
        for name in names:
            a = steps[name](a, x)
        return a, a.sum()

    check(fn, x, calls=1, dispatch=False)


@pytest.mark.parametrize("shape, dims", [((300_000, 4), (0,)), ((4096, 64), (0,)), ((600, 3, 500), (0, 2))])
def test_long_float32_sums_lose_nothing(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    """Columns of many rows: a single float32 accumulator would be off by far more than eager's cascade summation."""
    x = torch.rand(shape) + 1000
    exact = x.double().mean(dims)
    found = torch.compile(lambda x: x.mean(dims), backend="dynamlir")(x)
    torch.testing.assert_close(found.double(), exact, rtol=1e-6, atol=0)


LONG_SUMS: dict[str, Callable[[Tensor], Tensor]] = {
    "all": lambda x: x.sum(),
    "terms": lambda x: (x * x[:, :1] + 1).mean(),
    "columns": lambda x: x.sum(0),
    "columns of what lies across": lambda x: x.t().contiguous().t().sum(0),
    "some columns": lambda x: (x[:, 3:-2:2] * 0.5).sum(0),
}


@pytest.mark.parametrize("shape", [(1024, 256), (1000, 301), (257, 1030), (40_001, 9)])
@pytest.mark.parametrize("name", LONG_SUMS)
def test_long_float32_sums_are_as_exact_as_eagers(name: str, shape: tuple[int, int]) -> None:
    """Some terms are added in float32 first, but too few to affect the precision."""
    function = LONG_SUMS[name]
    x = torch.rand(shape, generator=torch.Generator().manual_seed(shape[0])) + 100
    compiled = torch.compile(function, backend="dynamlir")
    exact = function(x.double())
    error, eager = ((value.double() - exact).abs().max() / exact.abs().max() for value in (compiled(x), function(x)))
    assert error <= max(float(eager), 2.0**-23)
    half = x.to(torch.bfloat16)
    torch.testing.assert_close(compiled(half), function(half))


@pytest.mark.parametrize("name", LONG_SUMS)
def test_long_sums_of_what_is_no_number(name: str) -> None:
    for special in (float("inf"), float("nan")):
        x = torch.ones(1024, 100)
        x[700, 7] = special
        x[3, 3] = -float("inf")
        check(LONG_SUMS[name], x, calls=1, dispatch=False)


def test_sums_in_double_precision_are_taken_in_it() -> None:
    x = torch.rand(1024, 256) + 100
    found = torch.compile(lambda x: (x.double().sum(), x.double().sum(0)), backend="dynamlir")(x)
    torch.testing.assert_close(found, (x.double().sum(), x.double().sum(0)), rtol=1e-14, atol=0)
