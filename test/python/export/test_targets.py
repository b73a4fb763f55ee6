"""The target of kernels is part of the text: dumps of another machine are lowered here in the same way as there."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import dynamlir
import pytest
import torch
from stages import dump, dynamlir_opt
from torch import Tensor

X86 = "x86_64-unknown-linux-gnu"
# With a library of narrower vectors, all products are generated code.
AVX2 = f'#dynamo.target<"{X86}", "x86-64-v3", "+avx,+avx2,+fma", vector_bits = 256, library_vector_bits = 128>'
STRANGER = f'#dynamo.target<"{X86}", "x86-64-v9", "+avx,+warp-drive", vector_bits = 1024>'
ARM = '#dynamo.target<"aarch64-unknown-linux-gnu", "generic", "+neon", vector_bits = 128, library_vector_bits = 128>'

needs_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="on Arm, Arm's processors are not foreign")


def program(x: Tensor, weight: Tensor) -> Tensor:
    return torch.softmax(torch.nn.functional.gelu(x @ weight), -1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The stages of `program` for this machine."""
    torch._dynamo.reset()
    dynamlir.reset()
    dump(program, tmp_path / "dump", *inputs())
    return tmp_path / "dump"


def inputs() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(64, 32), torch.randn(32, 256)


def retargeted(path: Path, target: str, to: Path) -> Path:
    text, count = re.subn(r"#dynamo\.target<[^>]*>", target, path.read_text())
    assert count == 1, "the driver says the target once, on the module"
    to.write_text(text)
    return to


def dumped(path: Path, folder: Path) -> dict[str, str]:
    """The stages of a loaded text, for a machine that may be another one."""
    with pytest.raises(ValueError, match="cannot run here"):
        dynamlir.load(path, dump=folder)
    return {file.stem: file.read_text() for file in folder.iterdir()}


def test_a_dump_says_this_machine(folder: Path) -> None:
    text = (folder / "00-aten.mlir").read_text()
    assert text.count("dynamo.target = #dynamo.target<") == 1
    for file in sorted(folder.glob("*.mlir")):
        assert "dynamo.target = #dynamo.target<" in file.read_text(), file.name


def test_a_narrower_processors_dump_runs_here(folder: Path, tmp_path: Path) -> None:
    if "avx2" not in dynamlir.native.module().processor()[1]:
        pytest.skip("this processor has no AVX2")
    for stage in ("00-aten", "02-prims", "05-linalg"):
        path = retargeted(folder / f"{stage}.mlir", AVX2, tmp_path / f"{stage}.mlir")
        (found,) = dynamlir.load(path, stage=stage)(*inputs())
        torch.testing.assert_close(found, program(*inputs()))


@needs_x86
@pytest.mark.parametrize(
    ("target", "wanted"), [(STRANGER, "lacks warp-drive"), (ARM, "it is for aarch64, and this is x86_64")]
)
def test_another_machines_dump_is_an_error_that_says_what_to_do(
    folder: Path, tmp_path: Path, target: str, wanted: str
) -> None:
    path = retargeted(folder / "02-prims.mlir", target, tmp_path / "02-prims.mlir")
    with pytest.raises(ValueError, match=f"cannot run here: .*{wanted}.*Without `dynamo.target`"):
        dynamlir.load(path)
    without = tmp_path / "plain.mlir"
    without.write_text(re.sub(r", dynamo\.target = #dynamo\.target<[^>]*>", "", path.read_text()))
    (found,) = dynamlir.load(without, stage="prims")(*inputs())
    torch.testing.assert_close(found, program(*inputs()))


@needs_x86
def test_another_machines_dump_is_lowered_here_as_there(folder: Path, tmp_path: Path) -> None:
    path = retargeted(folder / "00-aten.mlir", ARM, tmp_path / "00-aten.mlir")
    stages = dumped(path, tmp_path / "arm")
    # Without vectors of at least 256 bits no product is generated; pointwise code takes two vectors of 128 at a time.
    assert "dynamo.matmul" in stages["02-prims"], "what is lowered does not depend on the machine"
    assert "dynamo.matmul" not in stages["03-kernels"] and '"aten.mm.default"' in stages["03-kernels"]
    assert 'target triple = "aarch64-unknown-linux-gnu"' in stages["09-kernels"]
    assert "Sleef" not in stages["09-kernels"]
    again = dumped(path, tmp_path / "again")
    assert stages == again


def test_the_target_decides_not_the_processor(folder: Path, tmp_path: Path) -> None:
    """From the text, the tool takes the same decisions as the driver on that machine."""
    made = {}
    for name, target in {"arm": ARM, "avx2": AVX2}.items():
        path = retargeted(folder / "00-aten.mlir", target, tmp_path / f"{name}.mlir")
        command = [dynamlir_opt(), path, "--dynamlir-to-planned"]
        made[name] = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "dynamo.extern" in made["arm"] and "dynamo.matmul" not in made["arm"]
    assert "dynamo.extern" not in made["avx2"] and "width = 8" in made["avx2"]
