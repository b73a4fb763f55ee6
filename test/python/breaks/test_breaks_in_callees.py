"""A graph break in a callee: the callers' code before it is in the first graph, and their code after it in the next."""

from __future__ import annotations

import contextlib
import logging
import pickle
import sys
import threading
from collections.abc import Iterator
from typing import Any

import dynamlir
import pytest
import torch
from between import X, alike, goes_on, outcome, said, say
from torch import nn


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(dynamlir.config, "on_plain", "ignore")
    yield


class Block(nn.Module):
    """Breaks between two operations."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
        hidden = self.linear(x)
        say(tuple(hidden.shape))
        return hidden.relu() * scale + x


def test_three_calls_deep() -> None:
    def inner(x: torch.Tensor, k: int) -> torch.Tensor:
        y = x * 2 + k
        say("inner", k)
        return y.cos() + k

    def middle(x: torch.Tensor) -> torch.Tensor:
        return inner(x + 1, k=3) * 3

    def outer(x: torch.Tensor) -> torch.Tensor:
        a = x.sin()
        b = middle(a) + 1
        return (b * a).sum() + b

    goes_on(outer, X, graphs=2)


def test_a_module_among_others() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.block, self.last = nn.Linear(6, 6), Block(), nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x = self.block(self.first(x), scale=0.5)
            return self.last(x), x

    net = Net()

    def function(x: torch.Tensor) -> Any:
        return net(x)

    with torch.no_grad():
        goes_on(function, X, graphs=2)
        dynamlir.reset()
        compiled = dynamlir.compile(net)
        for _ in range(3):
            alike(compiled(X), net(X))
    assert dynamlir.counters()["graphs"] == 2


def test_gradients_go_through_the_frames() -> None:
    block = Block()

    def function(x: torch.Tensor) -> torch.Tensor:
        return block(x * 2).sum()

    grads = []
    for call in (function, dynamlir.compile(function), dynamlir.compile(function)):
        x = X.clone().requires_grad_()
        block.zero_grad()
        call(x).backward()
        assert x.grad is not None and block.linear.weight.grad is not None
        grads.append((x.grad, block.linear.weight.grad.clone()))
    alike(grads[1], grads[0])
    alike(grads[2], grads[0])
    assert dynamlir.counters()["graphs"] == 2


def test_several_breaks_in_one_callee() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        for at in range(3):
            x = x * 2 + at
            say("inner", at)
        return x

    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x.sin()).cos() + 1

    goes_on(outer, X)


def test_breaks_in_one_callee_after_another() -> None:
    def first(x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        say("first")
        return x + 1

    def second(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x * y
        say("second")
        return first(x) + y

    def outer(x: torch.Tensor) -> torch.Tensor:
        return second(first(x), x).cos()

    # The code between two breaks is one graph, regardless of the frames it belongs to.
    goes_on(outer, X, graphs=4)


def test_what_only_logs_is_one_act(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("test_breaks_in_callees")

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        logger.warning("shape %s", tuple(y.shape))
        return y * 2

    compiled = goes_on(function, X, graphs=2)
    assert dynamlir.counters()["graph_breaks"] == 1 and len(compiled._cache) == 1
    assert len(caplog.records) == 8 and {record.lineno for record in caplog.records} == {
        function.__code__.co_firstlineno + 2
    }


def test_variables_of_the_frames_are_theirs() -> None:
    def outer(x: torch.Tensor) -> Any:
        total = x.sum()
        seen = []

        def inner(y: torch.Tensor) -> torch.Tensor:
            nonlocal total
            total = total + y.sum()
            say("inner", len(seen))
            seen.append(total)
            return y * total

        z = inner(x) + total
        return z, total, seen

    goes_on(outer, X)


def test_exceptions_pass_through_the_frames() -> None:
    def inner(x: torch.Tensor, fails: bool) -> torch.Tensor:
        y = x * 2
        say("before")
        if fails:
            raise ValueError("inner")
        return y

    def middle(x: torch.Tensor, fails: bool) -> torch.Tensor:
        try:
            return inner(x + 1, fails) + 1
        finally:
            say("finally")

    def outer(x: torch.Tensor, fails: bool) -> torch.Tensor:
        try:
            return middle(x, fails) * 3
        except ValueError as error:
            if x.numel() == 1:
                raise RuntimeError("outer") from error
            return x.cos()

    compiled = dynamlir.compile(outer)
    for _ in range(3):
        for args in [(X, False), (X, True), (X[:1], True), (X[:1], False)]:
            alike(outcome(compiled, *args), outcome(outer, *args))


def finally_(inner: Any, x: torch.Tensor, fails: bool) -> Any:
    try:
        return inner(x, fails) + 1
    finally:
        said.append("finally")


def with_(inner: Any, x: torch.Tensor, fails: bool) -> Any:
    with contextlib.ExitStack():
        return inner(x, fails) + 1


def raised_again(inner: Any, x: torch.Tensor, fails: bool) -> Any:
    try:
        return inner(x, fails) + 1
    except KeyError:
        raise


def not_matched(inner: Any, x: torch.Tensor, fails: bool) -> Any:
    try:
        return inner(x, fails) + 1
    except TypeError:
        return x


@pytest.mark.parametrize("cleanup", [finally_, with_, raised_again, not_matched])
def test_a_cleanup_leaves_no_lines_of_its_own_in_a_traceback(cleanup: Any) -> None:
    def inner(x: torch.Tensor, fails: bool) -> torch.Tensor:
        y = x.sin()
        say()
        if fails:
            raise KeyError("inner")
        return y

    def outer(x: torch.Tensor, fails: bool) -> Any:
        return cleanup(inner, x * 2, fails)

    compiled = dynamlir.compile(outer)
    for fails in (False, True, True, False):
        theirs = outcome(outer, X, fails)
        alike(outcome(compiled, X, fails), theirs)


def test_a_frame_sees_those_around_it() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        frame = sys._getframe(1)
        said.append((frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals), sys._getframe(2).f_code.co_name))
        return y + 1

    def middle(x: torch.Tensor, name: str) -> torch.Tensor:
        z = x.sin()
        return inner(z) + z

    def outer(x: torch.Tensor) -> torch.Tensor:
        return middle(x + 1, "me") * 2

    goes_on(outer, X)


def test_what_c_code_calls_is_not_entered() -> None:
    def key(x: torch.Tensor) -> float:
        say("key")
        return float((x * 2).sum())

    def function(x: torch.Tensor) -> Any:
        y = x + 1
        return sorted([y, x, y * 3], key=key)[0] * 2

    goes_on(function, X)


def test_an_init_is_not_entered() -> None:
    class Holder:
        def __init__(self, x: torch.Tensor) -> None:
            self.x = x * 2
            say("init")
            self.y = self.x + 1

    def function(x: torch.Tensor) -> Any:
        holder = Holder(x + 1)
        return holder.x * holder.y

    goes_on(function, X)


def test_operators_and_properties_are_not_entered() -> None:
    class Holder:
        def __init__(self, x: torch.Tensor) -> None:
            self.x = x

        def __add__(self, other: torch.Tensor) -> torch.Tensor:
            y = self.x * 2
            say("add")
            return y + other

        @property
        def twice(self) -> torch.Tensor:
            y = self.x * 2
            say("twice")
            return y + 1

    def function(x: torch.Tensor) -> Any:
        holder = Holder(x.sin())
        return (holder + x) * holder.twice

    goes_on(function, X)


def test_a_generator_is_not_entered() -> None:
    def items(x: torch.Tensor) -> Iterator[torch.Tensor]:
        y = x * 2
        say("first")
        yield y
        yield y + 1

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.stack(list(items(x + 1))).sum()

    goes_on(function, X)


def test_arguments_that_are_spread() -> None:
    def inner(*args: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        y = args[0] * kwargs["by"]
        say(len(args), sorted(kwargs))
        return y + args[1] if len(args) > 1 else y

    def outer(x: torch.Tensor, others: list[torch.Tensor]) -> torch.Tensor:
        return inner(x + 1, *others, **{"by": 2.0}) * inner(*others, by=3) + inner(*iter(others), by=4)

    goes_on(outer, X, [X * 2])


def test_recursion() -> None:
    def function(x: torch.Tensor, depth: int) -> torch.Tensor:
        if depth == 0:
            say("end")
            return x
        return function(x * 2, depth - 1) + depth

    goes_on(function, X, 5, graphs=2)


@pytest.mark.parametrize("fails", [False, True])
def test_a_recursion_that_is_deeper_than_a_chain(fails: bool) -> None:
    def function(x: torch.Tensor, depth: int, fails: bool) -> torch.Tensor:
        y = x * 0.5
        say(depth)
        if depth == 0:
            if fails:
                raise KeyError("innermost")
            return y
        try:
            return function(y + 1, depth - 1, fails) + y
        finally:
            said.append(depth)

    goes_on(function, X, 40, fails, calls=2)


def test_a_limit_of_recursion_that_is_met_in_a_call() -> None:
    def deep(n: int) -> int:
        return 0 if n == 0 else 1 + deep(n - 1)

    def inner(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        say("inner")
        try:
            deep(10**6)
        except RecursionError:
            say("too deep")
        return y + 1

    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x + 1) * 2

    goes_on(outer, X)


def test_threads_have_frames_of_their_own() -> None:
    block = Block()

    def function(x: torch.Tensor) -> torch.Tensor:
        return block(x + 1) * 2

    with torch.no_grad():
        expected, compiled, found = function(X), dynamlir.compile(function), []

        def work() -> None:
            with torch.no_grad():
                found.extend(compiled(X) for _ in range(20))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 80
    for value in found:
        alike(value, expected)


def test_a_module_that_is_given_hooks_between_graphs() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 6)

        def forward(self, x: torch.Tensor, hook: bool) -> torch.Tensor:
            y = self.linear(x)
            say("before")
            if hook:
                self.register_forward_hook(lambda module, args, value: value * 100)
            return y + 1

    def world(compile_: Any) -> list[Any]:
        torch.manual_seed(0)
        net = Net()
        compiled = compile_(lambda x, hook: net(x + 1, hook) * 2)
        with torch.no_grad():
            return [compiled(X, hook) for hook in (False, False, True, False, True, False)]

    alike(world(dynamlir.compile), world(lambda function: function))


# -- loops


class Sometimes(nn.Module):
    """Calls several modules, some of which break."""

    def __init__(self, *breaks: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() if at in breaks else nn.Linear(6, 6) for at in range(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x.sum() * 2


@pytest.mark.parametrize(("breaks", "graphs"), [((0,), 2), ((2,), 2), ((4,), 2), ((1, 3), 5), ((0, 1, 2, 3, 4), 5)])
def test_what_is_left_of_a_loop_is_in_one_graph_where_nothing_breaks_it(breaks: tuple[int, ...], graphs: int) -> None:
    model = Sometimes(*breaks)

    def function(x: torch.Tensor) -> torch.Tensor:
        return model(x + 1)

    with torch.no_grad():
        goes_on(function, X)
    assert dynamlir.counters()["graphs"] <= graphs, dynamlir.explain_last()


def test_a_loop_whose_modules_change_meanwhile() -> None:
    class Changes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(4))
            self.turn, self.spare = 0, [nn.Linear(6, 6, bias=False), nn.Linear(6, 6)]

        def change(self) -> None:
            say("change")
            self.turn += 1
            if self.turn % 2:
                self.layers[2] = nn.Identity()
            if self.turn % 3 == 0:
                self.layers[3] = self.spare[self.turn % 2]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for at, layer in enumerate(self.layers):
                x = layer(x)
                if at == 0:
                    self.change()
            for layer in self.layers:
                x = layer(x)
                if layer is self.layers[1]:
                    self.change()
            return x

    def world(compile_: Any) -> list[Any]:
        torch.manual_seed(0)
        model = Changes()
        compiled = compile_(lambda x: model(x) + 1)
        with torch.no_grad():
            return [compiled(X) for _ in range(6)]

    alike(world(dynamlir.compile), world(lambda function: function))


def test_iterators_go_on_where_they_were() -> None:
    def function(x: torch.Tensor, items: list[Any], table: dict[str, Any]) -> Any:
        found: list[Any] = []
        numbers, pairs = iter(items), zip(items, table.values())
        keys, counted, backwards = iter(table), enumerate(items, 2), reversed(items)
        for iterator in (numbers, pairs, keys, counted, backwards):
            found.append(next(iterator))
        y = x * 2
        say("before")
        items.append(x)
        for iterator in (numbers, pairs, keys, counted, backwards):
            found.extend(iterator)
        return y, found

    goes_on(function, X, [X + 1, 2, "three"], {"a": X * 2, "b": 5, "c": None})


def test_an_iterator_is_returned_half_consumed() -> None:
    def function(x: torch.Tensor, items: list[int]) -> Any:
        iterator, pairs = iter(items), zip(items, range(5))
        next(iterator), next(pairs), next(pairs)
        return x + 1, iterator, pairs

    compiled = dynamlir.compile(function)
    for _ in range(3):
        items = [1, 2, 3]
        y, iterator, pairs = compiled(X, items)
        items.append(4)
        alike(y, X + 1)
        assert type(iterator) is type(iter([])) and list(iterator) == [2, 3, 4] and list(pairs) == [(3, 2), (4, 3)]
    assert not dynamlir.fallbacks()


def test_a_dict_that_grows_while_a_loop_is_left() -> None:
    def grow(table: dict[str, Any]) -> None:
        say("grow")
        table["late"] = 1

    def function(x: torch.Tensor, table: dict[str, Any]) -> Any:
        for key in table:
            x = x + 1
            grow(table)
            x = x * len(key)
        return x

    goes_on(function, X, {"a": 1, "b": 2})


def test_nothing_is_known_of_variables_that_nothing_reads() -> None:
    def look() -> Any:
        return sys._getframe(1).f_locals["unread"].shape

    def function(x: torch.Tensor, data: bytes) -> Any:
        unread = pickle.loads(data)  # noqa: F841
        y = x + 1
        return y, look()

    compiled = dynamlir.compile(function)
    for size in range(2, 8):
        data = pickle.dumps(torch.ones(size))
        alike(compiled(X, data), function(X, data))
    assert dynamlir.counters()["graphs"] == 1, dynamlir.counters()
