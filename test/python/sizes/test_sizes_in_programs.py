"""Programs that use sizes, called with many of them: plain Python's results, regardless of what becomes a symbol."""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import math
import operator
from collections.abc import Iterator
from typing import Any

import dynamlir
import pytest
import torch
import torch.nn.functional as F

SIZES = (4, 5, 7, 3, 8, 2, 16, 1, 0, 17, 5)

SEEN: list[int] = []
NAMES = {2: "two", 3: "three", 5: "five"}


@dataclasses.dataclass
class Shape:
    rows: int
    columns: int


@functools.lru_cache(None)
def numbers(n: int) -> list[int]:
    return list(range(n))


def handles_an_index(x):
    try:
        return x[5], x.shape[0]
    except IndexError:
        return x.sum(), -1


def handles_a_view(x):
    try:
        return x.view(8, -1)
    except RuntimeError:
        return x.view(-1)


def remembers(x):
    return x + sum(numbers(x.shape[0]))


def keeps_in_an_object(x):
    shape = Shape(*x.shape)
    return x * shape.rows, shape


def multiplies(x):
    return x.reshape(functools.reduce(operator.mul, x.shape)), math.prod(x.shape[1:]), x.shape.numel()


def looks_through(x):
    every = list(itertools.accumulate(x.shape)), [n for n in x.shape if n > 3], sorted(x.shape), x.shape[::-1]
    return every, max(x.shape), min(*x.shape, 4), [*map(lambda n: n + 1, x.shape)], dict(zip("ab", x.shape)), x + 1


def counts(x):
    total = x.sum()
    for i in range(x.shape[0]):
        total = total + x[i].sum() * i
    n = x.shape[0]
    while n > 3:
        n //= 2
    return total * n


def tells(x):
    return f"{x.shape}", "{:>4}|{}".format(*x.shape), str(x.shape), repr(list(x.shape)), NAMES.get(x.shape[0]), x + 1


def notes(x):
    SEEN.append(x.shape[0])
    return x * 2


def matches(x):
    match x.shape[0]:
        case 3:
            return x
        case int(n) if n > 6:
            return x * n
        case _:
            return -x


def computes_floats(x):
    return x * float(x.shape[0]) + x.shape[0] / 3 + 1 / math.sqrt(x.shape[0])


def computes_bits(x):
    n = x.shape[0]
    return x * (n & 3) + (n << 2) - (n >> 1) + (n ^ 5) + (~n), n.bit_length(), n.to_bytes(2, "big"), n.real


def compares(x):
    return x.shape == torch.Size([3, 4]), x.shape[0] == 3.0, x.size() == x.shape, x.shape[0] is None, x + 1


def asks_types(x):
    n = x.shape[0]
    return isinstance(n, (int, float)), type(n).__name__, hash(n), hash(x.shape), not n, n and 5, {n, 3}, x + 1


def splits(x):
    return torch.split(x, [1, x.shape[0] - 1])


def pads(x):
    n = 8 - x.shape[0]
    return F.pad(x, (0, 0, 0, n)) if n > 0 else x[:8]


def indexes(x):
    y = x.clone()
    y[x.shape[0] // 2 :] += 1
    return y, x[..., -x.shape[1] :], x[-1:], x.index_select(0, torch.arange(x.shape[0] - 1, -1, -1))


def makes(x):
    n = x.shape[0]
    return (
        torch.ones(n).cumsum(0) + torch.arange(1, n + 1),
        torch.eye(n),
        torch.full((2,), n),
        torch.tensor(list(x.shape)),
        x,
    )


def divides(x):
    return -x.shape[0] // 2, divmod(x.shape[1], x.shape[0]), x % x.shape[0], x // x.shape[0]


def raises(x):
    assert x.shape[0] < 16, x.shape[0]
    if x.shape[0] == 5:
        raise ValueError(f"no {x.shape[0]}")
    return x + 1


def expands(x):
    return (
        x.expand(2, *x.shape),
        x.new_zeros(x.shape),
        torch.empty(x.shape).fill_(1),
        x.new_full((x.shape[0], 1), x.shape[0]),
    )


def averages(x):
    return x.mean(), x.mean(dim=0, keepdim=True), F.layer_norm(x, x.shape[1:]), F.mse_loss(x, x * 2), x.norm()


def tells_strides(x):
    return x.stride(), x.t().stride(), x.t().contiguous().is_contiguous(), x.t()


def copies(x):
    return copy.copy(x.shape), copy.deepcopy([x.shape[0]]), x + 1


PROGRAMS = [
    handles_an_index,
    handles_a_view,
    remembers,
    keeps_in_an_object,
    multiplies,
    looks_through,
    counts,
    tells,
    notes,
    matches,
    computes_floats,
    computes_bits,
    compares,
    asks_types,
    splits,
    pads,
    indexes,
    makes,
    divides,
    raises,
    expands,
    averages,
    tells_strides,
    copies,
]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(dynamlir.config, "on_plain", "ignore")
    dynamlir.reset()
    with torch.no_grad():
        yield


def outcome(function: Any, x: torch.Tensor) -> Any:
    SEEN.clear()
    try:
        return function(x), list(SEEN)
    except Exception as error:
        return type(error), str(error)


def agree(found: Any, expected: Any) -> bool:
    if type(found) is not type(expected):
        return False
    if isinstance(found, torch.Tensor):
        same = (found.shape, found.stride(), found.dtype) == (expected.shape, expected.stride(), expected.dtype)
        return same and torch.allclose(found, expected, atol=1e-5, equal_nan=True)
    if isinstance(found, dict):
        return agree(list(found.items()), list(expected.items()))
    if isinstance(found, (list, tuple)):
        return len(found) == len(expected) and all(map(agree, found, expected))
    return agree(vars(found), vars(expected)) if isinstance(found, Shape) else found == expected


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_is_right_for_all_sizes(program: Any, dynamic: bool | None) -> None:
    compiled = dynamlir.compile(program, dynamic=dynamic)
    for rows in SIZES:
        x = torch.randn(rows, 4)
        found, expected = outcome(compiled, x), outcome(program, x)
        assert agree(found, expected), f"{rows} rows: {found}, expected {expected}"


def stores_its_shape(x: torch.Tensor, into: Shape) -> torch.Tensor:
    into.rows, into.columns = x.shape, (x.shape[0] + 1, "text")
    return x * 2


def test_an_object_is_told_of_sizes_that_vary() -> None:
    """The text of a write in reports must not specialize the sizes."""
    compiled = dynamlir.compile(stores_its_shape)
    for rows in SIZES:
        x, found, expected = torch.randn(rows, 4), Shape(0, 0), Shape(0, 0)
        assert torch.equal(compiled(x, found), stores_its_shape(x, expected))
        assert found == expected
    assert not dynamlir.fallbacks()
