"""A program is all that is needed of a recording: what is read from stage 00 is what was recorded.

So a text from a dump can be differentiated again, and an exported program runs its own text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch
from differentiated import opt
from dynamlir import compilation, reasons
from dynamlir.program import Program
from dynamlir.recording import NO_RESULT, OpRecord, Recording
from dynamlir.tracing import fresh_fake_mode, record
from torch import Tensor


class Scaled(torch.autograd.Function):
    """A function of the user with its own derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Tensor) -> Tensor:
        ctx.save_for_backward(x, factor)
        return x * factor

    @staticmethod
    def backward(ctx: Any, tangent: Tensor) -> tuple[Tensor, Tensor]:
        x, factor = ctx.saved_tensors
        return tangent * factor * 2, (tangent * x).sum_to_size(factor.shape)


def written_in_place(x: Tensor, w: Tensor) -> Tensor:
    y = (x @ w).clone()
    y[:, 1:].mul_(2)
    return y.relu_() + y.detach()


def of_many_kinds(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    values, places = torch.max(x, dim=1)
    with torch.no_grad():
        scale = x.abs().mean()
    drawn = torch.nn.functional.dropout(x, 0.25)
    parts = torch.split(x @ w, [1, 2], dim=1)
    made = torch.zeros_like(x).to(torch.bfloat16).contiguous(memory_format=torch.contiguous_format)
    return values * scale, places, drawn, parts[0] + torch.full((2,), float("inf")).sum(), torch.cat(parts, 1), made


def normalized(x: Tensor, w: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x @ w, (3,), w[0], w[1]).to(torch.float64).select(0, 1)


FUNCTIONS = [written_in_place, of_many_kinds, normalized]


def recorded(function: Callable[..., Any], *inputs: Tensor) -> Recording:
    module = torch.fx.symbolic_trace(function)
    with torch.enable_grad():
        return record(module, inputs, fresh_fake_mode())


def facts(op: OpRecord) -> dict[str, Any]:
    """The fields of an operation, except its formulas, which are read where torch cannot record them again."""
    made = {field.name: getattr(op, field.name) for field in dataclasses.fields(op)}
    del made["decomposition"], made["vjp"]
    # The text has the innermost line, and the user's.
    del made["location"]
    return {name: list(value) if isinstance(value, tuple) else value for name, value in made.items()}


def renumbered(recording: Recording) -> dict[int, int]:
    """The numbers that values have in a text: in order of definition."""
    order = [record.id for record in recording.inputs] + [value for op in recording.ops for value in op.result_ids]
    return {value: at for at, value in enumerate(order)}


def with_numbers(value: Any, numbers: dict[int, int]) -> Any:
    if isinstance(value, dynamlir.recording.Ref):
        return numbers[value.id]
    if isinstance(value, tuple) and len(value) == 2 and value[0] == "t":
        return ("t", numbers[value[1]])
    if isinstance(value, (list, tuple)):
        return [with_numbers(element, numbers) for element in value]
    return value


@pytest.mark.parametrize("function", FUNCTIONS, ids=[function.__name__ for function in FUNCTIONS])
def test_what_is_read_is_what_was_recorded(function: Callable[..., Any]) -> None:
    first = recorded(function, torch.randn(2, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True))
    trace = compilation.written(first, fresh_fake_mode())
    numbers = renumbered(first)
    second = Program.read(trace.text()).recording()
    assert [op.schema for op in second.ops] == [op.schema for op in first.ops]
    for was, now in zip(first.ops, second.ops, strict=True):
        expected = facts(was)
        for name in ("operands", "result_ids"):
            expected[name] = [numbers[value] for value in expected[name]]
        for name in ("args", "raw"):
            expected[name] = with_numbers(expected[name], numbers)
        found = facts(now)
        found["raw"] = with_numbers(found["raw"], {value: value for value in numbers.values()})
        found["args"] = with_numbers(found["args"], {value: value for value in numbers.values()})
        assert found == expected, was.schema
    for was, now in zip(first.outputs, second.outputs, strict=True):
        assert dataclasses.replace(now, const=None) == dataclasses.replace(was, id=numbers[was.id], const=None)
    assert [dataclasses.replace(record, id=0) for record in second.inputs] == [
        dataclasses.replace(record, id=0) for record in first.inputs
    ]
    assert second.mutates_inputs == first.mutates_inputs or not first.mutates_inputs


def test_an_undefined_result_stays_undefined() -> None:
    x, w = torch.randn(2, 3, requires_grad=True), torch.randn(3, 3)
    function = lambda x, w: torch.ops.aten.convolution_backward(  # noqa: E731
        x[None], x[None], w[None, :2, :1].transpose(1, 2).reshape(1, 2, 1).expand(2, 2, 1), None, [1], [0], [1],
        False, [0], 1, [True, False, False],
    )[0]  # fmt: skip
    first = recorded(function, x.detach(), w)
    read = Program.read(compilation.written(first, fresh_fake_mode()).text()).recording()
    (op,) = [op for op in read.ops if op.schema == "aten.convolution_backward.default"]
    assert op.results[1:] == [NO_RESULT, NO_RESULT]


def second_gradients(run: Callable[..., Any], inputs: Sequence[Tensor]) -> list[Tensor]:
    outputs = run(*inputs)
    output = outputs[0] if isinstance(outputs, (list, tuple)) else outputs
    first = torch.autograd.grad((output**2).sum(), inputs, create_graph=True)
    return [*first, *torch.autograd.grad(sum((gradient**2).sum() for gradient in first), inputs)]


def cubes(x: Tensor, w: Tensor) -> Tensor:
    return torch.tanh(x @ w) * x.sum()


def with_own_derivative(x: Tensor, w: Tensor) -> Tensor:
    return Scaled.apply(x, w).sin()


@pytest.mark.parametrize("function", [cubes, with_own_derivative])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_loaded_text_has_gradients_of_gradients(tmp_path: Path, function: Callable[..., Any], dynamic: bool) -> None:
    def inputs(rows: int) -> list[Tensor]:
        other = (3, 3) if function is cubes else (rows, 3)
        return [torch.randn(size, dtype=torch.float64, requires_grad=True) for size in ((rows, 3), other)]

    dynamlir.compile(function, dynamic=dynamic, options={"dump": str(tmp_path)})(*inputs(4))
    (text,) = tmp_path.rglob("00-aten.mlir")
    loaded = dynamlir.load(text)
    for rows in (4, 4, 6) if dynamic else (4,):
        given = inputs(rows)
        torch.testing.assert_close(second_gradients(loaded, given), second_gradients(function, given))
    assert not reasons.events()


def test_later_stages_have_first_gradients_alone(tmp_path: Path) -> None:
    given = [torch.randn(4, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)]
    dynamlir.compile(cubes, options={"dump": str(tmp_path)})(*given)
    (text,) = tmp_path.rglob("02-*.mlir")
    loaded = dynamlir.load(text)
    (output,) = loaded(*given)
    torch.testing.assert_close(
        torch.autograd.grad(output.sum(), given), torch.autograd.grad(cubes(*given).sum(), given)
    )
    with pytest.raises(RuntimeError, match="only the first gradients are known"):
        second_gradients(loaded, given)


def test_an_exported_program_runs_its_own_text(tmp_path: Path) -> None:
    x, w = (torch.randn(3, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    program = dynamlir.export(cubes, x, w)
    program.save(tmp_path / "saved")
    for run in (program, dynamlir.load(tmp_path / "saved")):
        before = len(dynamlir.compiles())
        torch.testing.assert_close(run(x, w), cubes(x, w))
        torch.testing.assert_close(second_gradients(run, [x, w]), second_gradients(cubes, [x, w]))
        made = [report.graph for report in dynamlir.compiles()[before:]]
        assert "_captured" not in vars(run), made
    assert not reasons.events()


def test_gradients_that_the_exported_call_did_not_want_are_not_lost() -> None:
    model = torch.nn.Linear(3, 2, dtype=torch.float64)
    model.bias.requires_grad_(False)
    x = torch.randn(4, 3, dtype=torch.float64)
    program = dynamlir.export(model, x)
    model.bias.requires_grad_()
    found = torch.autograd.grad(program(x).sin().sum(), list(model.parameters()))
    torch.testing.assert_close(found, torch.autograd.grad(model(x).sin().sum(), list(model.parameters())))


def test_numbers_for_symbols_are_those_of_dynamo_at(tmp_path: Path) -> None:
    dynamlir.compile(cubes, dynamic=True, options={"dump": str(tmp_path)})(torch.randn(4, 3), torch.randn(3, 3))
    (file,) = tmp_path.rglob("00-aten.mlir")
    text = file.read_text()
    program = Program.read(text)
    assert program.symbols
    values = [5 + at for at in range(len(program.symbols))]
    given = ",".join(f"s{symbol}={value}" for symbol, value in zip(program.symbols, values))
    by_pass = opt(text, f"--dynamo-at=symbols={given}")
    assert opt(program.at(values).trace.text()) == opt(Program.read(by_pass).trace.text())
    assert "s0" in text and "s0" not in by_pass


def test_texts_of_other_stages_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no function @main"):
        Program.read("module {}")
    with pytest.raises(ValueError, match="not a type of stage 00"):
        Program.read("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }")
    with pytest.raises(ValueError):
        Program.read("func.func @main(")


def test_sizes_need_values() -> None:
    sized = "!dynamo.tensor<[s0]xf32, [1]>"
    text = (
        f'func.func @main(%x: {sized} {{dynamo.name = "x"}}) -> {sized} attributes {{dynamo.entry, '
        "dynamo.bases = [#dynamo.base<arg 0>], dynamo.outputs = [#dynamo.output<result 0>], "
        "dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0, min = 2>], dynamo.versions = array<i64: 0>} "
        f"{{ return %x : {sized} }}"
    )
    program = Program.read(text)
    assert program.symbols == (0,)
    with pytest.raises(ValueError, match="s0 is not a number"):
        program.recording()
    (record,) = program.at([7]).recording().inputs
    assert record.meta.sizes == (7,)
    with pytest.raises(ValueError, match="s0"):
        program.with_values({1: 7})
