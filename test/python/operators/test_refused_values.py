"""Values of tensors and parameters of functions that eager's kernels refuse and fakes cannot see: compiled code raises
what eager raises, with and without gradients, even if the result is unused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

INF, NAN = float("inf"), float("nan")
SHARES = torch.rand(4, 5, generator=torch.Generator().manual_seed(0)) * 0.9 + 0.05
CLASSES = torch.tensor([0, 1, 2, 9])

Case = tuple[Callable[..., Any], tuple[Tensor, ...]]


def put(value: float) -> Tensor:
    """Probabilities, with this number among them."""
    changed = SHARES.clone()
    changed[3, 1] = value
    return changed


REFUSED: dict[str, Case] = {
    **{f"target {v}": (F.binary_cross_entropy, (SHARES, put(v))) for v in (1.001, -1e-9, NAN, INF, -INF)},
    **{f"input {v}": (F.binary_cross_entropy, (put(v), SHARES)) for v in (1.001, -1e-9, NAN)},
    "BCELoss, weighted": (nn.BCELoss(weight=torch.ones(5), reduction="sum"), (SHARES, put(2.0))),
    "doubles": (lambda x, y: F.binary_cross_entropy(x, y, reduction="none"), (SHARES.double(), put(2.0).double())),
    "bfloat16": (F.binary_cross_entropy, (SHARES.bfloat16(), put(2.0).bfloat16())),
    "unused": (lambda x, y: [F.binary_cross_entropy(x, y), x * 2][1], (SHARES, put(2.0))),
    **{f"beta {b}": (nn.SmoothL1Loss(beta=b), (SHARES, SHARES)) for b in (-0.5, NAN, -INF)},
    "beta of no mean": (lambda x, y: F.smooth_l1_loss(x, y, reduction="none", beta=-1.0), (SHARES, SHARES)),
    **{f"delta {d}": (lambda x, y, d=d: F.huber_loss(x, y, delta=d), (SHARES, SHARES)) for d in (0.0, -1.0, NAN)},
    **{
        f"quantile {q}": (torch.quantile, (SHARES, torch.tensor([0.5, q]))) for q in (1.5, -0.5, NAN)
    },
    **{f"nanquantile {q}": (Tensor.nanquantile, (SHARES, torch.tensor([q, 0.5]))) for q in (1.5, -0.5)},
    **{
        f"{mode} of {dtype} in {n} dimensions": (
            lambda x, mode=mode: F.interpolate(x, scale_factor=2, mode=mode),
            (torch.ones(1, 1, *[2] * n, dtype=dtype),),
        )
        for mode, n, dtype in (("nearest", 1, torch.short), ("nearest-exact", 2, torch.int), ("nearest", 3, torch.bool))
    },
    "a class that there is not": (F.cross_entropy, (SHARES, CLASSES)),
    "a class below zero": (lambda x, y: F.nll_loss(x, y - 1, reduction="none"), (SHARES, CLASSES.clamp(max=3))),
    "margins": (F.multi_margin_loss, (SHARES, CLASSES)),
    "variance": (lambda x, v: F.gaussian_nll_loss(x, x, v), (SHARES, put(-1.0))),
    "probabilities": (torch.bernoulli, (put(1.5),)),
    "deviation": (lambda x: torch.normal(0.0, x), (put(-1.0),)),
    "slope": (lambda x: F.rrelu(x, 0.5, 0.1, training=True), (SHARES,)),
    "softshrink": (lambda x: F.softshrink(x, -1.0), (SHARES,)),
    "dropout": (lambda x: torch.dropout(x, NAN, True), (SHARES,)),
    "renorm": (lambda x: torch.renorm(x, 2.0, 0, -1.0), (SHARES,)),
}  # fmt: skip

TAKEN: dict[str, Case] = {
    **{f"target {v}": (F.binary_cross_entropy, (SHARES, put(v))) for v in (1.0, 0.0, -0.0, 1e-40)},
    **{f"input {v}": (F.binary_cross_entropy, (put(v), SHARES)) for v in (1.0, 0.0)},
    "beta 0": (lambda x, y: F.smooth_l1_loss(x, y, beta=0.0), (SHARES, put(2.0))),
    "beta inf": (lambda x, y: F.smooth_l1_loss(x, y, beta=INF), (SHARES, put(2.0))),
    "quantile": (torch.quantile, (SHARES, torch.tensor([0.0, 1.0, 0.3]))),
    "nanquantile": (Tensor.nanquantile, (SHARES, torch.tensor([0.0, 1.0, 0.3]))),
}


def called(function: Callable[..., Any], inputs: tuple[Tensor, ...], gradients: bool) -> Any:
    first = inputs[0].detach().clone().requires_grad_(gradients)
    return function(first, *inputs[1:])


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_it_raises_as_eager_does(name: str, gradients: bool) -> None:
    function, inputs = REFUSED[name]
    with pytest.raises(Exception) as theirs:
        called(function, inputs, gradients)
    dynamlir.reset()
    compiled = dynamlir.compile(lambda *args: function(*args))
    with dynamlir.config.patch(on_plain="ignore"), pytest.raises(type(theirs.value)) as ours:
        called(compiled, inputs, gradients)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("name", TAKEN)
def test_what_eager_takes_is_compiled(name: str) -> None:
    function, inputs = TAKEN[name]
    dynamlir.reset()
    compiled = dynamlir.compile(lambda *args: function(*args))
    # The quantile of a tensor that requires a gradient changes its shape in place, which no graph does.
    gradients = "quantile" not in name
    torch.testing.assert_close(called(compiled, inputs, gradients), called(function, inputs, gradients))
    assert not dynamlir.counters()["fallbacks"]


def test_one_entry_refuses_what_comes_later() -> None:
    for door in (dynamlir.compile, lambda function: torch.compile(function, backend="dynamlir")):
        compiled = door(lambda x, y, q: (F.binary_cross_entropy(x, y), x.nanquantile(q, 1)))
        half = torch.tensor(0.5)
        compiled(SHARES, SHARES, half)
        for inputs in ((SHARES, put(-1.0), half), (SHARES, SHARES, -half)):
            with (
                dynamlir.config.patch(on_plain="ignore"),
                pytest.raises(RuntimeError, match=r"between 0 and 1|in the range"),
            ):
                compiled(*inputs)
        compiled(SHARES, SHARES, half)
