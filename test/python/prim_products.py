"""Cases of the primitives that are sums of products, and of those that are lowered the same way; see ``test_prims``."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator

import torch


@dataclasses.dataclass
class Case:
    """One operator on one set of inputs; ``{0}`` in the text is an operand, ``{t0}`` its type, ``{r}`` the result's."""

    text: str
    reference: Callable[..., torch.Tensor]
    inputs: tuple[torch.Tensor, ...]
    ulps: int = 0
    """The allowed error of a float, in units in the last place."""
    absolute: float = 0.0
    """The allowed absolute error, for zeros of the function at arguments other than 0."""
    any_zero: bool = False
    """True if the sign of a zero is left open."""
    constant: str = ""
    """The text of an operator without operands, whose value is ``{c}``."""


Cases = Iterator[Case]


def matmul() -> Cases:
    """Sums of whole numbers, which are exact in any order."""
    for dtype in (torch.float32, torch.float64):
        whole = lambda *shape, dtype=dtype: torch.randint(-9, 9, shape).to(dtype)  # noqa: E731
        text = "dynamo.matmul {0}, {1} batch %d : {t0}, {t1} -> {r}"
        yield Case(text % 0, torch.matmul, (whole(2, 3, 5), whole(5, 4)), any_zero=True)
        yield Case(text % 0, torch.matmul, (whole(40, 33), whole(33)), any_zero=True)
        yield Case(text % 1, torch.matmul, (whole(3, 20, 40), whole(3, 40, 18)), any_zero=True)
        yield Case(text % 1, lambda a, b: (a[:, None] @ b)[:, 0], (whole(3, 40), whole(3, 40, 18)), any_zero=True)


def convolution() -> Cases:
    """Sums over windows of whole numbers, which are exact in any order."""
    for groups, (stride, padding, dilation) in itertools.product((1, 2), ((1, 0, 1), (2, 1, 1), (1, 2, 2))):
        images, weights = (
            torch.randint(-9, 9, (2, 4, 9, 11)).float(),
            torch.randint(-9, 9, (6, 4 // groups, 3, 2)).float(),
        )
        lists = "strides [%d, %d] padding [%d, %d] dilation [%d, %d] groups %d"
        text = "dynamo.convolution {0}, {1} " + lists + " : {t0}, {t1} -> {r}"
        numbers = (stride, stride, padding, padding, dilation, dilation, groups)
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        reference = functools.partial(torch.nn.functional.conv2d, **options)
        yield Case(text % numbers, reference, (images, weights), any_zero=True)


def max_pool() -> Cases:
    """The largest elements of windows."""
    for stride, padding, dilation in ((1, 0, 1), (2, 1, 1), (1, 1, 2), (3, 0, 2)):
        images = torch.randint(-9, 9, (2, 4, 9, 11)).float()
        text = "dynamo.max_pool {0} window [3, 2] strides [%d, %d] padding [%d, %d] dilation [%d, %d] : {t0} -> {r}"
        numbers = (stride, stride, padding, padding, dilation, dilation)
        options = {"kernel_size": (3, 2), "stride": stride, "padding": padding, "dilation": dilation}
        yield Case(text % numbers, functools.partial(torch.nn.functional.max_pool2d, **options), (images,))


def attention() -> Cases:
    """The softmax of scores times values, for one row of keys and for many."""
    reference = torch.nn.functional.scaled_dot_product_attention
    for keys, causal in ((1, ""), (21, ""), (21, " causal")):
        q, k, v, mask = (torch.randn(2, 3, *sizes) for sizes in ((18, 8), (keys, 8), (keys, 5), (18, keys)))
        text = "dynamo.attention {0}, {1}, {2} scale 5.000000e-01" + causal + " : {t0}, {t1}, {t2} -> {r}"
        yield Case(text, functools.partial(reference, scale=0.5, is_causal=bool(causal)), (q, k, v), absolute=2e-6)
        text = "dynamo.attention {0}, {1}, {2} mask {3} scale 1.000000e+00 : {t0}, {t1}, {t2}, {t3} -> {r}"
        yield Case(text, functools.partial(reference, scale=1.0), (q, k, v, mask), absolute=2e-6)
