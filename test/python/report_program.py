"""A program whose report has something on each page: modules in inference and training, breaks, and recompilations.

``program.py FILE`` writes its report there.
"""

from __future__ import annotations

import sys

import dynamlir
import torch
from torch import Tensor, nn


class Block(nn.Module):
    """A layer of a small transformer."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.qkv = nn.Linear(size, 3 * size)
        self.proj = nn.Linear(size, size)
        self.mlp = nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.proj(torch.softmax(q @ k.transpose(1, 2), -1) @ v)
        return x + self.mlp(x)


class Model(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(16), Block(16)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x.mean(1)


def gated(x: Tensor, scale: float) -> Tensor:
    y = torch.relu(x) * scale
    if y.sum() > 0:
        y = y - 1
    return torch.softmax(y, -1)


def main() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 4, 16)
    model = dynamlir.compile(Model())
    with torch.no_grad():
        model(x)
    dynamo = torch.compile(Model().eval(), backend="dynamlir")
    with torch.no_grad():
        dynamo(x)
    model(x).square().mean().backward()
    compiled = dynamlir.compile(gated)
    for count, scale in ((3, 1.0), (4, 1.0), (4, 2.0)):
        compiled(torch.rand(count, 5), scale)
    with dynamlir.profile(), torch.no_grad():
        for _ in range(3):
            model(x)
    with dynamlir.profile():
        model(x).square().mean().backward()
    if len(sys.argv) > 1:
        print(dynamlir.report(sys.argv[1]))


if __name__ == "__main__":
    main()
