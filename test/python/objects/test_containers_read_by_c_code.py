"""C code that reads a container from inside one that the frame creates: the reads are guarded if the inner one existed
before the call.
"""

from __future__ import annotations

import functools
import itertools

import pytest
import torch
from worlds import X, alike


@pytest.fixture(autouse=True)
def fresh():
    with torch.no_grad():
        yield


def position(values, item):
    made = [[0], values, item]
    return made.index(item)


def updated(pair):
    made = {}
    made.update([pair])
    return made["k"]


@pytest.mark.parametrize(
    ("use", "given"),
    [
        (lambda v: [v] == [[1]], ([1], [2], [1, 2])),
        (lambda v: ([v], 1) < ([[1]], 1), ([0], [2], [1])),
        (lambda v: any([v]), ([1], [])),
        (lambda v: all([v, [1]]), ([1], [])),
        (lambda v: max([v, [1]]) is v, ([2], [0])),
        (lambda v: max([v, [1]], key=lambda item: item[0]) is v, ([2], [0])),
        (lambda v: sorted([v, [1]])[0][0], ([2], [0])),
        (lambda v: sorted([(v, 1), ([1], 2)])[0][1], ([2], [0])),
        (lambda v: [1] in [v], ([1], [2])),
        (lambda v: [1] in (v,), ([1], [2])),
        (lambda v: [1] in {"k": v}.values(), ([1], [2])),
        (lambda v: position(v, [1]), ([1], [2])),
        (lambda v: [v, [1]].count([1]), ([1], [2])),
        (lambda v: len(str([v])), ([1], [2, 3])),
        (lambda v: len(f"{[v]}"), ([1], [2, 3])),
        (lambda v: len(format(str([v]))), ([1], [2, 3])),
        (lambda v: len(repr({"k": (v,)})), ([1], [2, 3])),
        (lambda v: dict([v])["k"], (["k", 1], ["k", 2])),
        (lambda v: updated(v), (["k", 1], ["k", 2])),
        (lambda v: (("k", 1),) in {(v,): 1}, (("k", 1), ("k", 2))),
        (lambda v: len({(v,), (("k", 1),)}), (("k", 1), ("k", 2))),
        (lambda v: {(("k", 1),): 5}.get((v,), 7), (("k", 1), ("k", 2))),
        (lambda v: len(list(filter(None, [v]))), ([1], [])),
        (lambda v: sum(itertools.starmap(lambda one, two: one + two, [v])), ([1, 2], [2, 3])),
        (lambda v: len(list(itertools.accumulate([[1], v]))[1]), ([1, 2], [2, 3, 4])),
        (lambda v: len(list(itertools.groupby([[1], v]))), ([1], [2])),
        (lambda v: len(list(itertools.product(*[v], [1]))), ([1, 2], [2, 3, 4])),
        (lambda v: len(sum([v], [])), ([1, 2], [2, 3, 4])),  # noqa: RUF017
        (lambda v: len(functools.reduce(lambda one, two: one + two, [v, v])), ([1, 2], [2, 3, 4])),
    ],
)
def test_what_c_code_finds_is_guarded(use, given):
    def world(compile_):
        function = compile_(lambda x, v: x + use(v))
        return [function(X, value) for value in given], [function(X, value) for value in given]

    alike(world)
