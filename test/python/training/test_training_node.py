"""The autograd node of a training graph: a text with two entries, the graph and its gradients, against eager."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch
import torch.utils.checkpoint
from torch import Tensor

# y = sin(x) * w. Saved: x, which is an argument, cos(x), which is not an output, and w.
SINE = """
module {
  func.func @main(%x: tensor<4x8xf32> {dynamo.requires_grad}, %w: tensor<4x8xf32> {dynamo.requires_grad})
      -> (tensor<4x8xf32>, tensor<4x8xf32>)
      attributes {dynamo.entry, dynamo.differentiable = array<i64: 0>, dynamo.vjp = @main_vjp, dynamo.saved = 3 : i64,
                  dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>, #dynamo.output<arg 0>,
                                    #dynamo.output<arg 1>]} {
    %sin = dynamo.sin %x : tensor<4x8xf32>
    %cos = dynamo.cos %x : tensor<4x8xf32>
    %y = dynamo.mul %sin, %w : tensor<4x8xf32>
    return %y, %cos : tensor<4x8xf32>, tensor<4x8xf32>
  }
  func.func @main_vjp(%cos: tensor<4x8xf32>, %x: tensor<4x8xf32>, %w: tensor<4x8xf32>,
                      %t: tensor<4x8xf32> {dynamo.tangent = 0 : i64})
      -> (tensor<4x8xf32> {dynamo.gradient = 0 : i64}, tensor<4x8xf32> {dynamo.gradient = 1 : i64})
      attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>]} {
    %0 = dynamo.mul %t, %w : tensor<4x8xf32>
    %gx = dynamo.mul %0, %cos : tensor<4x8xf32>
    %sin = dynamo.sin %x : tensor<4x8xf32>
    %gw = dynamo.mul %t, %sin : tensor<4x8xf32>
    return %gx, %gw : tensor<4x8xf32>, tensor<4x8xf32>
  }
}
"""

# e = exp(x), whose gradient is computed from e: the output itself is saved.
EXP = """
module {
  func.func @main(%x: tensor<4x8xf32> {dynamo.requires_grad}) -> tensor<4x8xf32>
      attributes {dynamo.entry, dynamo.differentiable = array<i64: 0>, dynamo.vjp = @main_vjp, dynamo.saved = 1 : i64,
                  dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<same 0>]} {
    %y = dynamo.exp %x : tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }
  func.func @main_vjp(%y: tensor<4x8xf32>, %t: tensor<4x8xf32> {dynamo.tangent = 0 : i64})
      -> (tensor<4x8xf32> {dynamo.gradient = 0 : i64})
      attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
    %0 = dynamo.mul %t, %y : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}
