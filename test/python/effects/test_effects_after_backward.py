"""Effects after a checkpoint or a `torch.autograd.Function`: only those that backward reads later end the graph."""

from __future__ import annotations

import dynamlir
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class State:
    def __init__(self) -> None:
        self.scale = 2.0
        self.count = 0
        self.log: list[object] = []
        self.table: dict[str, object] = {"by": 3.0}


state = State()
total = 0
factors = [2.0]
power = 2


def a_cell():
    shift = 1.0

    def get():
        return shift

    def put(value):
        nonlocal shift
        shift = value

    return get, put


shift, put_shift = a_cell()


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()
    begin()


def begin():
    global state, total, power
    state, total, power = State(), 0, 2
    factors[:] = [2.0]
    put_shift(1.0)


class Scaled(torch.autograd.Function):
    """Its backward reads an attribute, an item, a list by C code, a global name and a variable of a function."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * state.scale * state.table["by"] * sum(factors) * 3.0**power * shift()


def region(x):
    return x.sin() * state.scale * state.table["by"] * sum(factors) * 3.0**power * shift()


def applied(x):
    return Scaled.apply(x)


def checkpointed(x):
    return checkpoint(region, x, use_reentrant=False)


def counts(x):
    state.count += 1


def logs(x):
    state.log.append(x.shape)


def puts(x):
    global total
    total += 3


def keeps(x):
    state.seen = x.detach()


def changes_attribute(x):
    state.scale = 7.0


def changes_item(x):
    state.table["by"] = 5.0


def changes_list(x):
    factors.append(4.0)


def changes_name(x):
    global power
    power = 3


def changes_variable(x):
    put_shift(4.0)


def world():
    return state.count, list(state.log), total, state.scale, dict(state.table), list(factors), power, shift()


def run(call, calls):
    begin()
    found = []
    for _ in range(calls):
        x = torch.arange(3.0, requires_grad=True)
        y = call(x)
        y.sum().backward()
        found.append((y.tolist(), x.grad.tolist(), world()))
    return found


@pytest.mark.parametrize("later", [applied, checkpointed])
@pytest.mark.parametrize("effect", [counts, logs, puts, keeps])
def test_effects_that_backward_does_not_read(later, effect):
    def call(x):
        y = later(x)
        effect(y)
        return y + 1

    assert run(dynamlir.compile(call, fullgraph=True), 3) == run(call, 3)
    assert not dynamlir.fallbacks()


@pytest.mark.parametrize("later", [applied, checkpointed])
@pytest.mark.parametrize("effect", [changes_attribute, changes_item, changes_list, changes_name, changes_variable])
def test_effects_that_backward_reads(later, effect):
    def call(x):
        y = later(x)
        effect(y)
        return y + 1

    assert run(dynamlir.compile(call), 1) == run(call, 1)
    assert dynamlir.fallbacks()


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(2))
        self.calls, self.shapes = 0, {}

    def forward(self, x):
        for at, layer in enumerate(self.layers):
            x = checkpoint(layer, x, use_reentrant=False).relu()
            self.shapes[at] = x.shape
        self.calls += 1
        return x


def test_a_stack_of_layers_with_effects_between_is_one_graph():
    module = Counted()
    compiled = dynamlir.compile(module, fullgraph=True)
    for calls in (1, 2):
        compiled(torch.ones(2, 2)).sum().backward()
        assert (module.calls, module.shapes) == (calls, {0: (2, 2), 1: (2, 2)})
