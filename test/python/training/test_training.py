"""Training through both front doors: results, gradients, and everything that autograd guarantees, as in eager."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from both import DOORS, check_both
from gradients import tangent
from torch import Tensor, nn
from torch.nn import functional as F


def leaf(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*sizes, dtype=dtype).requires_grad_()


@pytest.fixture(params=list(DOORS))
def door(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Each front door, with nothing compiled."""
    torch._dynamo.reset()
    dynamlir.reset()
    return DOORS[request.param]


def compiled_only() -> None:
    """Checks that nothing ran as plain Python."""
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()


# -- values

PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "a chain": (lambda x: x.sin().exp() * x, lambda: (leaf(3, 4),)),
    "broadcasting": (lambda x, y: x * y + y, lambda: (leaf(3, 4), leaf(4))),
    "a number": (lambda x: x * 2 + 1, lambda: (leaf(3),)),
    "promotion": (lambda x, y: x * y, lambda: (leaf(3), leaf(3, dtype=torch.float64))),
    "integers beside": (lambda x, n: x[n] * n.sum(), lambda: (leaf(5), torch.tensor([0, 3, 3]))),
    "bools": (lambda x: torch.where(x > 0, x, x.exp()), lambda: (leaf(9),)),
    "a product": (lambda x, w, b: F.linear(x, w, b), lambda: (leaf(2, 3), leaf(4, 3), leaf(4))),
    "batches of products": (lambda x, y: x @ y.transpose(1, 2), lambda: (leaf(2, 3, 4), leaf(2, 5, 4))),
    "reductions": (lambda x: x.sum(0) + x.mean(0) + x.amax(0) + x.var(0), lambda: (leaf(4, 3),)),
    "softmax": (lambda x: F.log_softmax(x, -1).exp() + x.softmax(0), lambda: (leaf(3, 5),)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (5,), w, b), lambda: (leaf(3, 5), leaf(5), leaf(5))),
    "a loss": (lambda x, t: F.cross_entropy(x, t), lambda: (leaf(3, 5), torch.tensor([1, 0, 4]))),
    "an embedding": (lambda t, w: F.embedding(t, w, 1), lambda: (torch.tensor([[1, 2], [2, 0]]), leaf(4, 3))),
    "a convolution": (lambda x, w: F.conv2d(x, w, padding=1).relu(), lambda: (leaf(1, 2, 5, 5), leaf(3, 2, 3, 3))),
    "pooling": (lambda x: F.max_pool2d(x, 2) + F.avg_pool2d(x, 2), lambda: (leaf(1, 2, 4, 4),)),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda: (leaf(1, 2, 5, 4), leaf(1, 2, 5, 4), leaf(1, 2, 5, 4)),
    ),
    "indexing": (lambda x, i: x[i, :2] + x[:, 1:][i], lambda: (leaf(4, 3), torch.tensor([3, 0, 3]))),
    "views of views": (
        lambda x: x.view(6, 2).t()[1:].reshape(3, 2).unsqueeze(0).expand(2, 3, 2),
        lambda: (leaf(3, 4),),
    ),
    "writes to a value": (lambda x: (x * 2).add_(1).mul_(x), lambda: (leaf(3),)),
    "writes to a view": (lambda x: _write_row(x), lambda: (leaf(3, 4),)),
    "several results": (lambda x: (x * 2, x.sin(), (x * 3).detach()), lambda: (leaf(3),)),
    "an input that is not used": (lambda x, y: x * 2, lambda: (leaf(3), leaf(3))),
    "a result without a gradient": (lambda x: (x * 2, x.argmax()), lambda: (leaf(3),)),
    "detach": (lambda x: x * x.detach() + (x * 2).detach(), lambda: (leaf(3),)),
    "views as results": (lambda x: ((x * 2).view(2, 3), (x * 2)[1:]), lambda: (leaf(6),)),
    "a view of an input": (lambda x: (x.view(2, 3), x * 2), lambda: (leaf(6),)),
    "a value and its view": (lambda x: _value_and_view(x), lambda: (leaf(6),)),
    "the input itself": (lambda x: (x, x * 2), lambda: (leaf(3),)),
    "the same twice": (lambda x: _twice(x), lambda: (leaf(3),)),
    "an input given twice": (lambda x, y: x * y, lambda: (lambda x: (x, x))(leaf(3))),
    "not contiguous": (lambda x: x.exp().sum(0), lambda: (torch.randn(4, 3).t().requires_grad_(),)),
    "not a leaf": (lambda x: x.exp(), lambda: (leaf(3),)),
    "bfloat16": (lambda x, w: x @ w, lambda: (leaf(3, 4, dtype=torch.bfloat16), leaf(4, 2, dtype=torch.bfloat16))),
    "cumulative": (lambda x: x.cumsum(0) + x.cumprod(1), lambda: (leaf(3, 4),)),
    "sorted": (lambda x: x.sort(0).values[0] + x.topk(2, 0).values[1], lambda: (leaf(3, 4),)),
    "put together": (lambda x, y: torch.cat([x, y, x * 2], 1).chunk(3, 1), lambda: (leaf(2, 3), leaf(2, 3))),
    "padding": (lambda x: F.pad(x, (1, 2)) + F.pad(x, (1, 2), mode="reflect"), lambda: (leaf(2, 5),)),
    "a library's": (lambda x: torch.linalg.solve(x @ x.T + torch.eye(3), x), lambda: (leaf(3, 3),)),
    "a scatter": (
        lambda x, i, s: x.scatter_add(0, i, s) + x.index_add(0, i[:, 0], s),
        lambda: (leaf(4, 2), torch.tensor([[0, 1], [3, 3]]), leaf(2, 2)),
    ),
}


