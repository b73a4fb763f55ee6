"""Existing deques: reads are guarded, and changes are made after the graph."""

from __future__ import annotations

import collections
import copy
from typing import Any

import dynamlir
import pytest
import torch
from worlds import X, alike, shown


def stack(x, q):
    return torch.stack(list(q)).sum(0) + x


def step(x, q):
    q.append(x * 2)
    return sum(q[at] for at in range(len(q))) + len(q)


def both_ends(x, q):
    last, first = q.pop(), q.popleft()
    q.appendleft(first + x)
    return last * 2 - first, q[0], q[-1]


def moved(x, q):
    q.rotate(1)
    q.extend([x, x + 1])
    q.extendleft((x * 3,))
    return q[0] + q[-1], len(q)


def changed(x, q):
    q[0] = x
    del q[1]
    q.insert(1, x + 5)
    q.reverse()
    return [item + 1 for item in q]


def emptied(x, q):
    total = x
    while q:
        total = total + q.popleft()
    return total


def looked(x, q):
    return x + q.maxlen if q.maxlen else x, bool(q), q.copy()[0] + x, [item for item in reversed(q)], tuple(q)


@pytest.mark.parametrize("longest", [None, 3, 4])
@pytest.mark.parametrize("function", [stack, step, both_ends, moved, changed, emptied, looked])
def test_deques_of_tensors(function: Any, longest: int | None) -> None:
    def world(compile_):
        items = [X, X + 1, X + 2]
        compiled = compile_(function)
        told = []
        for _ in range(3):
            history = collections.deque(items, longest)
            told.append((compiled(X * 3, history), list(history), history.maxlen))
        return told

    alike(world)


def test_a_window_in_a_module() -> None:
    class Window(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.last = collections.deque(maxlen=3)

        def forward(self, x):
            self.last.append(x)
            return torch.stack(tuple(self.last)).mean(0)

    def world(compile_):
        window = Window()
        compiled = compile_(window)
        return [compiled(X * at) for at in range(6)], list(window.last)

    alike(world)


def test_what_is_in_a_deque_is_guarded() -> None:
    def world(compile_):
        numbers = collections.deque([1, 2, 3])
        compiled = compile_(lambda x: x * numbers[1] + len(numbers))
        told = [compiled(X)]
        numbers[1] = 5
        told.append(compiled(X))
        numbers.append(4)
        told.append(compiled(X))
        numbers.popleft()
        return [*told, compiled(X)]

    alike(world)


def test_a_deque_stays_the_object_that_it_is() -> None:
    def world(compile_):
        queue = collections.deque([X])

        def function(x, q):
            q.append(x)
            q.rotate()
            return q

        return compile_(function)(X + 1, queue) is queue, list(queue)

    alike(world)


def test_errors_are_those_of_deques() -> None:
    def function(x, q):
        try:
            q.pop()
        except IndexError as error:
            return x, str(error)
        return x + 1, ""

    def world(compile_):
        compiled = compile_(function)
        return [compiled(X, collections.deque(items)) for items in ([], [X], [])]

    alike(world)


def test_a_deque_that_changes_while_it_is_iterated() -> None:
    def function(x, q):
        total = x
        for item in q:
            total = total + item
            q.append(x)
        return total

    queue = collections.deque([X, X + 1])
    told = []
    for run in (function, dynamlir.compile(function)):
        own = copy.copy(queue)
        with pytest.raises(RuntimeError, match="mutated during iteration"):
            run(X, own)
        told.append(shown(list(own)))
    assert told[0] == told[1]


def set_by_index(x, q):
    q[0] = q[-1] = x
    return x + q[0]


def swapped(x, q):
    q[0], q[2] = q[2], q[0]
    return q[1] + x


def turned(x, q):
    q.reverse()
    return q[0] + x


def turned_and_set(x, q):
    q.reverse()
    q[1] = x * 3
    return [item + 1 for item in q]


def set_and_added(x, q):
    q[1] = x * 2
    q.append(q[1])
    return q[0] + x


def set_and_dropped(x, q):
    q[1] = x * 2
    del q[0]
    return q[0] + x


@pytest.mark.parametrize("function", [set_by_index, swapped, turned, turned_and_set, set_and_added, set_and_dropped])
def test_who_iterates_meanwhile(function: Any) -> None:
    def world(compile_):
        compiled, told = compile_(function), []
        for _ in range(2):
            q = collections.deque([X, X + 1, X + 2])
            iterator = iter(q)
            told.append([next(iterator), compiled(X * 5, q)])
            try:
                told[-1] += iterator
            except RuntimeError as error:
                told[-1].append(str(error))
            told[-1].append(list(q))
        return told

    alike(world)
