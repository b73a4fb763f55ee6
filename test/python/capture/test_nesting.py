"""Checks that self-referential or deeply nested values, and recursive functions, never crash the process."""

from __future__ import annotations

import sys
import time

import dynamlir
import forked
import pytest
import torch
from worlds import X, alike

DEEP = 100_000

MAKERS = {
    "list": "value = [1]\nvalue.append(value)",
    "dict": "value = {'a': 1}\nvalue['d'] = value",
    "tuple": "inner = []\nvalue = (inner,)\ninner.append(value)",
    "object": "value = Box()\nvalue.next = [value]",
    "deep list": f"value = []\nfor _ in range({DEEP}): value = [value]",
    "deep tuple": f"value = (1,)\nfor _ in range({DEEP}): value = (value,)",
    "deep tuple of numbers": f"value = 1\nfor _ in range({DEEP}): value = (value,)",
    "deep dict": f"value = {{}}\nfor _ in range({DEEP}): value = {{'k': value}}",
    "deep objects": f"value = Box()\nfor _ in range({DEEP}): value = Box(value)",
    "deep slice": f"value = 1\nfor _ in range({DEEP}): value = slice(value)",
}

USES = [
    "len(list(q)) if isinstance(q, (list, tuple)) else 0",
    "len(repr(q))",
    "len(list(q.values())) if isinstance(q, dict) else 0",
    "len(q + (1,)) if isinstance(q, tuple) else 0",
    "int(q == q)",
    "int([q] == [q])",
    "int(q in [q])",
    "len([*q]) if isinstance(q, (list, tuple)) else 0",
    "len(copy.copy(q)) if isinstance(q, (list, dict, tuple)) else 0",
    "walked(q)",
    "x.new_zeros(1).add(torch.ones(1), alpha=len([q]))",
    "int(bool(q)) + (q is q)",
    "int(isinstance(q, (list, (dict, (tuple,)))))",
    "len((lambda *given: given)(q))",
]

SCRIPT = """
import copy, sys
import torch, dynamlir
dynamlir.config.on_plain = "ignore"

class Box:
    def __init__(self, inner=None):
        self.inner = inner

def walked(q):
    count = 0
    while isinstance(q, (list, tuple, Box)) and count < 5000:
        q = q.inner if isinstance(q, Box) else q[-1]
        count += 1
    return count

def outcome(function, *args):
    try:
        return repr(function(*args))
    except Exception as error:
        return type(error).__name__

sys.setrecursionlimit(1000)
{make}
for use in {uses!r}:
    function = eval("lambda x, q: x + " + use)
    compiled = dynamlir.compile(function)
    expected = outcome(function, torch.zeros(1), value)
    for _ in range(2):
        got = outcome(compiled, torch.zeros(1), value)
        assert got == expected, (use, got, expected)
print("done")
"""


@pytest.mark.parametrize("make", MAKERS)
def test_existing_values(make):
    """Runs in a separate process, which an overflow would end."""
    code = SCRIPT.format(make=MAKERS[make], uses=USES)
    done = forked.python(code)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-2000:]


MADE = """
import torch, dynamlir
dynamlir.config.on_plain = "ignore"
torch.set_grad_enabled(False)

def nested(x, depth, kind):
    value = x + 1
    for _ in range(depth):
        value = [value] if kind == "list" else (value,) if kind == "tuple" else {{"k": value}}
    return value

def cyclic(x):
    value = [x + 1]
    value.append(value)
    return value

def depth(value):
    count = 0
    while not isinstance(value, torch.Tensor):
        value = value["k"] if isinstance(value, dict) else value[0]
        assert type(value) is not torch.Tensor or True
        count += 1
    return count, type(value).__name__

x = torch.ones(1)
for kind in ("list", "tuple", "dict"):
    for deep in (3, 150, 3000):
        compiled = dynamlir.compile(lambda x: nested(x, deep, kind))
        assert depth(compiled(x)) == (deep, "Tensor"), (kind, deep)
        used = dynamlir.compile(lambda x: x + len(nested(x, deep, kind)))
        assert used(x).item() == 2
got = dynamlir.compile(cyclic)(x)
assert got[1] is got and type(got[0]) is torch.Tensor
print("done")
"""


