"""A loop with very many iterations is not unrolled without limit: from `unroll_limit` on Python continues it."""

from __future__ import annotations

import dynamlir
import pytest
import torch

LIMIT = 8


@pytest.fixture(autouse=True)
def limited():
    with dynamlir.config.patch(unroll_limit=LIMIT, on_plain="ignore"):
        yield


def counted(x, turns):
    y = x.clone()
    for turn in range(turns):
        y = y + x * turn
    return y


def on_condition(x, turns):
    y, left = x * 2, turns
    while left > 0:
        y = y.sin() + x
        left -= 1
    return y, left


def over_a_list(x, turns):
    found = []
    for _ in range(turns):
        x = x * 1.5
        found.append(x)
    return torch.stack(found).sum(0)


def step(y, x):
    return (y * x).cos()


def within_a_function(x, turns):
    y = x
    for _ in range(turns):
        y = step(y, x)
    return y + 1


def nested(x, turns):
    y = x
    for _ in range(turns):
        for _ in range(3):
            y = y + x.sin()
        y = y * 2
    return y


LOOPS = [counted, on_condition, over_a_list, within_a_function, nested]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("loop", LOOPS)
def test_a_long_loop_goes_on_in_python(loop, grad):
    compiled = dynamlir.compile(loop)
    for _ in range(2):
        x, y = (torch.tensor([0.25, 0.5], requires_grad=grad) for _ in range(2))
        found, expected = compiled(x, 3 * LIMIT), loop(y, 3 * LIMIT)
        torch.testing.assert_close(found, expected)
        if grad:
            for result in (found, expected):
                (result[0] if isinstance(result, tuple) else result).sum().backward()
            torch.testing.assert_close(x.grad, y.grad)
    assert "long-loop" in {event.reason for event in dynamlir.fallbacks()}
    # Each iteration is served by an entry that was compiled for an earlier one.
    assert len(dynamlir.compiles()) < LIMIT


def test_a_loop_within_the_limit_is_one_graph():
    x = torch.ones(2)
    compiled = dynamlir.compile(counted, fullgraph=True)
    assert torch.equal(compiled(x, LIMIT // 2), counted(x, LIMIT // 2))
    assert not dynamlir.fallbacks()


def test_calls_from_several_lines_are_no_loop():
    def f(x):
        y = step(step(step(x, x), x), x)
        y = step(step(step(y, x), x), x)
        y = step(step(step(y, x), x), x)
        return step(step(step(y, x), x), x)

    x = torch.ones(2)
    assert torch.allclose(dynamlir.compile(f, fullgraph=True)(x), f(x))


def test_it_says_where_and_what_to_do():
    with pytest.raises(dynamlir.Unsupported, match=r"more than 8 operations of one line[\s\S]*unroll_limit"):
        dynamlir.compile(counted, fullgraph=True)(torch.ones(2), 100)


layer = torch.nn.Linear(2, 2)


def of_a_module(x, turns):
    with torch.no_grad():
        for _ in range(turns):
            x = layer(x)
    return x


def test_a_module_that_is_called_in_a_loop():
    x = torch.ones(2)
    compiled = dynamlir.compile(of_a_module)
    for _ in range(2):
        torch.testing.assert_close(compiled(x, 3 * LIMIT), of_a_module(x, 3 * LIMIT))
    assert "long-loop" in {event.reason for event in dynamlir.fallbacks()}


def summed(x, turns):
    total = 0
    for turn in range(turns):
        total += turn % 3
    return x * 2 + total


def collected(x, turns):
    found, at = [], 0
    while at < turns:
        found.append(at * 2)
        at += 1
    return x + found[-1]


def counted_elsewhere(x, turns):
    for turn in range(turns):
        table[turn] = str(turn)
    return x + len(table)


def of_functions(x, turns):
    def further(left):
        return left % 5 + 1

    return x + sum(map(further, range(turns)))


table: dict[int, str] = {}


@pytest.mark.parametrize("loop", [summed, collected, counted_elsewhere, of_functions])
def test_a_long_loop_of_python_alone_goes_on_in_python(loop):
    x, turns = torch.ones(2), 200 * LIMIT
    compiled = dynamlir.compile(loop)
    for more in range(3):
        assert torch.equal(compiled(x, turns + more), loop(x, turns + more))
    assert "long-loop" in {event.reason for event in dynamlir.fallbacks()}


def test_it_says_so_of_python_alone():
    with pytest.raises(dynamlir.Unsupported, match=r"without an operation on tensors[\s\S]*unroll_limit"):
        dynamlir.compile(summed, fullgraph=True)(torch.ones(2), 2000)


def test_much_python_between_operations_is_one_graph():
    def function(x):
        for _ in range(10):
            x = x + sum(i % 2 for i in range(40))
        return x

    x = torch.ones(2)
    with dynamlir.config.patch(unroll_limit=100):
        assert torch.equal(dynamlir.compile(function, fullgraph=True)(x), function(x))
