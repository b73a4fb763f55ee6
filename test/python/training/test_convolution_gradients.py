"""Gradients of generated convolutions against torch's own in double precision, for windows at any place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from dynamlir import reasons
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor


def compiled_by_torch(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Compiles through torch's door: hypothesis traces Python code, and our own capture does not run under a tracer."""
    torch._dynamo.reset()
    return torch.compile(function, backend="dynamlir", dynamic=False)


def gradients(images: Tensor, weights: Tensor, tangent: Tensor, how: dict[str, int], compiled: bool) -> list[Tensor]:
    def function(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return torch.nn.functional.conv2d(x, w, b, **how)

    bias = torch.zeros(weights.shape[0], dtype=weights.dtype)
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (images, weights, bias)]
    result = (compiled_by_torch(function) if compiled else function)(*leaves)
    return list(torch.autograd.grad(result, leaves, tangent))


def check(images: Tensor, weights: Tensor, how: dict[str, int]) -> None:
    reasons.reset()
    shape = torch.nn.functional.conv2d(images, weights, **how).shape
    tangent = torch.randn(shape)
    expected = gradients(images.double(), weights.double(), tangent.double(), how, compiled=False)
    found = gradients(images, weights, tangent, how, compiled=True)
    for gradient, right in zip(found, expected):
        torch.testing.assert_close(gradient.double(), right, rtol=1e-4, atol=2e-5 * max(1.0, float(right.abs().max())))
    assert not reasons.events()


CASES = {
    "one step": ((1, 16, 9, 9), (8, 16, 3, 3), {"padding": 1}),
    "no padding": ((2, 16, 9, 8), (8, 16, 3, 3), {}),
    "more padding than windows need": ((1, 16, 6, 6), (8, 16, 3, 3), {"padding": 3}),
    "two steps": ((2, 16, 9, 8), (8, 16, 3, 3), {"stride": 2, "padding": 1}),
    "more steps than taps": ((1, 16, 11, 11), (8, 16, 2, 2), {"stride": 3}),
    "single elements": ((2, 16, 7, 7), (8, 16, 1, 1), {}),
    "single elements, two steps": ((2, 16, 7, 7), (8, 16, 1, 1), {"stride": 2}),
    "holes": ((1, 16, 10, 10), (8, 16, 3, 3), {"dilation": 2, "padding": 2}),
    "few channels": ((1, 3, 16, 16), (16, 3, 7, 7), {"stride": 2, "padding": 3}),
    "more weights than windows": ((1, 8, 4, 4), (64, 8, 3, 3), {"padding": 1}),
    "more weights than windows, two steps": ((2, 8, 6, 6), (64, 8, 3, 3), {"stride": 2, "padding": 1}),
    "a channel for each window": ((2, 12, 9, 9), (12, 1, 3, 3), {"padding": 1, "groups": 12}),
    "a channel for each window, two steps": ((2, 12, 9, 8), (12, 1, 5, 5), {"stride": 2, "padding": 2, "groups": 12}),
    "a channel for each window, large": ((1, 8, 14, 14), (8, 1, 7, 7), {"padding": 3, "groups": 8}),
    "groups": ((1, 8, 6, 6), (8, 4, 3, 3), {"padding": 1, "groups": 2}),
    "several outputs for each channel": ((1, 4, 6, 6), (8, 1, 3, 3), {"padding": 1, "groups": 4}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gradients(case: tuple[tuple[int, ...], tuple[int, ...], dict[str, int]]) -> None:
    torch.manual_seed(0)
    images, weights, how = case
    check(torch.randn(images), torch.randn(weights), how)


@pytest.mark.parametrize("which", ["images", "weights", "both"])
def test_other_layouts(which: str) -> None:
    """Channels-last layouts, as in vision models."""
    torch.manual_seed(0)
    images, weights = torch.randn(2, 16, 7, 7), torch.randn(16, 16, 3, 3)
    if which in ("images", "both"):
        images = images.to(memory_format=torch.channels_last)
    if which in ("weights", "both"):
        weights = weights.to(memory_format=torch.channels_last)
    check(images, weights, {"padding": 1})


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    count=st.integers(1, 3),
    outputs=st.integers(1, 20),
    channels=st.integers(1, 20),
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    window=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    depthwise=st.booleans(),
)
def test_any_windows(count, outputs, channels, size, window, stride, padding, dilation, depthwise):  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    reach = [d * (w - 1) + 1 - 2 * p for w, d, p in zip(window, dilation, padding)]
    height, width = (max(own, least) for own, least in zip(size, reach))
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": channels if depthwise else 1}
    weights = torch.randn(*((channels, 1) if depthwise else (outputs, channels)), *window)
    check(torch.randn(count, channels, height, width), weights, how)