def _write_row(x: Tensor) -> Tensor:
    y = x * 1
    y[1].mul_(3)
    y[:, 0] = 5
    return y * x


def _value_and_view(x: Tensor) -> Any:
    y = x * 2
    return y, y.view(2, 3), y[2:]


def _twice(x: Tensor) -> Any:
    y = x * 2
    return y, y


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_eagers(name: str) -> None:
    function, make = PROGRAMS[name]
    torch.manual_seed(0)
    check_both(function, *make(), gradients=True)


def test_grad_mode_off_in_a_part() -> None:
    def function(x: Tensor) -> Any:
        y = x * 2
        with torch.no_grad():
            z = y * 3
            v = y.view(-1)
        return y + z, z, v

    check_both(function, leaf(2, 3), gradients=True)


def test_grad_mode_on_within_no_grad() -> None:
    def function(x: Tensor) -> Tensor:
        with torch.no_grad():
            a = x * 2
            with torch.enable_grad():
                b = x * 3
        return a + b

    check_both(function, leaf(3), gradients=True)


# -- modules


def networks() -> dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]]:
    image = (1, 3, 8, 8)
    return {
        "mlp": lambda: (nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)), (torch.randn(3, 4),)),
        "batch norm": lambda: (
            nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
            (torch.randn(image),),
        ),
        "encoder": lambda: (
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
            (torch.randn(2, 5, 8),),
        ),
        "recurrent": lambda: (nn.LSTMCell(3, 4), (torch.randn(2, 3),)),
    }


@pytest.mark.parametrize("name", networks())
def test_parameters_and_buffers_after_steps(name: str, door: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    eager, inputs = networks()[name]()
    ours = copy.deepcopy(eager)
    compiled = door(ours)
    optimizers = [torch.optim.SGD(module.parameters(), 0.1) for module in (eager, ours)]
    for _ in range(3):
        for call, optimizer in zip((eager, compiled), optimizers):
            optimizer.zero_grad()
            result = call(*inputs)
            result = result[0] if isinstance(result, tuple) else result
            (result * tangent(result, 0)).sum().backward()
        for (where, left), right in zip(eager.named_parameters(), ours.parameters()):
            torch.testing.assert_close(right.grad, left.grad, msg=lambda text, where=where: f"{where}: {text}")
            assert left.grad is None or right.grad.stride() == right.stride()
        for left, right in zip(eager.buffers(), ours.buffers()):
            torch.testing.assert_close(right, left)
        for optimizer in optimizers:
            optimizer.step()
    compiled_only()


# -- what autograd guarantees


def simple(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).exp()


def test_backward_twice_has_eagers_words(door: Callable[..., Any]) -> None:
    loss = door(simple)(leaf(2, 3), leaf(3, 2)).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        loss.backward()
    compiled_only()


def test_retain_graph_accumulates(door: Callable[..., Any]) -> None:
    x, w = leaf(2, 3), leaf(3, 2)
    loss = door(simple)(x, w).sum()
    loss.backward(retain_graph=True)
    once = x.grad.clone()
    loss.backward()
    torch.testing.assert_close(x.grad, 2 * once)


def test_a_saved_tensor_that_is_written_has_eagers_words(door: Callable[..., Any]) -> None:
    x, w = leaf(2, 3), torch.randn(3, 2)
    result = door(simple)(x, w)
    w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_grad_with_respect_to_some(door: Callable[..., Any]) -> None:
    x, w = leaf(2, 3), leaf(3, 2)
    (found,) = torch.autograd.grad(door(simple)(x, w).sum(), [w])
    (wanted,) = torch.autograd.grad(simple(x, w).sum(), [w])
    torch.testing.assert_close(found, wanted)
    assert x.grad is None


def test_hooks(door: Callable[..., Any]) -> None:
    x, w = leaf(2, 3), leaf(3, 2)
    wanted = torch.autograd.grad(simple(x, w).sum(), [x])[0]
    seen: list[str] = []
    x.register_hook(lambda gradient: seen.append("x") or gradient * 2)
    w.register_post_accumulate_grad_hook(lambda tensor: seen.append("w"))
    result = door(simple)(x, w)
    result.register_hook(lambda gradient: seen.append("result"))
    result.sum().backward()
    torch.testing.assert_close(x.grad, 2 * wanted)
    assert seen[0] == "result" and sorted(seen) == ["result", "w", "x"]


def test_saved_tensors_hooks_see_what_is_saved(door: Callable[..., Any]) -> None:
    packed: list[Tensor] = []

    def pack(tensor: Tensor) -> int:
        packed.append(tensor)
        return len(packed) - 1

    x, w = leaf(2, 3), leaf(3, 2)
    function = door(simple)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda at: packed[at]):
        result = function(x, w)
    assert packed
    result.sum().backward()
    torch.testing.assert_close(x.grad, torch.autograd.grad(simple(x, w).sum(), [x])[0])


