"""Runs sentences of many lengths through one compiled graph.

python examples/changing_sizes.py
"""

from __future__ import annotations

import dynamlir
import torch
from torch import Tensor, nn


class Encoder(nn.Module):
    """A transformer layer over the words of a sentence; returns the mean of the results."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(1000, 64)
        self.layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)

    def forward(self, sentence: Tensor) -> Tensor:
        made: Tensor = self.layer(self.words(sentence)).mean(1)
        return made


def main() -> None:
    torch.manual_seed(0)
    model = Encoder().eval()
    fast = dynamlir.compile(model)
    greatest = 0.0
    with torch.no_grad():
        for length in (7, 12, 5, 31, 18, 64, 9):
            sentence = torch.randint(1000, (2, length))
            greatest = max(greatest, float((fast(sentence) - model(sentence)).abs().max()))
    print(f"{len(dynamlir.compiles())} compilations for 7 lengths: the second one has the length as a symbol")
    print("equal" if greatest < 1e-5 else f"differ by {greatest}")


if __name__ == "__main__":
    main()
