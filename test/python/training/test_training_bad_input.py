"""Training with invalid input, through both doors: eager's result, or its exception with the same message."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynamlir
import forked
import pytest
import torch
from both import DOORS
from torch import Tensor, nn
from torch.testing._internal.two_tensor import TwoTensor


@pytest.fixture(params=list(DOORS))
def door(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Each front door, with nothing compiled."""
    return DOORS[request.param]


def leaf(*sizes: int, **options: Any) -> Tensor:
    return torch.randn(*sizes, requires_grad=True, **options)


def simple(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).exp()


def compiled_only() -> None:
    """Checks that something was compiled, and that nothing ran as plain Python."""
    assert dynamlir.counters()["graphs"] and not dynamlir.counters()["fallbacks"], dynamlir.explain_last()


def outcome(call: Callable[[], Any]) -> Any:
    """The result of a call, or the type and message of its exception, without the names of autograd's nodes."""
    try:
        return call()
    except Exception as error:
        return type(error), str(error).replace("DynamlirBackward", "ExpBackward0").split(" Hint:")[0]


def agree(function: Callable[..., Any], compiled: Callable[..., Any], use: Callable[[Any], Any]) -> Any:
    """Checks that the same use of either has the same outcome, twice; returns eager's."""
    wanted = outcome(lambda: use(function))
    for _ in range(2):
        found = outcome(lambda: use(compiled))
        if isinstance(wanted, tuple) and isinstance(wanted[0], type):
            assert found == wanted
        else:
            torch.testing.assert_close(found, wanted)
    return wanted


# -- tangents

