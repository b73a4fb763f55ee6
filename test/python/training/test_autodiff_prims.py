"""The derivatives of primitives against central differences, in f64, on handwritten programs.

A case is the body of a function of `%0`, `%1`, … that ends in `%r`.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import NamedTuple

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from differentiated import Joint, opt, seeded
from torch import Tensor


class Case(NamedTuple):
    """Operand types, the body, and the result's sizes. Operands of i64 are indices below 3."""

    name: str
    operands: tuple[str, ...]
    body: str
    result: str


def unary(name: str) -> Case:
    return Case(name, ("2x3",), f"%r = dynamo.{name} %0 : tensor<2x3xf64>", "2x3")


def binary(name: str) -> Case:
    return Case(name, ("2x3", "2x3"), f"%r = dynamo.{name} %0, %1 : tensor<2x3xf64>", "2x3")


def moves(name: str, source: str, words: str, result: str) -> Case:
    op = name.split()[0]
    return Case(
        name,
        (source,),
        f"%r = dynamo.{op} %0 {words} : tensor<{source}xf64> -> tensor<{result}>",
        result.removesuffix("xf64"),
    )


UNARY = [
    "neg",
    "abs",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "atanh",
    "erf",
    "erfc",
    "lgamma",
]
CASES = [
    *map(unary, UNARY),
    Case(
        "acosh",
        ("2x3",),
        "%o = dynamo.full 1.0 : f64 -> tensor<2x3xf64> %s = dynamo.add %0, %o : tensor<2x3xf64>"
        " %r = dynamo.acosh %s : tensor<2x3xf64>",
        "2x3",
    ),
    *map(binary, ["add", "sub", "mul", "div", "rem", "pow", "atan2", "hypot", "copysign", "max", "min"]),
    Case("fma", ("3", "3", "3"), "%r = dynamo.fma %0, %1, %2 : tensor<3xf64>", "3"),
    Case(
        "select",
        ("3", "3"),
        "%c = dynamo.compare lt %0, %1 : tensor<3xf64> -> tensor<3xi1>"
        " %r = dynamo.select %c, %0, %1 : tensor<3xi1>, tensor<3xf64>",
        "3",
    ),
    Case(
        "convert",
        ("3",),
        "%f = dynamo.convert %0 : tensor<3xf64> -> tensor<3xf64> %r = dynamo.mul %f, %f : tensor<3xf64>",
        "3",
    ),
    moves("broadcast", "1x3", "dims [0, 2]", "2x4x3xf64"),
    moves("reshape", "2x3", "", "6xf64"),
    moves("permute", "2x3x4", "dims [2, 0, 1]", "4x2x3xf64"),
    moves("slice", "2x5", "starts [0, 1] steps [1, 1]", "2x3xf64"),
    moves("slice steps", "4x5", "starts [1, 0] steps [2, 2]", "2x3xf64"),
    moves("reverse", "2x3", "dims [1]", "2x3xf64"),
    moves("pad", "2x3", "low [1, 0] high [0, 2] value 3.0 : f64", "3x5xf64"),
    moves("as_strided diagonal", "3x3", "strides [4] offset 0", "3xf64"),
    moves("as_strided repeated", "3x3", "strides [0, 3] offset 1", "2x3xf64"),
    moves("as_strided overlapping", "6", "strides [1, 1] offset 0", "4x3xf64"),
    Case(
        "concatenate",
        ("2x3", "1x3"),
        "%r = dynamo.concatenate %0, %1, %0 dim 0"
        " : (tensor<2x3xf64>, tensor<1x3xf64>, tensor<2x3xf64>) -> tensor<5x3xf64>",
        "5x3",
    ),
    Case(
        "as_strided_scatter",
        ("3x3", "3"),
        "%r = dynamo.as_strided_scatter %0, %1 strides [4] offset 0"
        " : tensor<3x3xf64>, tensor<3xf64> -> tensor<3x3xf64>",
        "3x3",
    ),
    *(
        Case(
            f"reduce {kind}",
            ("2x3x4",),
            f"%r = dynamo.reduce {kind} %0 dims [0, 2] : tensor<2x3x4xf64> -> tensor<3xf64>",
            "3",
        )
        for kind in ("sum", "prod", "max", "min")
    ),
    Case("scan sum", ("2x4",), "%r = dynamo.scan sum %0 dim 1 : tensor<2x4xf64>", "2x4"),
    Case(
        "gather",
        ("3x4", "5xi64", "5xi64"),
        "%r = dynamo.gather %0[%1, %2] : tensor<3x4xf64>, tensor<5xi64>, tensor<5xi64> -> tensor<5xf64>",
        "5",
    ),
    Case(
        "scatter sum",
        ("3x4", "5x4xi64", "5x4"),
        "%r = dynamo.scatter %2 into %0[%1] dims [-1, 1] by sum"
        " : tensor<3x4xf64>, tensor<5x4xi64>, tensor<5x4xf64> -> tensor<3x4xf64>",
        "3x4",
    ),
    Case(
        "scatter",
        ("4x4", "5x4xi64", "5x4"),
        "%r = dynamo.scatter %2 into %0[%1] dims [-1, 1]"
        " : tensor<4x4xf64>, tensor<5x4xi64>, tensor<5x4xf64> -> tensor<4x4xf64>",
        "4x4",
    ),
    Case(
        "matmul",
        ("2x3", "3x4"),
        "%r = dynamo.matmul %0, %1 batch 0 : tensor<2x3xf64>, tensor<3x4xf64> -> tensor<2x4xf64>",
        "2x4",
    ),
    Case(
        "matmul batch",
        ("2x3x4x5", "2x5x2x3"),
        "%r = dynamo.matmul %0, %1 batch 1 : tensor<2x3x4x5xf64>, tensor<2x5x2x3xf64> -> tensor<2x3x4x2x3xf64>",
        "2x3x4x2x3",
    ),
    Case(
        "matmul row",
        ("2x3", "2x3"),
        "%r = dynamo.matmul %0, %1 batch 1 : tensor<2x3xf64>, tensor<2x3xf64> -> tensor<2xf64>",
        "2",
    ),
    Case(
        "history",
        ("3", "3"),
        "%p = dynamo.mul %1, %1 : tensor<3xf64> %r = dynamo.history %1 of %p : tensor<3xf64>",
        "3",
    ),
    Case(
        "overwrite",
        ("3", "3"),
        "%p = dynamo.mul %1, %1 : tensor<3xf64> %r = dynamo.overwrite %p of %0 : tensor<3xf64>",
        "3",
    ),
]


