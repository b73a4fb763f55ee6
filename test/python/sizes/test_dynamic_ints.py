"""Int arguments that change from call to call: constants at first, then symbols, behind both doors."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch

VALUES = [3, 4, 5, 7, 11, 13, 16, 17, 2, 31, 32, 6, 9, 10, 12, 14, 15, 18, 19, 20]
HUGE = [2**31, 2**40 + 1, 2**53 + 1, 2**62, 2**70]


X = torch.randn(40, 6)

SHAPES: dict[str, Callable[..., Any]] = {
    "a part": lambda x, n: x[:n] * 2,
    "a part from": lambda x, n: x[n:].sin(),
    "a range": lambda x, n: torch.arange(n) + x[0, 0],
    "a view": lambda x, n: torch.ones(n * 4, dtype=x.dtype).view(n, -1) + x[0, :4],
    "zeros": lambda x, n: x.new_zeros(n, 6) + x[:1],
    "an expansion": lambda x, n: (x[:1].expand(n, -1) + 1).sum(0),
    "repeated": lambda x, n: x[:1].repeat(n, 1) - 1,
    "padded": lambda x, n: torch.nn.functional.pad(x, (0, 0, 0, n)),
    "narrowed": lambda x, n: x.narrow(0, 0, n).exp(),
    "split": lambda x, n: torch.cat([x[:n] + 1, x[n:] - 1]),
    "arithmetic": lambda x, n: x[: 2 * n - n, : (n + 4) // (n + 1)] + 1,
}
NUMBERS: dict[str, Callable[..., Any]] = {
    "a factor": lambda x, n: x * n,
    "a term": lambda x, n: x + n - 2 * n,
    "a divisor": lambda x, n: x / n,
    "computed": lambda x, n: x * (n * n + 3) - (n // 2) + n % 3,
    "of whole numbers": lambda x, n: (x * 8).long() * n + n,
    "of truth values": lambda x, n: (x > 0) * n,
    "filled": lambda x, n: torch.full((3,), n),
    "a tensor": lambda x, n: torch.tensor(n) + x,
    "compared": lambda x, n: x + 1 if n > 2 else x - 1,
    "compared with contents": lambda x, n: (x * 10).long() < n,
    "returned": lambda x, n: (x + 1, n, [n + 1], {"n": n * 2}),
    "in a list": lambda x, n: sum(x * m for m in [n, n + 1]),
    "its type": lambda x, n: x * n if isinstance(n, int) and not isinstance(n, bool) and type(n) is int else x,
}
PROGRAMS = {**SHAPES, **NUMBERS}


def same(found: Any, expected: Any) -> None:
    """Checks that both are equal, types included."""
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, (tuple, list)):
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected)
    else:
        assert found == expected


def graphs() -> int:
    return sum(made.eager is None for made in dynamlir.compiles())


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_int_is_one_entry_once_it_has_changed(name: str) -> None:
    program = PROGRAMS[name]
    compiled = dynamlir.compile(program, fullgraph=True)
    for n in VALUES:
        same(compiled(X, n), program(X, n))
    # One for the first value, one for all values, and perhaps one for the other side of a comparison.
    assert graphs() <= 3 and len(compiled._cache) <= 3
    assert not dynamlir.counters()["fallbacks"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_int_is_one_graph_behind_torch_compile(name: str) -> None:
    program = PROGRAMS[name]
    compiled = torch.compile(program, backend="dynamlir", fullgraph=True)
    for n in VALUES:
        same(compiled(X, n), program(X, n))
    assert graphs() <= 3
    assert not dynamlir.counters()["fallbacks"]


@pytest.mark.parametrize("door", [dynamlir.compile, lambda program: torch.compile(program, backend="dynamlir")])
def test_ints_below_two_are_entries_of_their_own(door: Callable[..., Any]) -> None:
    def program(x: torch.Tensor, n: int) -> tuple[torch.Tensor, int]:
        return x * n + x[: abs(n)].sum(), -n

    compiled = door(program)
    for n in [3, 4, 0, 1, -1, -3, -4, 2, -2, 5, -39, 0, 17, -17, 1, 40]:
        same(compiled(X, n), program(X, n))
    # Two for each sign, and one each for 0, 1 and -1.
    assert graphs() <= 7
    assert not dynamlir.counters()["fallbacks"]


def test_what_is_no_int_is_none() -> None:
    class Own(int):
        pass

    class Kind(enum.IntEnum):
        SMALL = 5
        LARGE = 9

    def program(x: torch.Tensor, n: Any) -> tuple[Any, ...]:
        return x * n, type(n), n

    compiled = dynamlir.compile(program)
    for n in (3, True, 4, False, 5, Own(5), 6, Own(7), Kind.SMALL, 9, Kind.LARGE, True, 8.0, 8):
        same(compiled(X, n), program(X, n))


def test_huge_ints() -> None:
    def program(x: torch.Tensor, n: int) -> tuple[Any, ...]:
        return x * 2, n + 1, n * 3 if n < 2**60 else -n

    compiled = dynamlir.compile(program)
    for n in [5, 6, *HUGE, 7, *(-n for n in HUGE)]:
        same(compiled(X, n), program(X, n))

    def factor(x: torch.Tensor, n: int) -> torch.Tensor:
        return x.double() * n

    compiled = dynamlir.compile(factor)
    for n in [5, 6, 2**31, 2**40 + 1, 2**47 + 1, 2**53 + 1, -(2**47), 7]:
        same(compiled(X, n), factor(X, n))


def test_results_that_64_bits_do_not_hold() -> None:
    def program(x: torch.Tensor, n: int) -> tuple[torch.Tensor, int]:
        return x + 1, n * n * n

    compiled = dynamlir.compile(program)
    for n in (3, 4, 2**30, 5, 2**40, 6):
        same(compiled(X, n), program(X, n))


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows, self.seen = 3, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return x[: self.rows] * self.rows


def test_sources_of_ints() -> None:
    """Attributes of modules, items of lists, tuples and dicts, globals, variables of enclosing functions."""
    module, listed, named = Counting(), [3, 5], {"n": 3, "deep": (3, [4])}
    enclosed = 3

    def program(x: torch.Tensor, *rest: int, key: int = 4) -> tuple[Any, ...]:
        y = module(x)
        z = x[: listed[0]] * listed[1] + named["deep"][1][0]
        return y, z, x[rest[0] :] + key, x[:enclosed] - ROWS, named["n"] + rest[1]

    compiled = dynamlir.compile(program)
    for at, n in enumerate(VALUES):
        module.rows = listed[0] = enclosed = n
        listed[1], named["n"], named["deep"] = n + 1, n + 2, (n, [n + 3])
        globals()["ROWS"] = n + 4
        found = compiled(X, n, n + 5, key=n + 6)
        seen = module.seen
        same(found, program(X, n, n + 5, key=n + 6))
        assert module.seen == seen + 1 and graphs() == min(at + 1, 2)
    assert not dynamlir.counters()["fallbacks"]


ROWS = 3


def test_an_int_and_sizes() -> None:
    """An int that equals a size by chance, or because it has to."""

    def program(x: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
        return x[:n] + torch.arange(n)[:, None], x * n

    compiled = dynamlir.compile(program)
    for rows, n in [(8, 8), (9, 9), (9, 5), (12, 7), (7, 7), (30, 30), (31, 8), (40, 39)]:
        x = torch.randn(rows, 3)
        same(compiled(x, n), program(x, n))
    assert not dynamlir.counters()["fallbacks"]
    assert len(compiled._cache) <= 4


def test_an_int_that_python_needs() -> None:
    """It decides what is computed: one entry per value, and plain Python once the limit is reached."""

    def program(x: torch.Tensor, n: int) -> torch.Tensor:
        for at in range(n):
            x = x * 2 + at
        return x

    compiled = dynamlir.compile(program)
    with dynamlir.config.patch(on_plain="ignore"):
        for n in (2, 3, 4, 2, 5, 3):
            same(compiled(X, n), program(X, n))
    assert len(compiled._cache) == 4


def test_an_int_that_raises() -> None:
    compiled = dynamlir.compile(lambda x, n: x.view(n, -1) + 1)
    for n in (2, 3, 4, 5, 6, 8):
        same(compiled(X, n), X.view(n, -1) + 1)
    with pytest.raises(RuntimeError, match="shape '\\[7, -1\\]' is invalid"):
        compiled(X, 7)
    same(compiled(X, 10), X.view(10, -1) + 1)


def test_gradients_and_random_numbers() -> None:
    weight = torch.randn(6, requires_grad=True)
    compiled = dynamlir.compile(lambda n: (X[:n] * weight * n).sum())
    for n in (3, 4, 5, 9):
        compiled(n).backward()
        found, weight.grad = weight.grad, None
        (X[:n] * weight * n).sum().backward()
        torch.testing.assert_close(found, weight.grad)
        weight.grad = None
    drawn = dynamlir.compile(lambda n: torch.rand(n))
    assert [len(drawn(n)) for n in (3, 4, 5)] == [3, 4, 5]


def test_ints_are_numbers_where_nothing_varies() -> None:
    compiled = dynamlir.compile(lambda x, n: x * n, dynamic=False)
    for n in (3, 4, 5):
        same(compiled(X, n), X * n)
    assert len(compiled._cache) == 3


def test_what_is_written_is_that_of_the_call() -> None:
    class State:
        last: Any = None

    state, log, named = State(), [], {}

    def program(x: torch.Tensor, n: int) -> torch.Tensor:
        state.last = n + 1
        log.append(n * 2)
        named["n"] = (n, [n // 2])
        return x * n

    compiled = dynamlir.compile(program, fullgraph=True)
    for n in (3, 4, 5, 9, 2**20, -3, -4, -7):
        same(compiled(X, n), X * n)
        assert (state.last, log[-1], named) == (n + 1, n * 2, {"n": (n, [n // 2])})
        assert type(state.last) is type(log[-1]) is type(named["n"][0]) is int
    # One for the first value, and one for all values of each sign.
    assert graphs() == 3


def test_a_default_and_a_loop_around() -> None:
    def program(x: torch.Tensor, n: int = 3) -> torch.Tensor:
        for part in range(2):
            x = torch.cat([x, x[:n] + part])
        return x

    compiled = dynamlir.compile(program)
    for n in (None, 4, 5, 6, None, 7):
        given = () if n is None else (n,)
        same(compiled(X, *given), program(X, *given))
    assert len(compiled._cache) == 2


def test_a_graph_break_between() -> None:
    seen: list[int] = []

    def program(x: torch.Tensor, n: int) -> torch.Tensor:
        y = x[:n] * n
        seen.append(int(y.sum().tolist() > 0))
        return y[: n // 2] + n

    compiled = dynamlir.compile(program)
    with dynamlir.config.patch(on_plain="ignore"):
        for n in (4, 5, 6, 7, 12, 2, 3):
            same(compiled(X, n), program(X, n))


def test_ints_where_python_looks() -> None:
    """As keys, in sets, text and indices, by identity, in C code: plain Python's results."""
    programs: list[Callable[..., Any]] = [
        lambda x, n: x * {4: 2, 5: 3}.get(n, 1),
        lambda x, n: x + len({n, 5}),
        lambda x, n: x + len(f"{n:3d}"),
        lambda x, n: x * [1, 2, 3, 4, 5, 6, 7, 8, 9][n],
        lambda x, n: x + 1 if n is not None else x,
        lambda x, n: x * (n in (4, 6)),
        lambda x, n: x + sum(range(n)),
        lambda x, n: x * sorted([n, 5])[0],
        lambda x, n: x * n.bit_length(),
        lambda x, n: x * max(n, 5) + min(n, 4),
        lambda x, n: x + (n & 3) + (n << 1) + (n ^ 1) + (n >> 1),
        lambda x, n: x * divmod(n, 3)[1] + round(n) + abs(-n),
        lambda x, n: x.sum(n - n) + x.transpose(0, 1)[n].sum(),
        lambda x, n: torch.randn(n, generator=torch.Generator().manual_seed(n)).sum() * 0 + x,
        lambda x, n: x.to(torch.float64 if n == 5 else torch.float32),
        lambda x, n: x + bool(n) + (not n) + (n or 3) + (n and 2),
        lambda x, n: x[n] + x[-n] + x[..., n],
        lambda x, n: x.clamp(-n, n) + x.pow(2) * n**2,
        lambda x, n: torch.where(x > 0, n, x) + torch.eye(n).sum(),
        lambda x, n: x.new_full((n,), n).sum() + torch.linspace(0, 1, n).sum(),
    ]
    x = torch.randn(9, 9)
    for program in programs:
        dynamlir.reset()
        compiled = dynamlir.compile(program)
        with dynamlir.config.patch(on_plain="ignore"):
            for n in (3, 4, 5, 6, 8, 4, 2, 7):
                same(compiled(x, n), program(x, n))


def test_integer_kinds_that_change_places() -> None:
    """A float, a tensor, text or None in place of an int that varies."""
    compiled = dynamlir.compile(lambda x, n: x * n if n is not None else x)
    with dynamlir.config.patch(on_plain="ignore"):
        for n in (3, 4, 0.5, 5, None, 6, torch.tensor(2.0), 7, 1.5, 2.5, -8, 0, 9):
            same(compiled(X, n), X * n if n is not None else X)


def test_an_int_that_is_handed_back_is_the_same_object() -> None:
    compiled = dynamlir.compile(lambda x, n: (x * n, n))
    for n in (3, 4, 1000, -2000, 2**40):
        assert compiled(X, n)[1] is n