TANGENTS: dict[str, Callable[[], Any]] = {
    "another shape": lambda: torch.ones(3),
    "one that would broadcast": lambda: torch.ones(1, 2),
    "more dimensions": lambda: torch.ones(1, 2, 2),
    "no elements": lambda: torch.ones(0, 2),
    "another dtype": lambda: torch.ones(2, 2, dtype=torch.float64),
    "half": lambda: torch.ones(2, 2, dtype=torch.bfloat16),
    "integers": lambda: torch.ones(2, 2, dtype=torch.int64),
    "bools": lambda: torch.ones(2, 2, dtype=torch.bool),
    "complex": lambda: torch.ones(2, 2, dtype=torch.complex64),
    "a number": lambda: 1.0,
    "none": lambda: None,
    "expanded": lambda: torch.ones(()).expand(2, 2),
    "turned": lambda: torch.randn(2, 2, generator=torch.Generator().manual_seed(3)).t(),
    "one that wants a gradient": lambda: torch.ones(2, 2, requires_grad=True),
    "compressed rows": lambda: torch.eye(2).to_sparse_csr(),
    "negated": lambda: torch._neg_view(torch.ones(2, 2)),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("name", TANGENTS)
def test_tangents(name: str, door: Callable[..., Any]) -> None:
    x, w = leaf(2, 3), leaf(3, 2)
    agree(simple, door(simple), lambda fn: torch.autograd.grad(fn(x, w), [x, w], TANGENTS[name]()))
    compiled_only()


def test_sparse_tangents(door: Callable[..., Any]) -> None:
    x, w = leaf(2, 3), leaf(3, 2)
    agree(simple, door(simple), lambda fn: torch.autograd.grad(fn(x, w), [x, w], torch.eye(2).to_sparse()))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_tangents_in_batches(door: Callable[..., Any]) -> None:
    """The tensors that `torch.vmap` passes have no memory of their own: torch runs the program on them."""
    x = torch.randn(3, dtype=torch.double, requires_grad=True)
    compiled = door(lambda x: x.sin() * x)
    wanted, found = (
        torch.autograd.grad(fn(x), x, torch.eye(3, dtype=torch.double), is_grads_batched=True)
        for fn in (lambda x: x.sin() * x, compiled)
    )
    torch.testing.assert_close(found, wanted)
    assert torch.autograd.gradcheck(compiled, (x,), check_batched_grad=True)
    rows = torch.autograd.functional.jacobian(compiled, x.detach(), vectorize=True)
    torch.testing.assert_close(rows.diagonal(), wanted[0].diagonal())
    assert {event.reason for event in dynamlir.fallbacks()} == {"subclass"}


def test_too_many_tangents_and_too_few(door: Callable[..., Any]) -> None:
    x, w = leaf(2, 3), leaf(3, 2)
    compiled, one = door(simple), torch.ones(2, 2)
    for tangents in ((one, one), ()):
        agree(simple, compiled, lambda fn, t=tangents: torch.autograd.grad([fn(x, w)], [x], t))
    compiled_only()


def test_a_hook_that_changes_the_shape(door: Callable[..., Any]) -> None:
    def use(fn: Callable[..., Any], at: int, hook: Callable[[Tensor], Tensor]) -> Any:
        x, w = torch.ones(2, 3, requires_grad=True), torch.ones(3, 2, requires_grad=True)
        result = fn(x, w)
        (x, result)[at].register_hook(hook)
        result.sum().backward()
        return x.grad

    compiled = door(simple)
    for at in (0, 1):
        for hook in (lambda g: g[:1], lambda g: g.double(), lambda g: 3):
            agree(simple, compiled, lambda fn, at=at, hook=hook: use(fn, at, hook))


def test_tangents_of_a_subclass(door: Callable[..., Any]) -> None:
    """A node's code is for torch's own tensor class: torch runs the program on others, which is counted."""
    x, w = leaf(2, 3), leaf(3, 2)
    compiled = door(simple)
    tangent = TwoTensor(torch.randn(2, 2), torch.randn(2, 2))
    wanted, found = (torch.autograd.grad(function(x, w), [x, w], tangent) for function in (simple, compiled))
    for ours, theirs in zip(found, wanted, strict=True):
        assert type(ours) is TwoTensor and not ours.requires_grad
        torch.testing.assert_close((ours.a, ours.b), (theirs.a, theirs.b))
    tangent = nn.Parameter(torch.ones(2, 2))
    agree(simple, compiled, lambda fn: torch.autograd.grad(fn(x, w), [x, w], tangent))
    assert [event.reason for event in dynamlir.fallbacks()] == ["subclass"]


# -- missing gradients


def several(x: Tensor, w: Tensor, unused: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return x.sin(), w.exp(), (x * w).detach(), (x > 0)


def test_unused_inputs(door: Callable[..., Any]) -> None:
    x, w, unused = leaf(4), leaf(4), leaf(4)
    compiled = door(several)
    for at in (0, 1):
        for options in ({}, {"allow_unused": True}, {"materialize_grads": True}):
            wanted = agree(
                several,
                compiled,
                lambda fn, at=at, options=options: (
                    [
                        "none" if g is None else g
                        for g in torch.autograd.grad(fn(x, w, unused)[at].sum(), [x, w, unused], **options)
                    ]
                    if "allow_unused" not in options
                    else [
                        g is None
                        for g in torch.autograd.grad(fn(x, w, unused)[at].sum(), [x, w, unused], allow_unused=True)
                    ]
                ),
            )
            assert (wanted[0] is RuntimeError) == (not options)
    compiled_only()


@pytest.mark.parametrize("at", [2, 3])
def test_backward_from_what_has_no_gradient(at: int, door: Callable[..., Any]) -> None:
    x, w, unused = leaf(4), leaf(4), leaf(4)
    error = agree(several, door(several), lambda fn: fn(x, w, unused)[at].sum().backward())
    assert "does not require grad" in error[1]
    compiled_only()


def test_integers_cannot_be_asked_for(door: Callable[..., Any]) -> None:
    x, n = leaf(4), torch.arange(4)
    error = agree(torch.mul, door(torch.mul), lambda fn: torch.autograd.grad(fn(x, n).sum(), [n]))
    assert "does not require grad" in error[1]


def test_a_backward_from_more_than_a_number(door: Callable[..., Any]) -> None:
    x, w = leaf(2, 3), leaf(3, 2)
    error = agree(simple, door(simple), lambda fn: fn(x, w).backward())
    assert "grad can be implicitly created only for scalar outputs" in error[1]
    compiled_only()


def test_complex_inputs(door: Callable[..., Any]) -> None:
    x, y = leaf(4, dtype=torch.complex64), leaf(4)

    def function(x: Tensor, y: Tensor) -> Tensor:
        return (x * y + x.conj() * 2).abs().sum() + (x * x).real.sum()

    agree(function, door(function), lambda fn: torch.autograd.grad(fn(x, y), [x, y]))
    error = agree(torch.mul, door(torch.mul), lambda fn: fn(x, x).sum().backward())
    assert "only for real scalar outputs" in error[1]


# -- changes between calls


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).tanh())


def frozen(layer: Layer) -> None:
    layer.first.weight.requires_grad_(False)


def thawed(layer: Layer) -> None:
    layer.first.weight.requires_grad_(True)


def all_frozen(layer: Layer) -> None:
    layer.requires_grad_(False)


def all_thawed(layer: Layer) -> None:
    layer.requires_grad_(True)


def replaced(layer: Layer) -> None:
    layer.first.weight = nn.Parameter(torch.full((4, 3), 0.25))


def replaced_by_one_that_is_frozen(layer: Layer) -> None:
    layer.second.bias = nn.Parameter(torch.ones(2), requires_grad=False)


def removed(layer: Layer) -> None:
    layer.second.bias = None


def tied(layer: Layer) -> None:
    layer.second.weight = nn.Parameter(torch.full((2, 4), 0.5))
    layer.first.bias = nn.Parameter(layer.second.weight.detach()[0].clone())


def another_module(layer: Layer) -> None:
    layer.first = nn.Linear(3, 4, bias=False)
    nn.init.constant_(layer.first.weight, 0.1)


def data_replaced(layer: Layer) -> None:
    layer.first.weight.data = torch.full((4, 3), 0.125)


CHANGES = [
    *(frozen, thawed, all_frozen, all_thawed, replaced, replaced_by_one_that_is_frozen),
    *(tied, removed, data_replaced, another_module),
]