def sizes_of(words: str) -> tuple[list[int], str]:
    *sizes, element = words.split("x") if words.endswith("i64") else [*words.split("x"), "f64"]
    return [int(size) for size in sizes], element


def text_of(case: Case, *, differentiable: bool) -> str:
    arguments = []
    for at, words in enumerate(case.operands):
        sizes, element = sizes_of(words)
        strides = ", ".join(map(str, torch.empty(sizes).stride()))
        wanted = ", dynamo.requires_grad" if differentiable and element == "f64" else ""
        kind = f"tensor<{''.join(f'{size}x' for size in sizes)}{element}>"
        arguments.append(f"%{at}: {kind} {{dynamo.strides = array<i64: {strides}>, dynamo.offset = 0 : i64{wanted}}}")
    strides = ", ".join(map(str, torch.empty(sizes_of(case.result)[0]).stride()))
    result = f"tensor<{case.result}xf64>"
    said = ", dynamo.differentiable = array<i64: 0>" if differentiable else ""
    return (
        f"func.func @main({', '.join(arguments)}) -> ({result} {{dynamo.strides = array<i64: {strides}>}})\n"
        f"    attributes {{dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]{said}}} {{\n"
        f"  {case.body}\n  return %r : {result}\n}}\n"
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_central_differences(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "01-functional.mlir"
    path.write_text(text_of(case, differentiable=False))
    forward = dynamlir.load(path, "functional")
    torch.manual_seed(1)
    operands: list[Tensor] = []
    for words in case.operands:
        sizes, element = sizes_of(words)
        # Distinct values, so that a maximum is unique, and not close to 0 or 1.
        values = (
            torch.randperm(max(torch.Size(sizes).numel(), 1)).double().reshape(sizes) / 60
            + 0.12
            + 0.005 * len(operands)
        )
        operands.append(torch.randint(3, sizes) if element == "i64" else values)
    (out,) = forward(*operands)
    tangent = seeded(out, 2)
    joint = Joint(opt(text_of(case, differentiable=True), "--dynamo-autodiff", "--dynamo-verify-functional"))
    _, gradients = joint(operands, [tangent])
    found = dict(zip(joint.gradients, gradients, strict=True))
    step = 1e-6
    for at, operand in enumerate(operands):
        if not operand.is_floating_point():
            continue
        expected = torch.zeros_like(operand)
        for index in itertools.product(*map(range, operand.shape)):
            ends = []
            for sign in (1, -1):
                moved = operand.clone()
                moved[index] += sign * step
                (out,) = forward(*operands[:at], moved, *operands[at + 1 :])
                ends.append((out * tangent).sum())
            expected[index] = (ends[0] - ends[1]) / (2 * step)
        if case.name == "history":
            # The value is that of %1, but the gradient is that of its square.
            expected = 2 * operands[1] * tangent if at == 1 else torch.zeros_like(operand)
        gradient = found.get(at, torch.zeros_like(operand))
        torch.testing.assert_close(
            gradient, expected, rtol=1e-6, atol=1e-6, msg=lambda text, at=at: f"operand {at}: {text}"
        )


def test_products_with_zeros(tmp_path: Path) -> None:
    """The product of the other elements is computed without division."""
    case = next(case for case in CASES if case.name == "reduce prod")
    joint = Joint(opt(text_of(case, differentiable=True), "--dynamo-autodiff"))
    x = torch.rand(2, 3, 4, dtype=torch.float64)
    x[0, 0, 1] = x[0, 1, 0] = x[1, 1, 2] = 0
    x.requires_grad_()
    tangent = torch.rand(3, dtype=torch.float64)
    (expected,) = torch.autograd.grad(x.prod(2).prod(0), x, tangent)
    torch.testing.assert_close(joint([x.detach()], [tangent])[1][0], expected)


def test_ties_share(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "reduce max")
    joint = Joint(opt(text_of(case, differentiable=True), "--dynamo-autodiff"))
    x = torch.randint(2, (2, 3, 4)).double().requires_grad_()
    tangent = torch.rand(3, dtype=torch.float64)
    (expected,) = torch.autograd.grad(x.amax((0, 2)), x, tangent)
    torch.testing.assert_close(joint([x.detach()], [tangent])[1][0], expected)


def f32(case: Case) -> str:
    """Images have generated code in single precision only."""
    text = text_of(case, differentiable=True)
    return text.replace("xf64", "xf32")


def test_convolution() -> None:
    case = Case(
        "convolution",
        ("1x2x5x5", "4x1x3x3"),
        "%r = dynamo.convolution %0, %1 strides [2, 1] padding [1, 0] dilation [1, 1] groups 2"
        " : tensor<1x2x5x5xf64>, tensor<4x1x3x3xf64> -> tensor<1x4x3x3xf64>",
        "1x4x3x3",
    )
    joint = Joint(opt(f32(case), "--dynamo-autodiff"))
    x, w, tangent = (
        torch.rand(1, 2, 5, 5).requires_grad_(),
        torch.rand(4, 1, 3, 3).requires_grad_(),
        torch.rand(1, 4, 3, 3),
    )
    expected = torch.autograd.grad(F.conv2d(x, w, stride=(2, 1), padding=(1, 0), groups=2), [x, w], tangent)
    _, found = joint([x.detach(), w.detach()], [tangent])
    torch.testing.assert_close(tuple(found), expected)


def test_max_pool() -> None:
    case = Case(
        "max_pool",
        ("1x2x5x5",),
        "%r = dynamo.max_pool %0 window [3, 3] strides [2, 2] padding [1, 1] dilation [1, 1]"
        " : tensor<1x2x5x5xf64> -> tensor<1x2x3x3xf64>",
        "1x2x3x3",
    )
    joint = Joint(opt(f32(case), "--dynamo-autodiff"))
    x, tangent = torch.rand(1, 2, 5, 5).requires_grad_(), torch.rand(1, 2, 3, 3)
    (expected,) = torch.autograd.grad(F.max_pool2d(x, 3, 2, 1), x, tangent)
    torch.testing.assert_close(joint([x.detach()], [tangent])[1][0], expected)
