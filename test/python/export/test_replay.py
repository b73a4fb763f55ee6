"""Dumps: every stage replays to the next with the same text; an edited stage gives an executable with the edit."""

from __future__ import annotations

import inspect
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch
from stages import dump, dynamlir_opt, stages


def bert(folder: Path) -> dynamlir.CompileReport:
    """A BERT of two layers."""
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128
    )
    return dump(transformers.BertModel(config).eval(), folder, input_ids=torch.randint(0, 100, (2, 16)))


def updated(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """Writes an input, also through a view."""
    state.mul_(0.5)
    state[1:3].add_(x.sum(0))
    return torch.softmax(x @ state.t(), -1)


def mutation(folder: Path) -> dynamlir.CompileReport:
    """`updated`, which writes an input."""
    return dump(updated, folder, torch.randn(4, 8), torch.randn(6, 8))


@pytest.mark.parametrize("program", [bert, mutation])
def test_each_stage_replays_to_the_next(program: Callable[[Path], Any], tmp_path: Path) -> None:
    program(tmp_path)
    for (before, _), (after, pipeline) in zip(stages(), stages()[1:]):
        command = [dynamlir_opt(), f"--pass-pipeline={pipeline}", "--mlir-print-debuginfo", tmp_path / f"{before}.mlir"]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
        wanted = (tmp_path / f"{after}.mlir").read_text()
        differ = [pair for pair in zip(wanted.split("\n"), made.stdout.split("\n")) if pair[0] != pair[1]]
        assert made.stdout == wanted, f"{after} differs, first in {differ[:1]}"


def test_the_environment_variable_dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMLIR_DUMP", str(tmp_path / "new" / "folder"))
    torch.compile(torch.exp, backend="dynamlir")(torch.randn(3))
    found = sorted(path.name for path in (tmp_path / "new" / "folder").iterdir())
    code = ["09-kernels.ll", "10-kernels.opt.ll", "11-kernels.s"]
    assert found == [f"{label}.mlir" for label, _ in stages()] + code


def line(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The function that the edits below change."""
    return x * 2.0 + y


def test_locations_name_the_python_line(tmp_path: Path) -> None:
    dump(line, tmp_path, torch.randn(16), torch.randn(16))
    source, first = inspect.getsourcelines(line)
    place = f'"{__file__}":{first + len(source) - 1}:'
    for label, _ in stages():
        assert place in (tmp_path / f"{label}.mlir").read_text(), label


def test_llvm_ir_and_assembly_show_the_kernels(tmp_path: Path) -> None:
    dump(line, tmp_path, torch.randn(16), torch.randn(16))
    kernel = "pointwise_mul_add"
    for name in ("09-kernels.ll", "10-kernels.opt.ll"):
        assert any(
            row.startswith("define") and f"@{kernel}" in row for row in (tmp_path / name).read_text().split("\n")
        )
    assert any(row.startswith(kernel) and ":" in row for row in (tmp_path / "11-kernels.s").read_text().split("\n"))


EDITS: dict[str, tuple[str, str, Callable[[Any, Any], Any]]] = {
    "00-aten": ("2.000000e+00", "3.000000e+00", lambda x, y: x * 3 + y),
    "01-functional": ("aten.mul.Tensor", "aten.div.Tensor", lambda x, y: x / 2 + y),
    "02-prims": ("dynamo.add", "dynamo.mul", lambda x, y: x * 2 * y),
    "03-kernels": ("dynamo.mul", "dynamo.sub", lambda x, y: x - 2 + y),
    "04-planned": ("dynamo.add", "dynamo.max", lambda x, y: torch.maximum(x * 2, y)),
    "05-linalg": ("arith.addf", "arith.mulf", lambda x, y: x * 2 * y),
    "06-scheduled": ("2.000000e+00", "5.000000e+00", lambda x, y: x * 5 + y),
    "07-bufferized": ("arith.addf", "arith.subf", lambda x, y: x * 2 - y),
    "08-llvm": ("llvm.fadd", "llvm.fmul", lambda x, y: x * 2 * y),
}
"""By stage: a text, its replacement, and the function that the program then computes."""


def test_an_edited_stage_computes_something_else(tmp_path: Path) -> None:
    x, y = torch.randn(100), torch.randn(100)
    dump(line, tmp_path, x, y)
    assert list(EDITS) == [label for label, _ in stages()]
    for label, (old, new, meaning) in EDITS.items():
        path = tmp_path / f"{label}.mlir"
        text = path.read_text()
        torch.testing.assert_close(dynamlir.load(str(path))(x, y), [line(x, y)])
        assert old in text, f"{label} has no {old}"
        path.write_text(text.replace(old, new))
        torch.testing.assert_close(dynamlir.load(str(path))(x, y), [meaning(x, y)], msg=label)


def test_a_replayed_mutation_writes_the_input(tmp_path: Path) -> None:
    mutation(tmp_path)
    state, x = torch.randn(6, 8), torch.randn(4, 8)
    wanted_state = state.clone()
    wanted = updated(x, wanted_state)
    text = (tmp_path / "02-prims.mlir").read_text()
    inputs = sorted({"L_x_": x, "L_state_": state}.items(), key=lambda item: text.index(f'"{item[0]}"'))
    (found,) = dynamlir.load(str(tmp_path / "02-prims.mlir"))(*(value for _, value in inputs))
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(state, wanted_state)
