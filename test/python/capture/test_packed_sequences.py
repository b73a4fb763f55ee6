"""Packed sequences give eager's results, though C++ reads their lengths from a tensor known only at run time."""

from __future__ import annotations

from typing import Any

import dynamlir
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import rnn

SIZES = [[2, 1], [2, 2], [2, 2, 1], [2, 1, 1, 1]]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_the_number_of_steps_varies(kind: Any, quiet: None) -> None:
    torch.manual_seed(0)
    layer = kind(3, 4)

    def function(x: Tensor, sizes: Tensor, state: Any) -> Tensor:
        return layer(rnn.PackedSequence(x, sizes), state)[0].data * 2

    compiled = dynamlir.compile(function)
    state = torch.zeros(1, 2, 4)
    given = (state, state + 1) if kind is nn.LSTM else state
    for sizes in SIZES:
        x = torch.randn(sum(sizes), 3)
        for counts in (torch.tensor(sizes), torch.tensor(sizes)):
            torch.testing.assert_close(compiled(x, counts, given), function(x, counts, given))


def test_padding_of_a_varying_number_of_steps(quiet: None) -> None:
    def function(x: Tensor, sizes: Tensor) -> Tensor:
        return torch._VF._pad_packed_sequence(x, sizes, False, 0.5, 6)[0] + 1

    compiled = dynamlir.compile(function)
    for sizes in SIZES:
        x = torch.randn(sum(sizes), 3)
        assert torch.equal(compiled(x, torch.tensor(sizes)), function(x, torch.tensor(sizes)))