def test_requires_grad_that_changes_between_calls(door: Callable[..., Any]) -> None:
    function = door(simple)
    x, w = torch.randn(2, 3), leaf(3, 2)
    for x_wants, w_wants in ((False, True), (True, True), (True, False), (False, False), (False, True)):
        x.requires_grad_(x_wants)
        w.requires_grad_(w_wants)
        result, wanted = function(x, w), simple(x, w)
        assert result.requires_grad == wanted.requires_grad
        leaves = [tensor for tensor in (x, w) if tensor.requires_grad]
        if leaves:
            for ours, theirs in zip(*(torch.autograd.grad(found.sum(), leaves) for found in (result, wanted))):
                torch.testing.assert_close(ours, theirs)
    compiled_only()


def test_with_and_without_grad_mode(door: Callable[..., Any]) -> None:
    function = door(simple)
    x, w = leaf(2, 3), leaf(3, 2)
    for enabled in (True, False, True):
        with torch.set_grad_enabled(enabled):
            assert function(x, w).requires_grad == enabled
    with torch.inference_mode():
        assert not function(x, w).requires_grad
    compiled_only()


def test_nothing_is_kept_after_backward(door: Callable[..., Any]) -> None:
    function = door(simple)
    x, w = leaf(2, 3), leaf(3, 2)
    function(x, w).sum().backward()
    gone = leaf(2, 3)
    watched = weakref.ref(gone)
    result = function(gone, w)
    del gone
    assert watched() is not None
    result.sum().backward()
    del result
    gc.collect()
    assert watched() is None


def test_nothing_is_kept_without_backward(door: Callable[..., Any]) -> None:
    function = door(simple)
    x, w = leaf(2, 3), leaf(3, 2)
    watched = weakref.ref(x)
    result = function(x, w)
    del x, result
    gc.collect()
    assert watched() is None


def test_an_exception_in_a_hook_is_passed_on(door: Callable[..., Any]) -> None:
    def fail(gradient: Tensor) -> None:
        raise ValueError("from the hook")

    x, w = leaf(2, 3), leaf(3, 2)
    function = door(simple)
    result = function(x, w)
    result.register_hook(fail)
    with pytest.raises(ValueError, match="from the hook"):
        result.sum().backward()
    assert x.grad is None
    function(x, w).sum().backward()
    assert x.grad is not None


def test_threads(door: Callable[..., Any]) -> None:
    function = door(simple)
    w = leaf(3, 2)
    function(leaf(2, 3), w).sum().backward()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(50):
                x = leaf(2, 3)
                found = torch.autograd.grad(function(x, w).sum(), [x])[0]
                torch.testing.assert_close(found, torch.autograd.grad(simple(x, w).sum(), [x])[0])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_anomaly_mode(door: Callable[..., Any]) -> None:
    function = door(lambda x: x.sqrt().sum())
    x = torch.zeros(3).requires_grad_()
    with torch.autograd.detect_anomaly(check_nan=True):
        function(x).backward()
    assert torch.isinf(x.grad).all()


def test_a_leaf_that_is_written_raises_as_in_eager(door: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        door(lambda x: x.mul_(2))(leaf(3))


def test_a_view_of_a_leaf_that_is_written_raises_as_in_eager(door: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        door(lambda x: x[0].mul_(2))(leaf(3))


def test_results_may_be_written(door: Callable[..., Any]) -> None:
    x, w = leaf(2, 3), leaf(3, 2)
    found, wanted = ((function(x, w) * 1).mul_(2) for function in (door(simple), simple))
    for ours, theirs in zip(*(torch.autograd.grad(result.sum(), [x, w]) for result in (found, wanted))):
        torch.testing.assert_close(ours, theirs)
