"""The programs in `examples` run, and say what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

SAY = {
    "changing_sizes": ["2 compilations for 7 lengths", "equal"],
    "export_and_load": ["00-aten.mlir: ", "tensors.safetensors: ", "equal"],
    "find_graph_breaks": [
        "clipped: 2 graphs, 1 breaks",
        "data-dependent-branch at ",
        "cured: 1 graphs, 0 breaks",
        "equal",
    ],
    "generate_text": ["dynamlir: ", "the same text"],
    "train_classifier": ["eager: accuracy ", "dynamlir: accuracy "],
}
ARGUMENTS = {"generate_text": ["--tokens", "20"], "train_classifier": ["--steps", "5"]}


def test_every_example_is_tried() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SAY)


@pytest.mark.parametrize("name", SAY)
def test_an_example(name: str) -> None:
    command = [sys.executable, EXAMPLES / f"{name}.py", *ARGUMENTS.get(name, [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "Error" not in done.stderr, done.stderr
    place = 0
    for text in SAY[name]:
        place = done.stdout.find(text, place)
        assert place >= 0, done.stdout
