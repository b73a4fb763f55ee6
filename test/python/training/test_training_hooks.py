"""Hooks around training: on tensors and modules, outside and inside the compiled function, through both front doors.

No hook is ever lost: a hook registered inside runs plain, or breaks the graph, with the reason counted.
"""

from __future__ import annotations

import gc
import signal
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
import torch.utils.checkpoint
from both import DOORS
from torch import Tensor, nn


@pytest.fixture(params=list(DOORS))
def door(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Each front door, with nothing compiled."""
    return DOORS[request.param]


def compiled_only() -> None:
    """Checks that something was compiled, and that nothing ran as plain Python."""
    assert dynamlir.counters()["graphs"] and not dynamlir.counters()["fallbacks"], dynamlir.explain_last()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).tanh())


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def leaf(*sizes: int) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(1)).requires_grad_()


# -- of modules, registered before the call

MODULE_HOOKS: dict[str, Callable[[Net, list[Any]], Any]] = {
    "full backward": lambda n, seen: n.first.register_full_backward_hook(
        lambda module, inputs, outputs: seen.append([*inputs, *outputs])
    ),
    "full backward of the whole": lambda n, seen: n.register_full_backward_hook(
        lambda module, inputs, outputs: seen.append([*inputs, *outputs])
    ),
    "full backward that replaces": lambda n, seen: n.first.register_full_backward_hook(
        lambda module, inputs, outputs: (inputs[0] * 2,)
    ),
    "full backward pre": lambda n, seen: n.second.register_full_backward_pre_hook(
        lambda module, outputs: (outputs[0] * 3,)
    ),
    "full backward pre of the whole": lambda n, seen: n.register_full_backward_pre_hook(
        lambda module, outputs: (outputs[0] * 3,)
    ),
    "forward that watches": lambda n, seen: n.first.register_forward_hook(
        lambda module, inputs, output: output.register_hook(lambda gradient: seen.append(gradient)) and None
    ),
    "of a parameter": lambda n, seen: n.first.weight.register_hook(lambda gradient: gradient * 2),
    "after accumulation": lambda n, seen: n.first.weight.register_post_accumulate_grad_hook(
        lambda parameter: seen.append(parameter.grad.clone())
    ),
    "of every module": lambda n, seen: nn.modules.module.register_module_full_backward_hook(
        lambda module, inputs, outputs: seen.append(type(module).__name__)
    ),
}


def step(module: Net, call: Callable[..., Any], x: Tensor) -> list[Tensor]:
    module.zero_grad(set_to_none=True)
    x.grad = None
    call(x).square().sum().backward()
    return [x.grad, *(p.grad for p in module.parameters())]


@pytest.mark.filterwarnings("ignore:Using `torch.compile:UserWarning")
@pytest.mark.parametrize("when", ["before compiling", "between calls"])
@pytest.mark.parametrize("name", MODULE_HOOKS)
def test_hooks_of_modules(name: str, when: str, door: Callable[..., Any]) -> None:
    if (name, when) == ("of every module", "between calls") and door is DOORS["torch.compile"]:
        pytest.skip("Dynamo has no guard on the hooks of all modules")

    def runs(make: Callable[[Net], Any]) -> list[Any]:
        module, x, seen = net(), leaf(5, 3), []
        found: list[Any] = []
        if when == "between calls":
            call = make(module)
            found.append(step(module, call, x))
        handle = MODULE_HOOKS[name](module, seen)
        if when == "before compiling":
            call = make(module)
        for _ in range(2):
            found.append(step(module, call, x))
        handle.remove()
        found.append(step(module, call, x))
        return [found, seen]

    # Without this, torch.compile does not guard against hooks added to a module after compilation.
    with torch._dynamo.config.patch(skip_nnmodule_hook_guards=False):
        (found, seen), (wanted, watched) = runs(door), runs(lambda module: module)
    torch.testing.assert_close(found, wanted)
    if name == "of every module":
        # torch.compile wraps the module in one of its own, whose hooks also run.
        assert [kind for kind in seen if kind != "OptimizedModule"] == watched
    else:
        torch.testing.assert_close(seen, watched)


@pytest.mark.parametrize("at", ["module", "pre", "input", "parameter", "result"])
def test_hooks_that_raise_leave_nothing(at: str, door: Callable[..., Any]) -> None:
    def fail(*_: Any) -> Any:
        raise KeyError("mine")

    module, x = net(), leaf(5, 3)
    call = door(module)
    step(module, call, x)

    def once() -> weakref.ref[Tensor]:
        inner = x * 2
        result = call(inner)
        handle = {
            "module": lambda: module.register_full_backward_hook(fail),
            "pre": lambda: module.register_full_backward_pre_hook(fail),
            "input": lambda: inner.register_hook(fail),
            "parameter": lambda: module.first.weight.register_hook(fail),
            "result": lambda: result.register_hook(fail),
        }[at]()
        if at in ("module", "pre"):
            result = call(inner)
        with pytest.raises(KeyError, match="mine"):
            result.sum().backward()
        handle.remove()
        return weakref.ref(inner)

    watched = once()
    gc.collect()
    assert watched() is None
    torch.testing.assert_close(step(module, call, x), step(module, module, x))


# -- of tensors, registered inside


def doubled(gradient: Tensor) -> Tensor:
    return gradient * 2


def of_an_intermediate(x: Tensor) -> Tensor:
    y = x.sin()
    y.register_hook(doubled)
    return y.exp()


def of_an_intermediate_by_a_closure(x: Tensor) -> Tensor:
    y, factor = x.sin(), 3
    y.register_hook(lambda gradient: gradient * factor)
    return y.exp()


def of_an_input(x: Tensor) -> Tensor:
    handle = x.register_hook(doubled)
    y = x.sin()
    handle.remove()
    return y


def of_an_input_that_stays(x: Tensor) -> Tensor:
    x = x * 1
    x.register_hook(doubled)
    return x.sin()


def of_the_result(x: Tensor) -> Tensor:
    y = x.sin()
    y.register_hook(doubled)
    return y


def removed_again(x: Tensor) -> Tensor:
    y = x.sin()
    y.register_hook(doubled).remove()
    return y.exp()


def of_the_node(x: Tensor) -> Tensor:
    y = x.sin()
    assert y.grad_fn is not None
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 2,))
    return y.exp()


def before_the_node(x: Tensor) -> Tensor:
    y = x.sin()
    assert y.grad_fn is not None
    y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 2,))
    return y.exp()


def of_several(x: Tensor) -> Tensor:
    y, z = x.sin(), x.cos()
    torch.autograd.graph.register_multi_grad_hook([y, z], lambda gradients: None)
    y.register_hook(doubled)
    return y * z


def saved_by_hooks(x: Tensor) -> Tensor:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        return x.exp().exp()


def offloaded(x: Tensor) -> Tensor:
    with torch.autograd.graph.save_on_cpu():
        return x.exp().exp()


def node_order(x: Tensor) -> Tensor:
    y = x.sin()
    assert y.grad_fn is not None
    return y * (2 if y.grad_fn.name() == "SinBackward0" else 3)


INSIDE = [
    *(of_an_intermediate, of_an_intermediate_by_a_closure, of_an_input, of_an_input_that_stays, of_the_result),
    *(removed_again, of_the_node, before_the_node, of_several, saved_by_hooks, offloaded, node_order),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", INSIDE, ids=lambda f: f.__name__)
def test_hooks_registered_inside(function: Callable[..., Any], door: Callable[..., Any]) -> None:
    if function is removed_again and door is DOORS["torch.compile"]:
        pytest.skip("Dynamo fails at it, whatever the backend")
    compiled = door(function)
    for seed in range(3):
        x = torch.randn(4, generator=torch.Generator().manual_seed(seed)).requires_grad_()
        found, wanted = compiled(x), function(x)
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(
            torch.autograd.grad(found.square().sum(), x), torch.autograd.grad(wanted.square().sum(), x)
        )
    if door is DOORS["dynamlir.compile"]:
        # TorchDynamo reports its own graph breaks.
        assert dynamlir.counters()["fallbacks"], "nobody was told"


def retained(x: Tensor, kept: list[Tensor]) -> Tensor:
    y = x.sin()
    y.retain_grad()
    kept.append(y)
    return y.exp()


def accumulated(x: Tensor, kept: list[Tensor]) -> Tensor:
    x.register_post_accumulate_grad_hook(lambda tensor: kept.append(tensor.grad.clone()))
    return x.sin()


class Watching(nn.Module):
    """Registers a hook on a part of itself while it runs."""

    def __init__(self, kept: list[Any]) -> None:
        super().__init__()
        self.part, self.kept = nn.Linear(4, 4), kept

    def forward(self, x: Tensor) -> Tensor:
        handle = self.part.register_full_backward_hook(lambda module, inputs, outputs: self.kept.extend(outputs))
        y = self.part(x)
        handle.remove()
        return y.sin()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["retain_grad", "post accumulate", "module"])
def test_what_inside_watches_is_told(name: str, door: Callable[..., Any]) -> None:
    def run(through: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(0)
        kept: list[Any] = []
        found: list[Any] = []
        if name == "module":
            watching = Watching(kept)
            call = through(watching)
            function = lambda x, kept: call(x)  # noqa: E731
        else:
            function = through(retained if name == "retain_grad" else accumulated)
        for _ in range(3):
            x = leaf(4)
            function(x, kept).sum().backward()
            found += [x.grad, *(tensor.grad if name == "retain_grad" else tensor for tensor in kept)]
            kept.clear()
        return found

    wanted = run(lambda fn: fn)
    assert len(wanted) == 6 and all(tensor is not None for tensor in wanted)
    torch.testing.assert_close(run(door), wanted)


# -- around the call


def test_offloading(door: Callable[..., Any]) -> None:
    module, x = net(), leaf(5, 3)
    call = door(module)
    for _ in range(2):
        with torch.autograd.graph.save_on_cpu():
            result = call(x)
        found = torch.autograd.grad(result.sum(), [x, *module.parameters()])
        torch.testing.assert_close(found, torch.autograd.grad(module(x).sum(), [x, *module.parameters()]))
    compiled_only()


def test_hooks_on_saved_tensors_see_no_fakes(door: Callable[..., Any]) -> None:
    """Also if the call, or its second derivative, is compiled under them: a checkpoint counts the tensors that it is
    given.
    """
    packed: list[str] = []

    def pack(tensor: Tensor) -> Tensor:
        packed.append(type(tensor).__name__)
        return tensor

    call, x, seen = door(nn.Sequential(nn.Linear(3, 3), nn.GELU(), nn.LayerNorm(3))), leaf(2, 3), []
    for _ in range(3):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            (gradient,) = torch.autograd.grad(call(x).square().sum(), x, create_graph=True)
            gradient.square().sum().backward()
        seen.append(list(packed))
        packed.clear()
    assert seen[0] == seen[1] == seen[2] and set(seen[0]) == {"Tensor", "Parameter"}
    compiled_only()


def test_a_checkpoint_of_what_is_compiled_in_it(door: Callable[..., Any]) -> None:
    module, x = net(), leaf(5, 3)
    call = door(module)
    for _ in range(2):
        result = torch.utils.checkpoint.checkpoint(call, x, use_reentrant=False)
        found = torch.autograd.grad(result.sum(), [x, *module.parameters()])
        torch.testing.assert_close(found, torch.autograd.grad(module(x).sum(), [x, *module.parameters()]))
    compiled_only()


def test_saving_that_is_forbidden(door: Callable[..., Any]) -> None:
    call, x = door(lambda x: x.exp().sum()), leaf(4)
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        torch.testing.assert_close(torch.autograd.grad(call(x), x)[0], x.exp().detach())
    compiled_only()


def test_writes_that_are_allowed(door: Callable[..., Any]) -> None:
    """Torch clones saved tensors on writes in this mode."""
    call, x, w = door(lambda x, w: (x * w).sum()), leaf(4), torch.ones(4)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        loss = call(x, w)
        w.add_(1)
        torch.testing.assert_close(torch.autograd.grad(loss, x)[0], torch.ones(4))


def test_anomaly_mode_tells_of_a_nan(door: Callable[..., Any]) -> None:
    call = door(lambda x: (x - 1).sqrt().sum() * 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly(check_nan=True):
            loss = call(torch.ones(3, requires_grad=True))
            with pytest.raises(RuntimeError, match=r"returned nan values in its 0th output"):
                loss.backward()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly(check_nan=False):
            x = torch.ones(3, requires_grad=True)
            call(x).backward()
    assert x.grad is not None and bool(x.grad.isnan().all())


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Makes Ctrl-C raise, also if the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("at", ["hook", "operator", "thread"])
def test_an_interrupt_while_gradients_are_computed(at: str, door: Callable[..., Any]) -> None:
    """Ctrl-C ends the backward with KeyboardInterrupt, as in eager, and leaks nothing."""
    module, x = net(), leaf(5, 3)
    call = door(module)
    step(module, call, x)

    def interrupt(*_: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    inner = x * 2
    result = call(inner)
    if at == "hook":
        result.register_hook(interrupt)
    elif at == "operator":
        inner.register_hook(interrupt)
    else:
        main = threading.main_thread().ident
        assert main is not None
        result.register_hook(lambda gradient: signal.pthread_kill(main, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        result.sum().backward()
        for _ in range(1000):
            pass
    watched = weakref.ref(inner)
    del inner, result
    gc.collect()
    assert watched() is None
    torch.testing.assert_close(step(module, call, x), step(module, module, x))
    compiled_only()
