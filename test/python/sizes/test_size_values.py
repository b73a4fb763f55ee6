"""Dynamic sizes as values of the program: Python's operations on an int, and the assumptions recorded for them."""

from __future__ import annotations

import copy
import math
import operator
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dynamlir import native

BINARY: list[Callable[[Any, Any], Any]] = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.floordiv,
    operator.mod,
    operator.truediv,
    operator.and_,
    operator.or_,
    operator.xor,
    operator.lshift,
    operator.rshift,
    operator.pow,
    divmod,
    min,
    max,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
    operator.ne,
]
UNARY: list[Callable[[Any], Any]] = [
    operator.neg,
    operator.pos,
    operator.invert,
    abs,
    int,
    float,
    complex,
    bool,
    str,
    repr,
    hash,
    round,
    math.floor,
    math.ceil,
    math.trunc,
    math.sqrt,
    copy.deepcopy,
    "{:04d}".format,
    lambda n: round(n, 1),
    lambda n: [0] * n,
    lambda n: "ab" * n,
    lambda n: {n: 1}[int(n)],
    lambda n: list(range(n)),
    lambda n: (1,) + (2,) * n,
    lambda n: torch.Size([n, 2]) == (n, 2),
    lambda n: 10**30 + n,
    lambda n: n < 10**30,
    lambda n: n / 2.5,
    lambda n: 2.5 // n,
    lambda n: n * 1j,
    lambda n: n == "n",
    lambda n: n != None,  # noqa: E711
    lambda n: pow(n, 3, 7),
]


def sizes() -> Any:
    return native.module().Sizes()


def same(found: Any, expected: Any) -> None:
    """Checks that both are equal, also in type if the program could tell."""
    if isinstance(expected, tuple):
        assert isinstance(found, tuple)
        for left, right in zip(found, expected, strict=True):
            same(left, right)
        return
    assert found == expected
    assert isinstance(found, torch.SymInt) or type(found) is type(expected), (found, type(found))


@pytest.mark.parametrize("value", [2, 3, 8, 17])
@pytest.mark.parametrize("at", range(len(UNARY)))
def test_unary(value: int, at: int) -> None:
    same(UNARY[at](sizes().size(value)), UNARY[at](value))


def test_random_arithmetic_is_that_of_ints_now_and_for_other_sizes() -> None:
    rng = random.Random(0)
    for _ in range(600):
        known = sizes()
        hints = [rng.choice([2, 3, 5, 8, 16]) for _ in range(2)]
        others = [rng.choice([2, 3, 4, 7, 8, 16, 33]) for _ in range(2)]
        symbols = [known.size(hint) for hint in hints]
        terms: list[tuple[Any, int, Any]] = list(zip(symbols, hints, others))
        terms += [(number, number, number) for number in (rng.randint(-3, 9), rng.randint(1, 5))]
        for _ in range(rng.randint(1, 6)):
            op = rng.choice(BINARY)
            left, right = rng.choice(terms), rng.choice(terms)
            if op in (operator.lshift, operator.rshift, operator.pow) and not 0 <= right[1] < 6:
                continue
            try:
                expected = op(left[1], right[1])
            except (ZeroDivisionError, ValueError) as error:
                with pytest.raises(type(error)):
                    op(left[0], right[0])
                continue
            found = op(left[0], right[0])
            same(found, expected)
            if type(expected) is not int or abs(expected) > 2**40:
                continue
            try:
                other = op(left[2], right[2]) if left[2] is not None and right[2] is not None else None
            except (ZeroDivisionError, ValueError):
                other = None
            terms.append((found, expected, other if type(other) is int else None))
        assert known.failed is None
        if not known.holds(others):
            continue
        # The assumptions hold for other sizes too: then every expression has the value that ints give there.
        for found, _, other in terms:
            if isinstance(found, torch.SymInt) and other is not None:
                node: Any = found.node
                assert node.at(others) == other
            elif other is not None:
                assert found == other


def test_what_is_known_is_not_assumed() -> None:
    known = sizes()
    n = known.size(8)
    assert n >= 2 and n != 0 and n + 1 > n and 2 * n >= 4 and not n < 1
    assert (n + n) - 2 * n == 0 and (4 * n) // 4 == n and (4 * n) % 4 == 0
    assert not known.guards


def test_what_was_assumed_is_said() -> None:
    known = sizes()
    n = known.size(8)
    assert n % 8 == 0
    assert n <= 16
    assert [text for text, _ in known.guards] == ["s0 mod 8 == 0", "s0 <= 16"]
    assert (n // 8) * 8 == n and len(known.guards) == 2
    assert int(n) == 8
    assert [text for text, _ in known.guards][2:] == ["s0 == 8"]
    assert int(n + 1) == 9 and len(known.guards) == 3


def test_torch_takes_it_for_a_size() -> None:
    known = sizes()
    n = known.size(8)
    meta = torch.empty(n, 4, device="meta")
    assert str(meta.numel().node) == "s0*4"  # type: ignore[attr-defined]
    turned = meta.view(2 * n, 2).t().contiguous()
    assert [str(size) for size in turned.stride()] == ["s0*2", "1"]
    assert not known.guards
