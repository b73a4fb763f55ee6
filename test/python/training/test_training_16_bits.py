"""Modules whose parameters and statistics are all 16-bit, trained through both front doors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from both import each_door
from torch import Tensor, nn

MODULES: dict[str, Callable[[], nn.Module]] = {
    "batch norm": lambda: nn.BatchNorm2d(4),
    "batch norm without statistics": lambda: nn.BatchNorm2d(4, track_running_stats=False),
    "batch norm without parameters": lambda: nn.BatchNorm2d(4, affine=False),
    "instance norm": lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
    "group norm": lambda: nn.GroupNorm(2, 4),
    "layer norm": lambda: nn.LayerNorm(6),
    "RMS norm": lambda: nn.RMSNorm(6),
    "convolution and norm": lambda: nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.ReLU()),
}


def steps(call: Callable[..., Any], module: nn.Module, x: Tensor) -> list[Tensor]:
    """The results of two calls, their gradients, and the buffers afterwards."""
    made: list[Tensor] = []
    for _ in range(2):
        operand = x.detach().clone().requires_grad_()
        result = call(operand)
        slope = torch.linspace(-1, 1, result.numel()).view_as(result)
        wanted = (operand, *module.parameters())
        made += [result.detach(), *torch.autograd.grad((result.to(slope.dtype) * slope).sum(), wanted)]
    return made + [buffer.clone() for buffer in module.buffers() if buffer.is_floating_point()]


@each_door()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", MODULES)
def test_steps(name: str, dtype: torch.dtype, door: Callable[..., Any]) -> None:
    """Checks that steps are as near to doubles as eager's kernels, with results and statistics of the same types."""
    torch.manual_seed(0)
    ours = MODULES[name]().to(dtype)
    theirs, exact = copy.deepcopy(ours), copy.deepcopy(ours).double()
    x = torch.randn(3, 4, 5, 6).mul(2).add(1).to(dtype)
    found, wanted = steps(door(ours), ours, x), steps(theirs, theirs, x)
    right = steps(exact, exact, x.double())
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
    for one, other, true in zip(found, wanted, right, strict=True):
        assert (one.dtype, one.stride()) == (other.dtype, other.stride())
        off, may = (float((side.double() - true).norm()) for side in (one, other))
        assert off <= 1.2 * may + 1e-6 * float(true.norm()), (off, may)
