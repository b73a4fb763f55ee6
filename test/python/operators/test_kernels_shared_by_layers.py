"""Equal layers share their kernels: a model of 48 has as many as one of 4. A model of 12 shows the same faster."""

from __future__ import annotations

import dynamlir
import pytest
import torch
from sampled import one_in

LAYERS = one_in(2, [12, 48])


class Block(torch.nn.Module):
    """A transformer encoder's block with the normalizations first."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.mix = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.wide = torch.nn.Linear(width, 4 * width)
        self.narrow = torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.mix(self.norms[0](x)).chunk(3, -1)
        scores = torch.softmax(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5, -1)
        x = x + self.out(scores @ value)
        return x + self.narrow(torch.nn.functional.gelu(self.wide(self.norms[1](x))))


def stack(layers: int) -> dynamlir.CompileReport:
    """Compiles a stack of blocks and compares it with eager."""
    torch._dynamo.reset()
    dynamlir.reset()
    module = torch.nn.Sequential(*(Block(32) for _ in range(layers))).eval()
    x = torch.randn(2, 12, 32)
    with torch.no_grad():
        found = torch.compile(module, backend="dynamlir")(x)
        torch.testing.assert_close(found, module(x), rtol=1e-4, atol=1e-4)
    (report,) = dynamlir.compiles()
    assert report.eager is None
    return report


def bert(layers: int) -> dynamlir.CompileReport:
    """Compiles the benchmarks' BERT with `layers` layers, narrow."""
    from suite import catalog

    torch._dynamo.reset()
    dynamlir.reset()
    module, inputs = catalog.MODELS["bert"].make(num_hidden_layers=layers, hidden_size=32, intermediate_size=128)
    with torch.no_grad():
        torch.compile(module, backend="dynamlir")(**inputs)
    (report,) = dynamlir.compiles()
    assert report.eager is None
    return report


@pytest.mark.parametrize("many", LAYERS)
def test_many_layers_have_the_kernels_of_4(many: int) -> None:
    few, all_of_them = stack(4), stack(many)
    assert few.kernels == all_of_them.kernels
    assert all_of_them.ops_generated > many // 5 * few.ops_generated


@pytest.mark.parametrize("many", LAYERS)
def test_many_layers_of_bert_have_the_kernels_of_4(many: int) -> None:
    pytest.importorskip("transformers")
    assert bert(many).kernels == bert(4).kernels
