"""Compiles graphs of fake CUDA tensors, which needs no GPU: the outcome is the stages, as text, and PTX."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dynamlir
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

NVIDIA = Path(sysconfig.get_paths()["purelib"]) / "triton" / "backends" / "nvidia"
PTXAS = NVIDIA / "bin" / "ptxas"
"""NVIDIA's assembler, which triton includes."""


def made_on_cuda(
    make: Callable[[], tuple[torch.nn.Module, dict[str, Any]]],
) -> tuple[FakeTensorMode, Any, dict[str, Any]]:
    """A module and its arguments as fakes on ``cuda:0``, and the mode they belong to."""
    module, inputs = make()
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    overwrite = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        with mode, torch.no_grad():
            module.to("cuda")
            moved = {
                name: value.to("cuda") if isinstance(value, torch.Tensor) else value for name, value in inputs.items()
            }
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(overwrite)
    return mode, module, moved


def compiled(mode: FakeTensorMode, function: Callable[..., Any], inputs: dict[str, Any], dump: Path) -> dynamlir.Event:
    """Calls a compiled function on fakes and returns the reason for which its graph finally ran as eager: there is no
    driver.
    """
    with mode, torch.no_grad():
        torch.compile(function, backend="dynamlir", options={"dump": str(dump), "no_cache": True})(**inputs)
    (event,) = dynamlir.fallbacks()
    return event


def assembled(dump: Path, chip: str) -> Iterator[str]:
    """Assembles the PTX of a dump for a chip and yields its entries; raises ptxas's own error."""
    for code in dump.rglob("08-kernels.ptx"):
        subprocess.run(
            [PTXAS, f"-arch={chip}", code, "-o", code.with_suffix(".cubin")], check=True, capture_output=True
        )
        yield from (
            line.split()[2].rstrip("(") for line in code.read_text().splitlines() if line.startswith(".visible .entry")
        )
