"""Strides of results where a dimension has one element or fakes guess: compiled results have eager's strides."""

from __future__ import annotations

from collections.abc import Callable

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from dynamlir.aten import layouts
from torch import Tensor

THREE = torch.ones(3)


def norm(x: Tensor) -> Tensor:
    return F.batch_norm(x, THREE, THREE, THREE, THREE)


def image(*strides: int, sizes: tuple[int, ...] = (2, 3, 5, 1)) -> Tensor:
    return torch.ones(200).as_strided(sizes, strides)


CASES: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "one before a transposed operand": (torch.mul, (torch.ones(1, 7, 1), torch.ones(7, 7).t())),
    "one within": (torch.sub, (torch.ones(4, 1, 5).permute(2, 1, 0), torch.ones(4))),
    "a signal as an image": (norm, (image(15, 1, 3, 1),)),
    "a signal that learns": (lambda x: F.batch_norm(x, None, None, training=True), (image(15, 1, 3, 1),)),
    "a row": (norm, (image(15, 5, 1, 9),)),
    "addr": (lambda a, u, v: torch.addr(a, u, v, beta=0), (torch.ones(6, 5).mT, torch.ones(5), torch.ones(6))),
    "addr of ints": (
        lambda a, u, v: torch.addr(a.long(), u.long(), v.long(), beta=0, alpha=2),
        (torch.ones(4, 3).mT, torch.ones(3), torch.ones(4)),
    ),
    "one channel, larger": (
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        (image(1, 24, 6, 2, sizes=(2, 1, 4, 3)),),
    ),
    "windows": (lambda x: F.unfold(x, 1), (image(36, 1, 12, 3, sizes=(2, 3, 3, 4)),)),
    "huber": (lambda x, y: F.huber_loss(x, y, reduction="none"), (torch.ones(4).expand(4, 4), torch.ones(4, 4).t())),
}


@pytest.mark.parametrize("name", CASES)
def test_strides_are_those_of_eager(name: str) -> None:
    function, inputs = CASES[name]
    dynamlir.reset()
    ours, theirs = dynamlir.compile(lambda *args: function(*args))(*inputs), function(*inputs)
    assert ours.stride() == theirs.stride()
    torch.testing.assert_close(ours, theirs)
    assert not dynamlir.counters()["fallbacks"]


def test_a_sequence_of_one_step_that_learns() -> None:
    """The backward of a recurrent layer takes a workspace whose size is unknown to fakes: running it to learn the
    strides would write past its end.
    """
    layer = torch.nn.LSTM(3, 4)
    compiled = dynamlir.compile(lambda x: layer(x)[0].sum())
    for length in (2, 1):
        x = torch.ones(10, 7, 3)[:length, 0:1].requires_grad_()
        (found,) = torch.autograd.grad(compiled(x), x)
        torch.testing.assert_close(found, torch.autograd.grad(layer(x)[0].sum(), x)[0])
    with pytest.raises(RuntimeError, match="another kernel has left"):
        layouts._run(torch.ops.aten.mkldnn_rnn_layer_backward.default, (), {}, "cpu")