def test_parameters_that_are_frozen_or_replaced(door: Callable[..., Any]) -> None:
    layer, x = Layer(), leaf(5, 3)
    compiled = door(layer)

    def use(fn: Callable[..., Any]) -> list[Any]:
        layer.zero_grad(set_to_none=True)
        x.grad = None
        result = fn(x)
        if result.requires_grad:
            result.square().sum().backward()
        grads = {name: p.grad for name, p in layer.named_parameters()}
        return [result.detach(), x.grad, {name: torch.zeros(()) if g is None else g for name, g in grads.items()}]

    agree(layer, compiled, use)
    for change in CHANGES:
        change(layer)
        agree(layer, compiled, use)
    compiled_only()


def test_a_parameter_that_is_replaced_goes(door: Callable[..., Any]) -> None:
    layer, x = Layer(), leaf(5, 3)
    compiled = door(layer)
    compiled(x).sum().backward()
    old = weakref.ref(layer.first.weight)
    replaced(layer)
    compiled(x).sum().backward()
    gc.collect()
    assert old() is None
    assert layer.first.weight.grad is not None


def test_modes_between_the_call_and_its_backward(door: Callable[..., Any]) -> None:
    """Grad mode during backward does not matter to eager, and inference mode is refused as in eager."""
    x, w = leaf(2, 3), leaf(3, 2)
    compiled = door(simple)

    def off(fn: Callable[..., Any]) -> Any:
        result = fn(x, w).sum()
        with torch.no_grad():
            return torch.autograd.grad(result, [x, w])

    def inference(fn: Callable[..., Any]) -> Any:
        with torch.inference_mode():
            made = fn(x, w)
        made.sum().backward()

    agree(simple, compiled, off)
    assert "does not require grad" in agree(simple, compiled, inference)[1]
    compiled_only()


def test_an_inference_tensor_cannot_be_saved(door: Callable[..., Any]) -> None:
    with torch.inference_mode():
        x = torch.ones(2, 3)
    w = leaf(3, 2)
    error = agree(simple, door(simple), lambda fn: fn(x, w).sum().backward())
    assert "Inference tensors cannot be saved for backward" in error[1]


# -- the process


def test_a_child_of_the_process_goes_on(door: Callable[..., Any]) -> None:
    x, w = leaf(2, 3), leaf(3, 2)
    compiled = door(simple)
    compiled(x, w).sum().backward()
    ours, theirs = compiled(x, w), simple(x, w)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            wanted, found = (outcome(lambda r=r: torch.autograd.grad(r.sum(), [x, w])) for r in (theirs, ours))
            again = outcome(lambda: torch.autograd.grad(compiled(x, w).sum(), [x, w]))
            if isinstance(wanted[0], type):
                same = found == wanted == again
            else:
                same = all(map(torch.allclose, found, wanted)) and all(map(torch.allclose, again, wanted))
            code = 0 if same else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    torch.testing.assert_close(torch.autograd.grad(ours.sum(), [x]), torch.autograd.grad(theirs.sum(), [x]))
    compiled_only()


STARVED = """
import gc, resource, sys
import dynamlir, torch
from both import DOORS

def function(x, w):
    return ((x * w).sin() * x).sum()

def outcome(loss, leaves):
    try:
        return torch.autograd.grad(loss, leaves, retain_graph=True)
    except RuntimeError as error:
        return type(error).__name__, str(error).split("DefaultCPUAllocator: ")[-1].split(". Error")[0]

torch.set_num_threads(1)
compiled = DOORS[sys.argv[1]](function)
x, w = torch.randn(1 << 25, requires_grad=True), torch.randn(1 << 25, requires_grad=True)
ours, theirs = compiled(x, w), function(x, w)
assert dynamlir.counters()["graphs"] and not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
# Autograd has its threads, and backward its code, which take memory as well.
for loss in (ours, theirs):
    torch.autograd.grad(loss, [x, w], retain_graph=True)
gc.collect()
pages = int(open("/proc/self/statm").read().split()[0])
unlimited = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (64 << 20), unlimited[1]))
# The 128 MiB of one gradient do not fit.
wanted, found = outcome(theirs, [x, w]), outcome(ours, [x, w])
assert "allocate 134217728 bytes" in wanted[1], wanted
assert found == wanted, (found, wanted)
resource.setrlimit(resource.RLIMIT_AS, unlimited)
gc.collect()
for found, wanted in zip(torch.autograd.grad(ours, [x, w]), torch.autograd.grad(theirs, [x, w])):
    torch.testing.assert_close(found, wanted)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from /proc")
@pytest.mark.parametrize("through", list(DOORS))
def test_out_of_memory_while_gradients_are_computed(through: str) -> None:
    """Raises eager's error with the same message; the same graph computes the gradients once there is memory."""
    here = Path(__file__).resolve().parents[1]
    path = os.pathsep.join([str(here.parents[1] / "python"), str(here)])
    done = forked.python(STARVED, through, env={**os.environ, "PYTHONPATH": path}, ignore_warnings=True)
    assert done.returncode == 0, done.stderr[-2000:]
