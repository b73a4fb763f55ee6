"""Kernels whose sizes are arguments: one kernel is right for sizes that are tiled and distributed differently."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

SIZES = [(5, 7), (64, 128), (300, 77), (2, 3000), (700, 65), (16, 16)]
"""Rows and columns: less than a vector and more than a block, with and without a remainder, little work and much."""

torch.manual_seed(0)
NORM = torch.nn.LayerNorm(65)

PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "bias and gelu": lambda x: F.gelu(x + x[0]),
    "softmax": lambda x: torch.softmax(x, -1),
    "softmax of columns": lambda x: torch.softmax(x, 0),
    "masked softmax": lambda x: torch.softmax(x.masked_fill(x > 1, -1e4), -1),
    "deviations": lambda x: (x - x.mean(0)) / (x.var(0) + 1).sqrt(),
    "root mean square": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
    "sums of rows": lambda x: x.sum(-1),
    "sums of columns": lambda x: x.sum(0),
    "mean of all": lambda x: (x * x).mean(),
    "largest of all": lambda x: x.amax(),
    "positions of the largest": lambda x: x.argmax(-1),
    "position of the largest of all": lambda x: x.argmax(),
    "running sums": lambda x: x.cumsum(-1),
    "running sums of columns": lambda x: x.cumsum(0),
    "transposed": lambda x: x.t().contiguous() + 1,
    "put together": lambda x: torch.cat([x, x * 2], 1),
    "every other column": lambda x: x[:, ::2] * 2,
    "rows by index": lambda x: x[(x[:, 0] > 0).long()],
}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    dynamlir.reset()
    yield
    torch.set_num_threads(threads)
    dynamlir.reset()


@pytest.mark.parametrize("element", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_kernel_is_right_for_all_sizes(name: str, element: torch.dtype) -> None:
    program = PROGRAMS[name]
    compiled = dynamlir.compile(program, dynamic=True, fullgraph=True)
    for rows, columns in SIZES:
        x = torch.randn(rows, columns).to(element)
        tolerance = {} if element == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
        torch.testing.assert_close(compiled(x), program(x), **tolerance)
    assert len(compiled._cache) == 1


@pytest.mark.parametrize("name", ["layer norm", "a head"])
def test_rows_are_open_and_columns_are_numbers(name: str) -> None:
    program = {"layer norm": lambda x: NORM(x), "a head": lambda x: torch.log_softmax(NORM(x), -1)}[name]
    compiled = dynamlir.compile(program, fullgraph=True)
    for rows in (3, 4, 900, 17, 2):
        x = torch.randn(rows, 65)
        torch.testing.assert_close(compiled(x), program(x))
    assert len(compiled._cache) == 2


LINES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "a row and a matrix": lambda x, y: x[:, :1] @ y,
    "a row and a turned matrix": lambda x, y: x[:, :1] @ x.mT,
    "a matrix and a column": lambda x, y: x @ y[:, :, :1],
    "a turned matrix and a column": lambda x, y: y.mT @ y[:, :, :1],
    "a matrix and a vector": lambda x, y: x[0] @ y[0, :, 0],
    "a vector and a matrix": lambda x, y: x[0, 0] @ y[0],
    "a sum and a product": lambda x, y: torch.baddbmm(y[:, :1], x[:, :1], y),
}
"""Products of `x`, with rows and a depth, and `y`, with the depth and columns, with one row or column."""


@pytest.mark.parametrize("name", LINES)
def test_products_with_one_line(name: str) -> None:
    """Sums along memory or across it: no library call for a dynamic size, whichever size that is."""
    program = LINES[name]
    compiled = dynamlir.compile(program, dynamic=True, fullgraph=True)
    for batch, rows, depth, columns in ((2, 3, 5, 7), (3, 40, 129, 65), (2, 9, 1000, 8), (5, 5, 5, 5)):
        x, y = torch.randn(batch, rows, depth), torch.randn(batch, depth, columns)
        # The library rounds sums of a thousand more coarsely than 1e-5.
        torch.testing.assert_close(compiled(x, y).double(), program(x.double(), y.double()), rtol=1e-4, atol=1e-4)
        assert compiled(x, y).dtype == torch.float32
    counters = dynamlir.counters()
    assert len(compiled._cache) == 1 and counters["graphs_compiled"] == 1 and not counters["ops_extern"], counters


def test_products_with_several_lines_are_the_librarys() -> None:
    compiled = dynamlir.compile(lambda x, y: x @ y, dynamic=True, fullgraph=True)
    for rows, depth in ((3, 5), (40, 129)):
        x, y = torch.randn(2, rows, depth), torch.randn(2, depth, 4)
        torch.testing.assert_close(compiled(x, y), x @ y)
    assert dynamlir.counters()["ops_extern"] == 1