"""


def load(folder: Path, text: str) -> Any:
    path = folder / "02-prims.mlir"
    path.write_text(text)
    return dynamlir.load(path)


@pytest.fixture
def sine(tmp_path: Path) -> Any:
    return load(tmp_path, SINE)


@pytest.fixture
def exp(tmp_path: Path) -> Any:
    return load(tmp_path, EXP)


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape or (4, 8), requires_grad=True)


def eager_sine(x: Tensor, w: Tensor) -> Tensor:
    return torch.sin(x) * w


def grads(y: Tensor, *inputs: Tensor, tangent: Tensor | None = None, **options: Any) -> tuple[Any, ...]:
    return torch.autograd.grad(y, inputs, torch.ones_like(y) if tangent is None else tangent, **options)


def raised(function: Callable[[], Any]) -> str:
    with pytest.raises(RuntimeError) as caught:
        function()
    return str(caught.value)


# -- gradients


def test_gradients_are_right(sine: Any) -> None:
    x, w, tangent = leaf(), leaf(), torch.randn(4, 8)
    (y,) = sine(x, w)
    expected = eager_sine(x, w)
    assert y.requires_grad and not y.is_leaf and y.grad_fn.name() == "DynamlirBackward"
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(grads(y, x, w, tangent=tangent), grads(expected, x, w, tangent=tangent))


def test_leaves_accumulate(sine: Any) -> None:
    x, w = leaf(), leaf()
    for _ in range(2):
        sine(x, w)[0].sum().backward()
    expected = [2 * gradient for gradient in grads(eager_sine(x, w), x, w)]
    torch.testing.assert_close([x.grad, w.grad], expected)


def test_inputs_may_be_computed(sine: Any) -> None:
    x, w = leaf(), leaf()
    (y,) = sine(x * 2, w.exp())
    torch.testing.assert_close(grads(y.tanh(), x, w), grads(eager_sine(x * 2, w.exp()).tanh(), x, w))


def test_one_tensor_twice(sine: Any) -> None:
    x = leaf()
    torch.testing.assert_close(grads(sine(x, x)[0], x), grads(eager_sine(x, x), x))


def test_a_part_of_the_gradients(sine: Any) -> None:
    x, w = leaf(), leaf()
    torch.testing.assert_close(grads(sine(x, w)[0], w), grads(eager_sine(x, w), w))
    x.requires_grad_(False)
    torch.testing.assert_close(grads(sine(x, w)[0], w), grads(eager_sine(x, w), w))


def test_without_gradients_it_is_the_graph_alone(sine: Any) -> None:
    x, w = leaf(), leaf()
    with torch.no_grad():
        (y,) = sine(x, w)
    assert not y.requires_grad and y.grad_fn is None
    (y,) = sine(x.detach(), w.detach())
    assert not y.requires_grad and y.grad_fn is None
    with torch.inference_mode():
        assert not sine(x, w)[0].requires_grad


def test_tangents_in_any_layout(sine: Any) -> None:
    x, w = leaf(), leaf()
    for tangent in (
        torch.ones(()).expand(4, 8),
        torch.randn(8).expand(4, 8),
        torch.randn(8, 4).t(),
        torch.randn(8, 16)[::2, ::2],
        torch._neg_view(torch.randn(4, 8)),
    ):
        torch.testing.assert_close(
            grads(sine(x, w)[0], x, w, tangent=tangent), grads(eager_sine(x, w), x, w, tangent=tangent)
        )


def test_wrong_tangents_are_torchs_errors(sine: Any) -> None:
    x, w = leaf(), leaf()
    wrong = torch.randn(3)
    expected = raised(lambda: grads(eager_sine(x, w), x, tangent=wrong))
    assert raised(lambda: grads(sine(x, w)[0], x, tangent=wrong)) == expected


def test_only_the_first_gradients_of_later_stages_are_known(sine: Any) -> None:
    x, w = leaf(), leaf()
    message = raised(lambda: grads(sine(x, w)[0], x, create_graph=True))
    assert "trying to differentiate twice a graph that was loaded from a text after stage 00" in message


def addresses(gradients: Any) -> list[int]:
    return [gradient.data_ptr() for gradient in gradients if gradient is not None]


def test_a_gradient_is_the_tensor_that_was_computed(sine: Any) -> None:
    x, w = leaf(), leaf()
    computed: list[int] = []
    (y,) = sine(x, w)
    y.grad_fn.register_hook(lambda inputs, outputs: computed.extend(addresses(inputs)))
    y.sum().backward()
    assert x.grad is not None and w.grad is not None
    assert sorted([x.grad.data_ptr(), w.grad.data_ptr()]) == sorted(computed)


def test_gradients_have_the_layout_of_the_argument(tmp_path: Path) -> None:
    column = "{dynamo.requires_grad, dynamo.strides = array<i64: 1, 4>, dynamo.offset = 0 : i64}"
    gradient = "{dynamo.gradient = 1 : i64, dynamo.strides = array<i64: 1, 4>}"
    text = SINE.replace("%w: tensor<4x8xf32> {dynamo.requires_grad}", f"%w: tensor<4x8xf32> {column}")
    text = text.replace("{dynamo.gradient = 1 : i64}", gradient).replace(
        "%w: tensor<4x8xf32>,", "%w: tensor<4x8xf32> {dynamo.strides = array<i64: 1, 4>, dynamo.offset = 0 : i64},"
    )
    graph = load(tmp_path, text)
    x, w = leaf(), torch.randn(8, 4).t().requires_grad_()
    (y,) = graph(x, w)
    computed: list[int] = []
    y.grad_fn.register_hook(lambda inputs, outputs: computed.extend(addresses(inputs)))
    y.sum().backward()
    assert w.grad is not None and w.grad.stride() == (1, 4) and w.grad.data_ptr() in computed
    torch.testing.assert_close(w.grad, torch.sin(x))


# -- what autograd guarantees


def test_twice_needs_a_retained_graph(sine: Any, exp: Any) -> None:
    x, w = leaf(), leaf()
    for graph, plain, inputs in ((sine, eager_sine, (x, w)), (exp, torch.exp, (x,))):
        (y,), expected = graph(*inputs), plain(*inputs)
        first = grads(y, *inputs, retain_graph=True)
        torch.testing.assert_close(grads(y, *inputs, retain_graph=True), first)
        torch.testing.assert_close(grads(y, *inputs), grads(expected, *inputs))
        assert raised(lambda y=y, inputs=inputs: grads(y, *inputs)) == raised(
            lambda expected=expected, inputs=inputs: grads(expected, *inputs)
        )


def test_what_is_saved_must_not_be_written(sine: Any, exp: Any) -> None:
    x, w = leaf(), leaf()
    (y,), expected = sine(x, w), eager_sine(x, w)
    with torch.no_grad():
        w.add_(1)
    for result in (y, expected):
        assert "[torch.FloatTensor [4, 8]] is at version 1; expected version 0 instead" in raised(
            lambda result=result: grads(result, x)
        )
    (y,), expected = exp(x), torch.exp(x)
    words = []
    for result in (y, expected):
        with torch.no_grad():
            result.add_(1)
        words.append(raised(lambda result=result: grads(result, x)))
    assert words[0] == words[1].replace("of Exp,", "of Dynamlir,")


def test_what_is_not_saved_may_be_written(exp: Any) -> None:
    x = leaf()
    (y,) = exp(x)
    expected = y.detach().clone()
    with torch.no_grad():
        x.add_(1)
    torch.testing.assert_close(grads(y, x)[0], expected)


def test_hooks(sine: Any) -> None:
    x, w, seen = leaf(), leaf(), []
    x.register_hook(lambda gradient: gradient * 2)
    w.register_post_accumulate_grad_hook(lambda tensor: seen.append(tensor.grad.clone()))
    (y,) = sine(x, w)
    y.register_hook(lambda tangent: tangent * 3)
    y.grad_fn.register_prehook(lambda tangents: seen.append(tangents[0]))
    y.retain_grad()
    y.sum().backward()
    expected = grads(eager_sine(x.detach().requires_grad_(), w), w, tangent=torch.full((4, 8), 3.0))
    torch.testing.assert_close(seen[1], expected[0])
    torch.testing.assert_close(x.grad, 6 * w.detach() * x.detach().cos())
    assert y.grad is not None and torch.equal(y.grad, torch.full((4, 8), 3.0))


def test_hooks_on_saved_tensors(sine: Any) -> None:
    x, w = leaf(), leaf()
    packed: list[Tensor] = []
    unpacked: list[int] = []

    def pack(tensor: Tensor) -> int:
        packed.append(tensor.detach().clone())
        return len(packed) - 1

    def unpack(number: int) -> Tensor:
        unpacked.append(number)
        return packed[number]

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        (y,) = sine(x, w)
    assert len(packed) == 3
    torch.testing.assert_close(grads(y, x, w), grads(eager_sine(x, w), x, w))
    assert unpacked == [0, 1, 2]
    # In another layout.
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().t().contiguous(), lambda t: t.t()):
        (y,) = sine(x, w)
    torch.testing.assert_close(grads(y, x, w), grads(eager_sine(x, w), x, w))
    with torch.autograd.graph.save_on_cpu():
        (y,) = sine(x, w)
    torch.testing.assert_close(grads(y, x, w), grads(eager_sine(x, w), x, w))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t.detach().double()):
        (y,) = sine(x, w)
    assert "a saved tensor has elements of f64, f32 were expected" in raised(lambda: grads(y, x))


def test_a_checkpoint_runs_it_again(sine: Any) -> None:
    x, w = leaf(), leaf()
    y = torch.utils.checkpoint.checkpoint(lambda x, w: sine(x, w)[0], x, w, use_reentrant=False)
    torch.testing.assert_close(grads(y, x, w), grads(eager_sine(x, w), x, w))


def test_anomaly_mode_names_the_node(sine: Any) -> None:
    x, w = leaf(), leaf()
    with pytest.warns(UserWarning), torch.autograd.detect_anomaly(check_nan=True):
        (y,) = sine(x, w)
        message = raised(lambda: grads(y, x, tangent=torch.full((4, 8), torch.nan)))
    assert "Function 'DynamlirBackward' returned nan values in its 0th output" in message


def test_hooks_that_raise(sine: Any) -> None:
    x, w = leaf(), leaf()

    def fails(*_: Any) -> Any:
        raise KeyError("mine")

    def nothing(tensor: Any) -> Any:
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(fails, nothing), pytest.raises(KeyError, match="mine"):
        sine(x, w)
    with hooks(nothing, fails):
        (y,) = sine(x, w)
    with pytest.raises(KeyError, match="mine"):
        grads(y, x)
    (y,) = sine(x, w)
    y.register_hook(fails)
    with pytest.raises(KeyError, match="mine"):
        grads(y, x)
    torch.testing.assert_close(grads(sine(x, w)[0], x, w), grads(eager_sine(x, w), x, w))


# -- lifetimes


def saved_alive(run: Callable[[], Any]) -> Iterator[list[bool]]:
    """Yields which of the saved tensors that only the node holds are alive, after the call and at each step."""
    alive: list[weakref.ref[Tensor]] = []

    def pack(tensor: Tensor) -> Tensor:
        copy = tensor.detach().clone()
        alive.append(weakref.ref(copy))
        return copy

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        kept = [run()]
    yield [reference() is not None for reference in alive]
    yield [reference() is not None for reference in alive]
    del kept
    yield [reference() is not None for reference in alive]


def test_what_is_saved_goes_with_the_graph(sine: Any) -> None:
    def fails(*_: Any) -> Any:
        raise KeyError

    gc.disable()
    try:
        x, w = leaf(), leaf()
        # Dropped without a backward.
        steps = saved_alive(lambda: sine(x, w))
        assert next(steps) == [True] * 3
        next(steps)
        assert next(steps) == [False] * 3
        # After a backward, with the output alive; not where the graph is retained.
        made: list[Tensor] = []
        for retain in (True, False):
            made[:] = []
            steps = saved_alive(lambda: made.append(sine(x, w)[0]))
            assert next(steps) == [True] * 3
            grads(made[0], x, retain_graph=retain)
            assert next(steps) == [retain] * 3
        # After an error in a hook.
        made[:] = []
        steps = saved_alive(lambda: made.append(sine(x, w)[0]))
        next(steps)
        made[0].register_hook(fails)
        with pytest.raises(KeyError):
            grads(made[0], x)
        made.clear()
        assert next(steps) == [False] * 3
    finally:
        gc.enable()


def test_no_input_outlives_the_call(exp: Any) -> None:
    gc.disable()
    try:
        x = leaf()
        inner = x * 2
        reference = weakref.ref(inner)
        (y,) = exp(inner)
        del inner
        assert reference() is None, "the graph keeps its output only"
        y.sum().backward()
        torch.testing.assert_close(x.grad, 2 * y.detach())
        saved = weakref.ref(y)
        del y
        assert saved() is None
    finally:
        gc.enable()


def test_an_executable_may_go_before_its_nodes(tmp_path: Path) -> None:
    graph, x, w = load(tmp_path, SINE), leaf(), leaf()
    (y,) = graph(x, w)
    del graph
    gc.collect()
    torch.testing.assert_close(grads(y, x, w), grads(eager_sine(x, w), x, w))


def test_threads(sine: Any) -> None:
    failures: list[Any] = []

    def work() -> None:
        try:
            for _ in range(50):
                x, w = leaf(), leaf()
                torch.testing.assert_close(grads(sine(x, w)[0], x, w), grads(eager_sine(x, w), x, w))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    # A graph whose forward ran in another thread.
    x, w, made = leaf(), leaf(), []
    thread = threading.Thread(target=lambda: made.append(sine(x, w)[0]))
    thread.start()
    thread.join()
    torch.testing.assert_close(grads(made[0], x, w), grads(eager_sine(x, w), x, w))


def outcome(call: Any) -> Any:
    """The result of a call, or the first line of its exception."""
    try:
        return call()
    except RuntimeError as error:
        return str(error).split("\n")[0]


def same(ours: Any, expected: Any) -> bool:
    return all(map(torch.allclose, ours, expected))


def test_a_child_of_the_process_goes_on(sine: Any) -> None:
    x, w = leaf(), leaf()
    (y,), expected = sine(x, w), grads(eager_sine(x, w), x, w)
    wanted = eager_sine(x, w)
    child = os.fork()
    if child == 0:
        # The child must never return into the test run.
        code = 1
        try:
            # If the engine already has threads, torch lets no child process compute gradients.
            eager, ours = (outcome(lambda result=result: grads(result, x, w)) for result in (wanted, y))
            code = 0 if type(eager) is type(ours) and (isinstance(eager, str) or same(ours, expected)) else 1
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    torch.testing.assert_close(grads(y, x, w), expected)


# -- reports


def test_reports_tell_of_the_gradients(tmp_path: Path) -> None:
    (tmp_path / "02-prims.mlir").write_text(SINE)
    entries = dynamlir.load_entries(tmp_path / "02-prims.mlir")
    assert list(entries) == ["main", "main_vjp"]
    report = entries["main"].report()
    assert report["saved"] == [128, 128, 128]
    assert report["gradients"]["launches"] == entries["main_vjp"].report()["launches"] > 0
    assert entries["main"].vjps == ["main_vjp"] and entries["main_vjp"].vjps == []
    x, w, tangent = leaf(), leaf(), torch.randn(4, 8)
    # Called separately, it is a graph like any other.
    with torch.no_grad():
        made = entries["main_vjp"](x.cos(), x, w, tangent)
    torch.testing.assert_close(tuple(made), grads(entries["main"](x, w)[0], x, w, tangent=tangent))
    assert not any(gradient.requires_grad for gradient in made)


def test_each_stage_trains(tmp_path: Path) -> None:
    path = tmp_path / "02-prims.mlir"
    path.write_text(SINE)
    dynamlir.load(path, dump=tmp_path / "stages")
    for stage in sorted((tmp_path / "stages").glob("*.mlir")):
        x, w = leaf(), leaf()
        torch.testing.assert_close(grads(dynamlir.load(stage)(x, w)[0], x, w), grads(eager_sine(x, w), x, w))
