"""Everyday standard library code inside models, captured with its reads guarded: paths, JSON, cached properties."""

from __future__ import annotations

import bisect
import collections
import functools
import itertools
import json
import math
import os
import re
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import dynamlir
import pytest
import torch

X = torch.tensor([-1.0, 2.0, 3.0])
CONFIG: dict[str, Any] = {"hidden": {"size": 4, "names": ["a", "b"]}, "act": None}


class Lazy:
    def __init__(self, n: int) -> None:
        self.n = n

    @functools.cached_property
    def twice(self) -> int:
        return self.n * 2


class Pair(NamedTuple):
    left: torch.Tensor
    right: int


def _named(x: torch.Tensor) -> tuple[Any, ...]:
    made = collections.namedtuple("made", ["left", "right"], defaults=[3])
    pair = made(x)._replace(left=x + 1)
    return pair.left * pair.right, len(made._fields), pair._asdict(), callable(made._make)


FILLED = Lazy(3)
assert FILLED.twice == 6

PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "abs": lambda x: abs(x),
    "floor of a size": lambda x: x * math.floor(x.shape[0] / 2),
    "os.path.join": lambda x: x * len(os.path.join("a", "b")),
    "os.path.splitext": lambda x: x * len(os.path.splitext("a/b.c")[1]),
    "os.fspath": lambda x: x * len(os.fspath("abc")),
    "json.dumps": lambda x: x * len(json.dumps(CONFIG, sort_keys=True)),
    "json.dumps of what is made": lambda x: x * len(json.dumps({"a": [1, 2.5, None]}, indent=2)),
    "json.loads": lambda x: x * json.loads('{"a": [1, {"b": 2.5}]}')["a"][1]["b"],
    "sys.intern": lambda x: x * len(sys.intern("abc")),
    "chain.from_iterable": lambda x: x * sum(itertools.chain.from_iterable([[1], (2, 3)])),
    "chain.from_iterable of tensors": lambda x: sum(itertools.chain.from_iterable([[x], (x, x)])),
    "chain.from_iterable of what is there": lambda x: x * len(list(itertools.chain.from_iterable(CONFIG["hidden"]))),
    "a cached property that is filled": lambda x: x * FILLED.twice,
    "a cached property of what is made": lambda x: x * Lazy(4).twice,
    "a namespace": lambda x: types.SimpleNamespace(a=x + 1, b=2),
    "a named tuple": lambda x: Pair(x + 1, 2),
    "a class of named tuples that is made": lambda x: _named(x),
    "a partial's keywords": lambda x: x * functools.partial(torch.add, alpha=2).keywords["alpha"],
    "groups of a match": lambda x: x * len(re.match(r"(?P<a>.)(?P<b>.)", "ab").groupdict()),  # type: ignore[union-attr]
    "str.maketrans": lambda x: x * len("ab".translate(str.maketrans({"a": "xx"}))),
    "bisect": lambda x: x * bisect.bisect([1, 2, 3], 2),
    "a counter": lambda x: x * collections.Counter("aab")["a"],
}


def show(value: Any) -> Any:
    return [getattr(value, name) for name in ("a", "b")] if isinstance(value, types.SimpleNamespace) else value


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_whole(name: str) -> None:
    program = PROGRAMS[name]
    compiled = dynamlir.compile(program, fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            right, seen = program(X), compiled(X)
            assert type(seen) is type(right)
            torch.testing.assert_close(show(seen), show(right))
    assert len(compiled._cache) == 1


def test_what_was_read_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = [PROGRAMS["json.dumps"], PROGRAMS["chain.from_iterable of what is there"]]
    compiled = [dynamlir.compile(program) for program in programs]

    def check() -> None:
        for program, own in zip(programs, compiled):
            assert torch.equal(own(X), program(X))

    with torch.no_grad():
        check()
        monkeypatch.setitem(CONFIG["hidden"], "size", 4000)
        check()
        monkeypatch.setitem(CONFIG["hidden"], "longer", 1)
        check()
        monkeypatch.setitem(CONFIG, "act", "relu")
        check()


def test_what_calls_back_is_not_taken_for_data() -> None:
    """Objects with methods of their own may run any code."""

    class Odd(dict[str, int]):
        def items(self) -> Any:
            return [("a", 1), ("b", 2)]

    class Path:
        def __fspath__(self) -> str:
            return "ab"

    odd, path = Odd(a=1), Path()
    for program in (lambda x: x * len(json.dumps(odd)), lambda x: x * len(os.fspath(path))):
        compiled = dynamlir.compile(program)
        with torch.no_grad():
            assert torch.equal(compiled(X), program(X))


def test_a_cached_property_of_an_existing_object_is_filled() -> None:
    lazy = Lazy(5)
    compiled = dynamlir.compile(lambda x: x * lazy.twice)
    with torch.no_grad():
        assert torch.equal(compiled(X), X * 10)
        assert vars(lazy)["twice"] == 10
        assert torch.equal(compiled(X), X * 10)
    assert not dynamlir.counters()["fallbacks"]


@torch.no_grad()
def test_attention_with_a_mask() -> None:
    attention = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval()
    x, mask = torch.randn(1, 3, 4), torch.ones(3, 3).triu(1).bool()

    def function(x: torch.Tensor) -> torch.Tensor:
        return attention(x, x, x, attn_mask=mask)[0]

    torch.testing.assert_close(dynamlir.compile(function, fullgraph=True)(x), function(x))
