"""Outputs of a training graph are as in eager: views of results and inputs, detached ones, versions, buffers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch
from test_training_node import grads, leaf, load, raised
from torch import Tensor
from torch.testing._internal.two_tensor import TwoTensor

# a = x * x and b = exp(w), each with its own storage; b is saved.
TWO = """
module {
  func.func @main(%x: tensor<4x8xf32> {dynamo.requires_grad}, %w: tensor<4x8xf32> {dynamo.requires_grad})
      -> (tensor<4x8xf32>, tensor<4x8xf32>)
      attributes {dynamo.entry, dynamo.vjp = @main_vjp, dynamo.saved = 2 : i64, ATTRIBUTES
                  dynamo.outputs = [OUTPUTS, #dynamo.output<arg 0>, SAVED]} {
    %a = dynamo.mul %x, %x : tensor<4x8xf32>
    %b = dynamo.exp %w : tensor<4x8xf32>
    return %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
  }
  func.func @main_vjp(%x: tensor<4x8xf32>, %b: tensor<4x8xf32>, %ta: tensor<4x8xf32> {dynamo.tangent = 0 : i64},
                      %tb: tensor<4x8xf32> {dynamo.tangent = 1 : i64})
      -> (tensor<4x8xf32> {dynamo.gradient = 0 : i64, dynamo.reached = array<i64: 0>},
          tensor<4x8xf32> {dynamo.gradient = 1 : i64, dynamo.reached = array<i64: 1>})
      attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>]} {
    %0 = dynamo.mul %ta, %x : tensor<4x8xf32>
    %1 = dynamo.add %0, %0 : tensor<4x8xf32>
    %2 = dynamo.mul %tb, %b : tensor<4x8xf32>
    return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
  }
}
"""


def two(folder: Path, outputs: list[str], attributes: str = "dynamo.differentiable = array<i64: 0, 1>,") -> Any:
    """A graph with these outputs of `a` (`result 0`) and `b` (`result 1`)."""
    listed = ", ".join(f"#dynamo.output<{output}>" for output in outputs)
    saved = f"same {outputs.index('result 1')}" if "result 1" in outputs else "result 1"
    text = TWO.replace("OUTPUTS", listed).replace("ATTRIBUTES", attributes)
    return load(folder, text.replace("SAVED", f"#dynamo.output<{saved}>"))


def eager(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    return x * x, w.exp()


def test_an_output_that_nobody_uses(tmp_path: Path) -> None:
    graph = two(tmp_path, ["result 0", "result 1"])
    x, w = leaf(), leaf()
    a, _ = graph(x, w)
    a.sum().backward()
    assert w.grad is None
    torch.testing.assert_close(x.grad, 2 * x.detach())
    a, b = graph(x, w)
    torch.testing.assert_close(grads(b, w), grads(eager(x, w)[1], w))
    a, b = graph(x, w)
    assert grads(b, x, w, allow_unused=True)[0] is None
    a, b = graph(x, w)
    torch.testing.assert_close(grads(a * b, x, w), grads(eager(x, w)[0] * eager(x, w)[1], x, w))


def test_gradients_that_one_kernel_computes_are_told_apart(tmp_path: Path) -> None:
    # Both are computed pointwise from the same values, so one kernel computes them.
    text = TWO.replace(
        "%2 = dynamo.mul %tb, %b", "%3 = dynamo.mul %x, %b : tensor<4x8xf32>\n    %2 = dynamo.mul %tb, %3"
    )
    text = text.replace(
        "%0 = dynamo.mul %ta, %x", "%4 = dynamo.mul %x, %b : tensor<4x8xf32>\n    %0 = dynamo.mul %ta, %4"
    )
    text = text.replace("OUTPUTS", "#dynamo.output<result 0>, #dynamo.output<result 1>")
    text = text.replace("ATTRIBUTES", "dynamo.differentiable = array<i64: 0, 1>,")
    graph = load(tmp_path, text.replace("SAVED", "#dynamo.output<same 1>"))
    assert graph.report()["gradients"]["launches"] == 1
    x, w = leaf(), leaf()
    graph(x, w)[0].sum().backward()
    assert x.grad is not None and w.grad is None


def test_a_view_of_a_result(tmp_path: Path) -> None:
    graph = two(
        tmp_path,
        ["result_view 0, [8, 4], [1, 8], 0", "result 1", "result_view 1, [4, 4], [8, 2], 1"],
        "dynamo.differentiable = array<i64: 0, 1, 2>,",
    )
    x, w, scale = leaf(), leaf(), torch.randn(4, 4)
    at, b, part = graph(x, w)
    assert all(output.requires_grad for output in (at, b, part)) and part._base is b
    torch.testing.assert_close((at, part), (eager(x, w)[0].t(), eager(x, w)[1][:, 1::2]))
    expected = (eager(x, w)[0].t() * torch.ones(8, 4)).sum() + (eager(x, w)[1][:, 1::2] * scale).sum()
    torch.testing.assert_close(grads(at.sum() + (part * scale).sum(), x, w), grads(expected, x, w))
    # Written in place afterwards, as in eager.
    at, b, part = graph(x, w)
    part.mul_(2)
    message = raised(lambda: grads(b, w))
    assert "modified by an inplace operation" in message


def test_a_view_of_an_input(tmp_path: Path) -> None:
    graph = two(tmp_path, ["arg_view 0, [32], [1], 0", "result 1"])
    x, w = leaf(), leaf()
    flat, _ = graph(x, w)
    assert flat.requires_grad and flat._base is x
    torch.testing.assert_close(grads(flat, x)[0], torch.ones(4, 8))
    inner = x * 2
    flat, _ = graph(inner, w)
    flat.mul_(3)
    torch.testing.assert_close(inner, x * 6)
    torch.testing.assert_close(grads(inner, x)[0], torch.full((4, 8), 6.0))


def test_outputs_that_require_none(tmp_path: Path) -> None:
    bases = "dynamo.bases = [unit, #dynamo.base<none>, #dynamo.base<hidden 2>, unit, unit, unit],"
    graph = two(
        tmp_path,
        ["result 1", "arg_view 0, [32], [1], 0", "arg_view 0, [8, 4], [1, 8], 0", "result 0"],
        "dynamo.differentiable = array<i64: 0>," + bases,
    )
    x, w = leaf(), leaf()
    b, flat, turned, a = graph(x, w)
    assert [output.requires_grad for output in (b, flat, turned, a)] == [True, False, False, False]
    assert flat._base is None and turned._base is not None and turned._base is not x
    # Created with grad mode on, like `x.detach().t()`: values with a gradient may be written to it.
    with torch.no_grad():
        given = x.clone().requires_grad_()
    turned = graph(given, w)[2]
    turned.mul_(leaf(8, 4))
    assert turned.requires_grad


def test_a_result_that_is_detached_beside_one_that_is_not(tmp_path: Path) -> None:
    graph = two(tmp_path, ["result_view 0, [32], [1], 0", "result 1", "result 0"])
    x, w = leaf(), leaf()
    flat, _, a = graph(x, w)
    assert flat.requires_grad and not a.requires_grad and a.grad_fn is None
    assert a.data_ptr() == flat.data_ptr()
    torch.testing.assert_close(grads(flat, x)[0], 2 * x.detach())


# -- views of graphs without gradients

VIEW = """
module {
  func.func @main(%x: tensor<4x8xf32>REQUIRES) -> tensor<4x8xf32>
      attributes {dynamo.entry, WITHOUT dynamo.outputs = [#dynamo.output<OUTPUT>]} {
    %a = dynamo.mul %x, %x : tensor<4x8xf32>
    return %a : tensor<4x8xf32>
  }
}
"""


@pytest.mark.parametrize("without", [False, True])
@pytest.mark.parametrize("requires", [False, True])
@pytest.mark.parametrize("of", ["arg_view", "result_view"])
def test_views_know_whether_grad_mode_was_off(tmp_path: Path, of: str, requires: bool, without: bool) -> None:
    text = VIEW.replace("OUTPUT", f"{of} 0, [8, 4], [1, 8], 0").replace(
        "REQUIRES", " {dynamo.requires_grad}" if requires else ""
    )
    graph = load(tmp_path, text.replace("WITHOUT", "dynamo.without_grad = array<i64: 0>," if without else ""))
    x = torch.randn(4, 8, requires_grad=requires)
    (view,) = graph(x)
    # As in eager: a view created without grad mode requires a gradient if its base does.
    assert view.requires_grad == (requires and of == "arg_view") and view.grad_fn is None
    if without or (requires and of == "arg_view"):
        message = raised(lambda: view.mul_(leaf(8, 4)))
        assert "no_grad mode" in message
    else:
        view.mul_(leaf(8, 4))
        assert view.requires_grad


# -- versions and writes

# y = x * 2, whose version counter is 3 in eager; the buffer's counter is increased.
WRITES = """
module {
  func.func @main(%x: tensor<4xf32> {dynamo.requires_grad}, %n: tensor<4xf32> {dynamo.version_bumps = 2 : i64})
      -> (tensor<4xf32>, tensor<4xf32> {dynamo.mutates = 1 : i64})
      attributes {dynamo.entry, dynamo.differentiable = array<i64: 0>, dynamo.vjp = @main_vjp, dynamo.saved = 0 : i64,
                  dynamo.versions = array<i64: 3>, dynamo.outputs = [#dynamo.output<result 0>]} {
    %y = dynamo.add %x, %x : tensor<4xf32>
    %m = dynamo.add %n, %x : tensor<4xf32>
    return %y, %m : tensor<4xf32>, tensor<4xf32>
  }
  func.func @main_vjp(%t: tensor<4xf32> {dynamo.tangent = 0 : i64}) -> (tensor<4xf32> {dynamo.gradient = 0 : i64})
      attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
    %0 = dynamo.add %t, %t : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""


def test_buffers_are_written_and_counted(tmp_path: Path) -> None:
    graph = load(tmp_path, WRITES)
    x, buffer = leaf(4), torch.ones(4)
    (y,) = graph(x, buffer)
    torch.testing.assert_close(buffer, 1 + x.detach())
    assert (buffer._version, y._version, x._version) == (2, 3, 0) and not buffer.requires_grad
    # Nothing is saved, so backward can run any number of times.
    for _ in range(2):
        torch.testing.assert_close(grads(y, x)[0], torch.full((4,), 2.0))


# -- what cannot be run


def test_an_input_whose_gradient_nobody_computes_is_refused(tmp_path: Path) -> None:
    graph = load(tmp_path, WRITES)
    with pytest.raises(dynamlir._native.Unfit, match="input 1 requires a gradient, and the graph was compiled for one"):
        graph(leaf(4), leaf(4))
    with pytest.raises(dynamlir._native.Unfit, match=r"sizes \[4\] expected, \[5\] given"):
        graph(leaf(5), torch.ones(4))
    with torch.no_grad():
        graph(leaf(4), leaf(4))


# The gradient uses an operator that refuses matrices that are not positive definite.
FAILS = """
module {
  func.func @main(%x: tensor<2x2xf32> {dynamo.requires_grad}) -> tensor<2x2xf32>
      attributes {dynamo.entry, dynamo.differentiable = array<i64: 0>, dynamo.vjp = @main_vjp, dynamo.saved = 0 : i64,
                  dynamo.outputs = [#dynamo.output<result 0>]} {
    %y = dynamo.neg %x : tensor<2x2xf32>
    return %y : tensor<2x2xf32>
  }
  func.func @main_vjp(%t: tensor<2x2xf32> {dynamo.tangent = 0 : i64}) -> (tensor<2x2xf32> {dynamo.gradient = 0 : i64})
      attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
    %0 = dynamo.aten "aten.linalg_cholesky.default"(%t) args [#dynamo.operand<0>, false]
           {operand_strides = [array<i64: 2, 1>], result_strides = [array<i64: 2, 1>]}
           : (tensor<2x2xf32>) -> tensor<2x2xf32> loc("model.py":12:0)
    return %0 : tensor<2x2xf32>
  }
}
"""


def test_an_error_in_the_gradients_is_raised_with_its_line(tmp_path: Path) -> None:
    graph, x = load(tmp_path, FAILS), leaf(2, 2)
    (y,) = graph(x)
    message = raised(lambda: grads(y, x, tangent=-torch.eye(2)))
    assert "not positive-definite" in message and "(in aten.linalg_cholesky.default at model.py:12)" in message
    torch.testing.assert_close(grads(graph(x)[0], x, tangent=4 * torch.eye(2))[0], 2 * torch.eye(2))


def test_tangents_with_operations_of_their_own_are_refused(tmp_path: Path) -> None:
    graph, x = load(tmp_path, WRITES), leaf(4)
    (y,) = graph(x, torch.ones(4))
    tangent = TwoTensor(torch.ones(4), torch.ones(4))
    assert "a gradient of a compiled graph is a TwoTensor" in raised(lambda: grads(y, x, tangent=tangent))


# -- texts that are not a graph with its gradients

REFUSED = {
    "no gradients": (
        TWO.replace("dynamo.vjp = @main_vjp, dynamo.saved = 2 : i64,", ""),
        r"@main: output 0 requires a gradient, and no dynamo\.vjp computes it",
    ),
    "no entry": (
        TWO.replace("@main_vjp, ", "@other, ").replace(
            "  func.func @main_vjp",
            "  func.func private @other(tensor<4x8xf32>, tensor<4x8xf32>)\n  func.func @main_vjp",
        ),
        r"@main: @other is no entry",
    ),
    "a view is saved": (
        TWO.replace("#dynamo.output<arg 0>, SAVED", "#dynamo.output<arg_view 0, [4, 8], [8, 1], 0>, SAVED"),
        r"output 1 is saved, and is neither a result nor an argument",
    ),
    "another size": (
        TWO.replace("%b: tensor<4x8xf32>,", "%c: tensor<8x4xf32>,").replace(
            "%0 = dynamo.mul %ta",
            "%b = dynamo.reshape %c : tensor<8x4xf32> -> tensor<4x8xf32>\n    %0 = dynamo.mul %ta",
        ),
        r"saved value 1 has the sizes \[4, 8\], not the \[8, 4\] of argument 1 of @main_vjp",
    ),
    "a tangent of nothing": (
        TWO.replace("dynamo.tangent = 1", "dynamo.tangent = 2"),
        r"argument 3 of @main_vjp is the tangent of result 2, which does not exist",
    ),
    "a gradient of nothing": (
        TWO.replace("dynamo.gradient = 1", "dynamo.gradient = 2"),
        r"result 1 of @main_vjp is the gradient of argument 2, which does not exist",
    ),
    "two gradients of one argument": (
        TWO.replace("dynamo.gradient = 1", "dynamo.gradient = 0"),
        r"@main_vjp has two gradients of argument 0",
    ),
    "no gradient": (
        TWO.replace("{dynamo.gradient = 1 : i64, dynamo.reached = array<i64: 1>}", ""),
        r"not all of its results are gradients",
    ),
    "what is written is saved": (
        WRITES.replace("dynamo.saved = 0", "dynamo.saved = 1")
        .replace(
            "[#dynamo.output<result 0>]} {\n    %y", "[#dynamo.output<result 0>, #dynamo.output<arg 1>]} {\n    %y"
        )
        .replace("@main_vjp(", "@main_vjp(%n: tensor<4xf32>, "),
        r"saved value 0 is argument 1, which is written",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_belong_together_is_told(name: str, tmp_path: Path) -> None:
    text, message = REFUSED[name]
    for placeholder, value in {
        "OUTPUTS": "#dynamo.output<result 0>",
        "SAVED": "#dynamo.output<result 1>",
        "ATTRIBUTES": "dynamo.differentiable = array<i64: 0>,",
    }.items():
        text = text.replace(placeholder, value)
    path = tmp_path / "02-prims.mlir"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        dynamlir.load(path)
