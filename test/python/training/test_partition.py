"""`dynamo-partition`: regardless of what is saved, the forward and then the backward compute the joint function."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import dynamlir
import pytest
import torch
from differentiated import as_plain_function
from stages import dynamlir_opt

SHAPE, ROW = "tensor<4x8xf32>", "tensor<4xf32>"
UNARY = ("sin", "cos", "tanh", "neg", "abs")
BINARY = ("add", "sub", "mul", "max")
OPERATIONS = 24


def joint(seed: int) -> str:
    """A random function of two arguments and a tangent at stage prims. Values that depend on the tangent become
    gradients, some of the others become results.
    """
    chance = random.Random(seed)
    lines: list[str] = []
    known, dependent = ["%x", "%y"], ["%t"]

    def add(text: str, depends: bool) -> None:
        name = f"%{len(lines)}"
        lines.append(f"{name} = {text}")
        (dependent if depends else known).append(name)

    for _ in range(OPERATIONS):
        kind = chance.random()
        depends = chance.random() < 0.4
        first = chance.choice(dependent if depends else known)
        if kind < 0.4:
            add(f"dynamo.{chance.choice(UNARY)} {first} : {SHAPE}", depends)
        elif kind < 0.75:
            other = chance.choice(known)
            add(f"dynamo.{chance.choice(BINARY)} {first}, {other} : {SHAPE}", depends)
        elif kind < 0.85:
            sums = f"%r{len(lines)}"
            lines.append(f"{sums} = dynamo.reduce sum {first} dims [1] : {SHAPE} -> {ROW}")
            add(f"dynamo.broadcast {sums} dims [0] : {ROW} -> {SHAPE}", depends)
        elif kind < 0.95:
            small = "tensor<8x8xf32>"
            turned, product = f"%p{len(lines)}", f"%q{len(lines)}"
            lines.append(f"{turned} = dynamo.permute {first} dims [1, 0] : {SHAPE} -> tensor<8x4xf32>")
            lines.append(f"{product} = dynamo.matmul {turned}, {first} batch 0 : tensor<8x4xf32>, {SHAPE} -> {small}")
            add(f"dynamo.matmul {first}, {product} batch 0 : {SHAPE}, {small} -> {SHAPE}", depends)
        else:
            add(f"dynamo.reverse {first} dims [1] : {SHAPE} -> {SHAPE}", depends)
    results = chance.sample(known, min(len(known), 2))
    gradients = chance.sample(dependent, min(len(dependent), 2))
    returned = [*results, *gradients]
    types = ", ".join([SHAPE] * len(results) + [f"{SHAPE} {{dynamo.gradient = {at}}}" for at in range(len(gradients))])
    outputs = ", ".join(f"#dynamo.output<result {at}>" for at in range(len(returned)))
    body = "\n  ".join([*lines, f"return {', '.join(returned)} : {', '.join([SHAPE] * len(returned))}"])
    return (
        f"func.func @main(%x: {SHAPE} {{dynamo.requires_grad}}, %y: {SHAPE} {{dynamo.requires_grad}},"
        f" %t: {SHAPE} {{dynamo.tangent = 0}}) -> ({types})\n"
        f"    attributes {{dynamo.entry, dynamo.outputs = [{outputs}]}} {{\n  {body}\n}}\n"
    )


def cut(text: str, folder: Path, options: str = "") -> tuple[str, str]:
    """The text after the pass, and its output."""
    source, target = folder / "joint.mlir", folder / "02-prims.mlir"
    results = text.count("dynamo.gradient")
    returned = text.split("dynamo.outputs = [")[1].split("]")[0].split(", ")
    source.write_text(text.replace(", ".join(returned), ", ".join(returned[: len(returned) - results])))
    command = [str(dynamlir_opt()), str(source), "-o", str(target)]
    done = subprocess.run([*command, f"--dynamo-partition={options}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + text
    return target.read_text(), done.stdout


@pytest.mark.parametrize("seed", range(12))
def test_forward_and_backward_are_the_joint_function(seed: int, tmp_path: Path) -> None:
    text = joint(seed)
    whole_path = tmp_path / "whole"
    whole_path.mkdir()
    (whole_path / "02-prims.mlir").write_text(as_plain_function(text))
    whole = dynamlir.load_entries(whole_path / "02-prims.mlir")["main"]
    x, y, t = (torch.randn(4, 8) for _ in range(3))
    wanted = whole(x, y, t)
    for budget in ("", "memory-budget=0", "memory-budget=50", "memory-budget=100"):
        made, _ = cut(text, tmp_path, budget)
        (tmp_path / "02-prims.mlir").write_text(as_plain_function(made))
        entries = dynamlir.load_entries(tmp_path / "02-prims.mlir")
        saved = int(made.split("dynamo.saved = ")[1].split(" ")[0])
        outputs = entries["main"](x, y)
        results, kept = outputs[: len(outputs) - saved], outputs[len(outputs) - saved :]
        found = [*results, *entries["main_vjp"](*kept, t)]
        assert len(found) == len(wanted)
        for ours, theirs in zip(found, wanted):
            torch.testing.assert_close(ours, theirs)
