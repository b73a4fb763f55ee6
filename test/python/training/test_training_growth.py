"""Thousands of training steps leak no memory, no tensors and no objects; nor do errors and cycles."""

from __future__ import annotations

import gc
import resource
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch
import torch.utils.checkpoint
from both import DOORS
from sampled import one_in
from torch import Tensor, nn

PAGE = resource.getpagesize()
STEPS, WARM = 10_000, 1_000


@pytest.fixture(params=list(DOORS))
def door(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Each front door, with nothing compiled."""
    return DOORS[request.param]


def resident() -> int:
    """The resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def counts() -> tuple[int, int]:
    """The numbers of live tensors and of objects that the collector tracks."""
    gc.collect()
    objects = gc.get_objects()
    return sum(issubclass(type(each), Tensor) for each in objects), len(objects)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
@pytest.mark.unaudited
def test_ten_thousand_steps(door: Callable[..., Any]) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    module = model()
    call, optimizer = door(module), torch.optim.SGD(module.parameters(), lr=1e-3)
    x = torch.randn(8, 16)
    # The collector would hide cycles that the steps create, or would cost time.
    gc.disable()
    try:

        def steps(count: int) -> None:
            for _ in range(count):
                optimizer.zero_grad()
                call(x).square().mean().backward()
                optimizer.step()

        steps(WARM)
        before, memory = counts(), resident()
        steps(STEPS)
        grown = resident() - memory
        after = len(gc.get_objects())
        assert counts()[0] == before[0]
        assert abs(after - before[1]) < 200, "cycles that only the collector ends"
        assert grown < 2 << 20, f"{grown} bytes in {STEPS} steps"
    finally:
        gc.enable()
        torch.set_num_threads(threads)
    assert not dynamlir.counters()["fallbacks"] and dynamlir.counters()["graphs"] == 1, dynamlir.explain_last()


def fail(*_: Any) -> Any:
    raise KeyError("mine")


def in_a_hook(call: Any, x: Tensor, module: nn.Module) -> None:
    result = call(x)
    result.register_hook(fail)
    with pytest.raises(KeyError):
        result.sum().backward()


def in_a_hook_of_an_input(call: Any, x: Tensor, module: nn.Module) -> None:
    handle = x.register_hook(fail)
    with pytest.raises(KeyError):
        call(x).sum().backward()
    handle.remove()


def in_packing(call: Any, x: Tensor, module: nn.Module) -> None:
    with torch.autograd.graph.saved_tensors_hooks(fail, lambda t: t), pytest.raises(KeyError):
        call(x)


def in_unpacking(call: Any, x: Tensor, module: nn.Module) -> None:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, fail):
        result = call(x)
    with pytest.raises(KeyError):
        result.sum().backward()


def in_the_graph_of_gradients(call: Any, x: Tensor, module: nn.Module) -> None:
    (gradient,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
    gradient.register_hook(fail)
    with pytest.raises(KeyError):
        gradient.sum().backward()


def wrong_tangents(call: Any, x: Tensor, module: nn.Module) -> None:
    with pytest.raises(RuntimeError):
        call(x).backward(torch.ones(3, 3, 3))


def twice(call: Any, x: Tensor, module: nn.Module) -> None:
    result = call(x).sum()
    result.backward()
    with pytest.raises(RuntimeError, match="second time"):
        result.backward()


def kept_by_the_module(call: Any, x: Tensor, module: nn.Module) -> None:
    module.last = call(x)
    module.last.sum().backward()
    module.last = None


def a_cycle_of_objects(call: Any, x: Tensor, module: nn.Module) -> None:
    """A cycle of Python objects. In eager, too, the collector finds none through a hook or a node of autograd."""
    holder = nn.Module()
    holder.result, holder.me = call(x), [holder]


def retained(call: Any, x: Tensor, module: nn.Module) -> None:
    result = call(x)
    result.retain_grad()
    result.sum().backward(retain_graph=True)


def a_graph_of_gradients(call: Any, x: Tensor, module: nn.Module) -> None:
    (gradient,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
    gradient.square().sum().backward()


def checkpointed(call: Any, x: Tensor, module: nn.Module) -> None:
    torch.utils.checkpoint.checkpoint(call, x, use_reentrant=False).sum().backward()


ENDS = [
    *(in_a_hook, in_a_hook_of_an_input, in_packing, in_unpacking, in_the_graph_of_gradients, wrong_tangents, twice),
    *(kept_by_the_module, a_cycle_of_objects, retained, a_graph_of_gradients, checkpointed),
]


@pytest.mark.parametrize("ends", one_in(2, ENDS), ids=lambda end: end.__name__)
def test_nothing_is_kept_alive(ends: Callable[..., None], door: Callable[..., Any]) -> None:
    module = model()
    call = door(module)

    def once() -> list[weakref.ref[Any]]:
        x = torch.randn(8, 16, requires_grad=True) * 1
        ends(call, x, module)
        module.zero_grad()
        return [weakref.ref(x)]

    once()
    gc.collect()
    before = counts()[0]
    watched = [reference for _ in range(5) for reference in once()]
    gc.collect()
    assert not [reference for reference in watched if reference() is not None]
    assert counts()[0] <= before
    # The function still works.
    x = torch.randn(8, 16, requires_grad=True)
    torch.testing.assert_close(torch.autograd.grad(call(x).sum(), x), torch.autograd.grad(module(x).sum(), x))


def test_a_compiled_module_goes_with_its_graphs(door: Callable[..., Any]) -> None:
    module = model()
    call = door(module)
    x = torch.randn(8, 16, requires_grad=True)
    result = call(x)
    watched = [weakref.ref(parameter) for parameter in module.parameters()]
    del module, call
    torch._dynamo.reset()
    gc.collect()
    # The node still has what it needs, which is freed with it.
    result.sum().backward()
    del result
    gc.collect()
    assert not [reference for reference in watched if reference() is not None]
