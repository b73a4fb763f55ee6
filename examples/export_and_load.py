"""Exports a model with any number of rows, saves it, and runs what was loaded without the model's code.

python examples/export_and_load.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import dynamlir
import torch
from torch import nn


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 4)).eval()
    rows = dynamlir.Dim("rows", max=4096)
    program = dynamlir.export(model, torch.randn(8, 64), dynamic_shapes={"input": {0: rows}})
    with tempfile.TemporaryDirectory() as folder:
        program.save(folder)
        for file in sorted(Path(folder).iterdir()):
            print(f"{file.name}: {file.stat().st_size} bytes")
        loaded = dynamlir.load(folder)  # parses and checks; executes nothing
    x = torch.randn(1000, 64)
    with torch.no_grad():
        print("equal" if torch.allclose(loaded(x), model(x), atol=1e-5) else "different")


if __name__ == "__main__":
    main()
