"""Numbers that eager refuses for a type, and fakes accept: compiled, they raise as well, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

INT8, UINT8, INT64, HALF, FLOAT = torch.int8, torch.uint8, torch.int64, torch.float16, torch.float32
INF, NAN = float("inf"), float("nan")

CALLS: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "fill_": lambda x, n: x.clone().fill_(n),
    "full": lambda x, n: torch.full((2,), n, dtype=x.dtype),
    "full_like": torch.full_like,
    "masked_fill": lambda x, n: x.masked_fill(x == 0, n),
    "clamp": lambda x, n: x.clamp(max=n),
    "alpha": lambda x, n: torch.add(x, x, alpha=n),
    "threshold": lambda x, n: F.threshold(x, 0, n),
    "pad": lambda x, n: F.pad(x, (1, 1), value=n),
    "mul_": lambda x, n: x.clone().mul_(n),
    "addcmul_": lambda x, n: x.clone().addcmul_(torch.full((3,), n), torch.ones(3)),
    "addcdiv_": lambda x, n: x.clone().addcdiv_(torch.full((3,), n), torch.ones(3)),
    "abs": lambda x, n: x.abs(),
    "arange": lambda x, n: torch.arange(n, dtype=x.dtype),
    "pow": torch.pow,
}

REFUSED = [
    *[
        (name, INT64, number)
        for name in ("fill_", "full", "full_like", "masked_fill", "threshold")
        for number in (INF, NAN, 1e30)
    ],
    *[
        (name, HALF, number)
        for name in ("fill_", "masked_fill", "clamp", "alpha", "pow")
        for number in (65519.0, 70000)
    ],
    *[(name, INT8, 300) for name in ("fill_", "alpha", "pow")],
    *[("alpha", torch.bool, 1.5), ("alpha", INT8, True), ("clamp", torch.bool, True), ("clamp", FLOAT, 1e300)],
    *[("pad", UINT8, -1), ("mul_", INT64, 1.5), ("mul_", torch.bool, 2), ("addcmul_", INT64, 1.5)],
    *[("addcdiv_", INT64, 1.5), ("abs", torch.bool, 0), ("arange", torch.bool, 3)],
]

TAKEN = [
    *[
        ("fill_", INT8, -128),
        ("fill_", UINT8, -1),
        ("fill_", torch.bool, NAN),
        ("fill_", HALF, INF),
        ("fill_", INT64, 1.5),
    ],
    *[
        ("masked_fill", HALF, -INF),
        ("masked_fill", HALF, 65504),
        ("clamp", HALF, INF),
        ("clamp", INT8, 300),
        ("clamp", FLOAT, NAN),
    ],
    *[
        ("alpha", INT8, -128),
        ("alpha", torch.bool, True),
        ("alpha", FLOAT, 1e38),
        ("mul_", INT8, 300),
        ("mul_", FLOAT, 1e300),
    ],
    *[("pad", INT8, -1), ("pow", INT8, 2), ("threshold", FLOAT, INF), ("addcmul_", FLOAT, 1.5)],
]


def named(case: object) -> str:
    return str(case).removeprefix("torch.")


def compiled(name: str, number: Any) -> Callable[[Tensor], Tensor]:
    dynamlir.reset()
    return dynamlir.compile(lambda x: CALLS[name](x, number))


@pytest.mark.parametrize(("name", "dtype", "number"), REFUSED, ids=named)
def test_it_raises_as_eager_does(name: str, dtype: torch.dtype, number: Any) -> None:
    x = torch.zeros(3, dtype=dtype)
    with pytest.raises(Exception) as theirs:
        CALLS[name](x, number)
    with dynamlir.config.patch(on_plain="ignore"), pytest.raises(type(theirs.value)) as ours:
        compiled(name, number)(x)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize(("name", "dtype", "number"), TAKEN, ids=named)
def test_what_eager_takes_is_compiled(name: str, dtype: torch.dtype, number: Any) -> None:
    x = torch.zeros(3, dtype=dtype)
    found = compiled(name, number)(x)
    torch.testing.assert_close(found, CALLS[name](x, number), equal_nan=True, rtol=0, atol=0)
    assert not dynamlir.counters()["fallbacks"]


def test_ints_that_vary_are_held_against_the_type() -> None:
    """A size used as a number is specialized if the type cannot represent all its values."""
    compiled = dynamlir.compile(lambda x, y: torch.full_like(x, y.shape[0]), dynamic=True)
    for size in (3, 100, 127):
        assert compiled(torch.zeros(2, dtype=INT8), torch.zeros(size)).tolist() == [size, size]
    with dynamlir.config.patch(on_plain="ignore"), pytest.raises(RuntimeError, match="without overflow"):
        compiled(torch.zeros(2, dtype=INT8), torch.zeros(128))