def test_values_that_the_function_makes():
    code = MADE.format()
    done = forked.python(code)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-2000:]


def test_an_element_that_is_the_list_itself():
    def world(compile_):
        root = []
        root[:] = [root, root, None, None]
        return compile_(lambda: root[0])() is root

    alike(world)


@pytest.fixture
def deep_stack():
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    yield
    sys.setrecursionlimit(before)


def count(n, x):
    return x if n == 0 else count(n - 1, x) + 1


def seconds_of(depth):
    dynamlir.reset()
    start = time.perf_counter()
    with torch.no_grad():
        result = dynamlir.compile(lambda x: count(depth, x), backend="python", fullgraph=True)(X)
    assert result.tolist() == (X + depth).tolist()
    return time.perf_counter() - start


def test_recursion_is_captured_in_linear_time(deep_stack):
    """Four times the depth takes four times as long, not sixteen times."""
    few = min(seconds_of(500) for _ in range(2))
    many = min(seconds_of(2000) for _ in range(2))
    assert many < 9 * few, (few, many)


@pytest.mark.parametrize("depth", [1500, 6000])
def test_recursion_does_not_count_as_calls_of_c(deep_stack, depth):
    """From CPython 3.12 on, calls that go through C have a separate limit, which cannot be changed."""
    dynamlir.reset()
    with torch.no_grad(), dynamlir.config.patch(unroll_limit=10_000):
        result = dynamlir.compile(lambda x: count(depth, x), backend="python", fullgraph=True)(X)
    assert result.tolist() == (X + depth).tolist()


def test_recursion_that_breaks_at_each_level_does_not_either(deep_stack):
    def adds(n, x):
        if n == 0:
            return x
        print(end="")
        return adds(n - 1, x) + 1

    dynamlir.reset()
    adds = dynamlir.compile(adds, backend="python")
    with torch.no_grad():
        assert adds(6000, X).tolist() == (X + 6000).tolist()


def test_recursion_between_graphs_is_as_deep_as_in_plain_python(deep_stack):
    """The frames passed to a hook use the C stack, where plain Python would not need it."""

    def deep(n):
        print(end="")
        return deep(n - 1) + 1 if n else 0

    def adds(x):
        print(end="")
        return x + deep(20_000)

    dynamlir.reset()
    with torch.no_grad():
        assert dynamlir.compile(adds)(X).tolist() == (X + 20_000).tolist()


def deepest(n):
    try:
        return deepest(n + 1)
    except RecursionError:
        return n


def deepest_of_c(n):
    try:
        return max([n + 1], key=lambda n: deepest_of_c(n) if n < 5000 else n) * 0 + n
    except RecursionError:
        return -1


def beneath(frames, function, *args):
    return function(*args) if frames == 0 else beneath(frames - 1, function, *args)


@pytest.mark.parametrize("function", [deepest, deepest_of_c])
def test_the_deepest_call_depends_on_the_caller(function):
    dynamlir.reset()

    def adds(x):
        return x + function(0)

    compiled = dynamlir.compile(adds)
    with torch.no_grad():
        for frames in (0, 0, 200, 0, 100):
            assert beneath(frames, compiled, X).tolist() == beneath(frames, adds, X).tolist()
    assert set(dynamlir.counters()["fallbacks"]) == {"recursion"}


def test_where_the_recursion_ends_is_shown():
    dynamlir.reset()

    def endless(x):
        return endless(x + 1)

    with torch.no_grad(), pytest.raises(dynamlir.Unsupported) as caught:
        dynamlir.compile(endless, fullgraph=True)(X)
    text = str(caught.value)
    assert text.startswith(f"recursion at {__file__}:") and " in endless: " in text, text
    assert "RecursionError: maximum recursion depth exceeded" in text, text
