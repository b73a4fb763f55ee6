"""Recorded derivatives: the operations in torch's formulas, and the cases without a derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from dynamlir.aten.derivatives import Differentiator, record_vjp
from dynamlir.reasons import Fallback
from dynamlir.recording import OpRecord, Recording
from dynamlir.tracing import fresh_fake_mode, record
from torch import Tensor


def recorded(function: Callable[..., Any], *inputs: Tensor) -> tuple[Recording, Any]:
    """A function's graph, and the mode of its fakes."""
    mode = fresh_fake_mode()
    return record(torch.fx.symbolic_trace(function), inputs, mode), mode


def only(recording: Recording, schema: str) -> OpRecord:
    """The one operation of this schema."""
    (found,) = [op for op in recording.ops if op.schema == schema]
    return found


def vjp(function: Callable[..., Any], schema: str, *inputs: Tensor) -> Recording:
    """The derivative of the one operation of this schema."""
    recording, mode = recorded(function, *inputs)
    op = only(recording, schema)
    assert op.raw is not None
    return record_vjp(op, *op.raw, recording, mode)


def leaf(*sizes: int) -> Tensor:
    return torch.randn(*sizes, requires_grad=True)


def schemas(recording: Recording) -> list[str]:
    return [op.schema for op in recording.ops if op.schema != "aten.detach.default"]


def test_it_is_the_formula_of_operands_results_and_tangents() -> None:
    found = vjp(lambda x, w: torch.mm(x, w), "aten.mm.default", leaf(2, 3), leaf(3, 4))
    assert [record.name for record in found.inputs] == ["operand0", "operand1", "result0", "tangent0"]
    assert [record.tangent for record in found.inputs] == [None, None, None, 0]
    assert [output.gradient for output in found.outputs] == [0, 1]
    assert schemas(found).count("aten.mm.default") == 2  # without the product in the graph


def test_a_result_is_an_argument_and_not_computed_again() -> None:
    found = vjp(lambda x: x.exp(), "aten.exp.default", leaf(3))
    assert schemas(found) == ["aten.mul.Tensor"]
    (product,) = [op for op in found.ops if op.schema == "aten.mul.Tensor"]
    roots = found.roots()
    assert {roots.get(value, value) for value in product.operands} == {found.inputs[1].id, found.inputs[2].id}


def test_only_what_needs_a_gradient_gets_one() -> None:
    found = vjp(lambda x, w: torch.mm(x, w), "aten.mm.default", torch.randn(2, 3), leaf(3, 4))
    assert [output.gradient for output in found.outputs] == [1]
    assert schemas(found).count("aten.mm.default") == 1


def test_an_operand_that_stands_twice_has_the_sum_at_its_first_place() -> None:
    found = vjp(lambda x: x * x, "aten.mul.Tensor", leaf(3))
    assert len(found.inputs) == 4
    assert [output.gradient for output in found.outputs] == [0]
    assert "aten.add.Tensor" in schemas(found)


def test_results_that_are_not_differentiable_have_no_tangent() -> None:
    found = vjp(lambda x: torch.max(x, 1).values, "aten.max.dim", leaf(3, 4))
    assert [record.tangent for record in found.inputs] == [None, None, None, 0]


def test_writes_have_the_derivative_of_the_operation_that_returns_the_new_value() -> None:
    found = vjp(lambda x: (x * 2).exp_(), "aten.exp_.default", leaf(3))
    assert schemas(found) == ["aten.mul.Tensor"]


def test_a_number_that_is_no_gradient_is_none() -> None:
    recording, _ = recorded(lambda x: x.argmax().to(torch.float32) * 2, leaf(3))
    assert not recording.is_training
    assert all(op.needs_grad == () for op in recording.ops if op.schema != "aten.argmax.default")


def test_what_the_compiler_has_rules_for_is_not_recorded() -> None:
    recording, mode = recorded(lambda x: x.sin().exp(), leaf(3))
    Differentiator({"aten.sin.default"}).attach(recording, mode)
    assert only(recording, "aten.sin.default").vjp is None
    assert only(recording, "aten.exp.default").vjp is not None


def test_equal_operations_share_a_derivative() -> None:
    recording, mode = recorded(lambda x: x.sin().sin(), leaf(3))
    Differentiator(frozenset()).attach(recording, mode)
    first, second = (op.vjp for op in recording.ops)
    assert first is second is not None


def test_an_operation_under_no_grad_needs_none() -> None:
    graph = torch.fx.Graph()
    y = graph.call_function(torch.mul, (graph.placeholder("x"), 2))
    graph.call_function(torch._C._set_grad_enabled, (False,))
    z = graph.call_function(torch.mul, (y, 3))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    graph.output(graph.call_function(torch.add, (y, z)))
    recording = record(torch.fx.GraphModule({}, graph), [leaf(3)], fresh_fake_mode())
    assert [op.needs_grad for op in recording.ops if op.schema != "aten.detach.default"] == [(0,), (), (0,)]


def test_autocast_is_off_while_a_derivative_is_recorded() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = vjp(lambda x, w: torch.mm(x, w), "aten.mm.default", leaf(2, 3), leaf(3, 4))
    assert "aten._to_copy.default" not in schemas(found)


def test_an_input_that_is_not_a_leaf_may_be_written_by_fakes() -> None:
    x = leaf(3) * 2
    with pytest.raises(Fallback) as refused:
        recorded(lambda x: x.mul_(2), x)
    assert refused.value.reason == "autograd" and "writes an input" in str(refused.value)
    with pytest.raises(Fallback) as refused:
        recorded(lambda x, w: x.mul_(w), torch.randn(3), leaf(3))
    assert refused.value.reason == "autograd" and "gets a gradient by being written" in str(refused.value)
    with pytest.raises(Fallback) as refused:
        recorded(lambda x: x.mul_(2), leaf(3))
    assert refused.value.reason == "tracing-error" and "a leaf Variable that requires grad" in str(refused.value)


@pytest.mark.parametrize("name", ["linalg_svd", "fft_fft", "grid_sampler_2d"])
def test_the_long_tail_has_formulas(name: str) -> None:
    image, grid = leaf(1, 1, 4, 4), leaf(1, 2, 2, 2)
    programs: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
        "linalg_svd": (lambda x: torch.linalg.svd(x, full_matrices=False)[1], (leaf(3, 3),)),
        "fft_fft": (lambda x: torch.fft.rfft(x, 4).abs(), (leaf(4),)),
        "grid_sampler_2d": (lambda x, g: torch.nn.functional.grid_sample(x, g, align_corners=False), (image, grid)),
    }
    function, inputs = programs[name]
    recording, mode = recorded(function, *inputs)
    Differentiator(frozenset()).attach(recording, mode)
    assert all(op.vjp is not None for op in recording.ops if op.needs_grad and op.schema != "aten.detach.default")


def test_a_derivative_that_is_differentiated_again_says_what_of_it_needs_a_gradient() -> None:
    recording, mode = recorded(lambda x: x.sin(), leaf(3))
    Differentiator(frozenset()).attach(recording, mode, order=3)
    first = only(recording, "aten.sin.default").vjp
    assert first is not None
    assert only(first, "aten.mul.Tensor").needs_grad == (0, 1)
    second = only(first, "aten.cos.default").vjp
    assert second is not None and only(second, "aten.sin.default").vjp is not None
