"""Generated attention: sizes that do not fill a vector, masks of any layout, causal masks, fully masked rows.

The reference is torch's own formula in float64.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch
from products import SCHEDULE, compiled, generated, program, wide_vectors
from sampled import one_in_product
from test_products import planned, run_text
from torch import Tensor
from torch.nn import functional as F

INF = float("inf")


def attend(**options: Any) -> Callable[..., Tensor]:
    """Attention with these options and an optional mask."""
    return lambda q, k, v, mask=None: F.scaled_dot_product_attention(q, k, v, mask, **options)


def close(got: Tensor, fn: Callable[..., Tensor], *args: Tensor) -> None:
    """Checks that the result is eager's and equally accurate."""
    eager, want = fn(*args), fn(*(arg.double() for arg in args))
    assert got.shape == eager.shape and got.stride() == eager.stride()
    assert torch.equal(got.isnan(), eager.isnan())
    error = (got.double() - want)[~got.isnan()].abs()
    assert error.numel() == 0 or error.max().item() <= 4e-6, error.max()


def check(folder: Path, fn: Callable[..., Tensor], *args: Tensor) -> None:
    """Checks that the compiled function agrees with eager and that its attention is generated."""
    close(compiled(fn, folder, *args), fn, *args)
    assert generated(folder) or not wide_vectors()


def heads(*shape: int) -> Tensor:
    """A random operand by batch, head, row and element, laid out as in models: heads lie within a row."""
    batch, number, lines, length = shape
    return torch.randn(batch, lines, number, length).transpose(1, 2)


LINES = [(2, 1), (5, 7), (16, 16), (33, 50), (130, 97), (7, 300), (300, 48)]


@pytest.mark.parametrize(("lines", "causal"), one_in_product(3, LINES, [False, True]))
def test_sizes(lines: tuple[int, int], causal: bool, tmp_path: Path) -> None:
    queries, keys = lines
    for outer, depth, length in (((1, 1), 8, 8), ((2, 3), 33, 33), ((1, 2), 64, 64)):
        q, k, v = heads(*outer, queries, depth), heads(*outer, keys, depth), heads(*outer, keys, length)
        check(tmp_path / f"{outer}{depth}", attend(is_causal=causal), q, k, v)


def test_layouts(tmp_path: Path) -> None:
    """Operands with different layouts, operands shared by all heads, and operands in the same memory."""
    made = {
        "lines": lambda: heads(2, 3, 20, 24),
        "heads": lambda: torch.randn(2, 3, 20, 24),
        "gaps": lambda: torch.randn(2, 3, 20, 30)[..., 3:27],
        "repeated": lambda: torch.randn(2, 1, 20, 24).expand(2, 3, 20, 24),
    }
    names = [*made]
    for first, second in zip(names, names[1:] + names[:1], strict=True):
        q, v = made[first], made[second]
        check(tmp_path / first, attend(), q(), v(), v())
    x = heads(2, 3, 20, 24)
    check(tmp_path / "same", lambda x: attend()(x, x, x), x)


def direct(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The operator itself: torch calls it only where the elements of a row are adjacent."""
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0]


def test_elements_far_apart(tmp_path: Path) -> None:
    """Rows that are columns of memory: these operands, including the values, are copied."""
    turned = lambda lines: torch.randn(2, 3, 40, lines).transpose(2, 3)  # noqa: E731
    args = turned(20), turned(37), turned(37)
    got = compiled(direct, tmp_path, *args)
    assert generated(tmp_path) or not wide_vectors()
    want = attend()(*(arg.double() for arg in args))
    assert (got.double() - want).abs().max() <= 4e-6


def test_masks(tmp_path: Path) -> None:
    q, k, v = heads(2, 3, 37, 16), heads(2, 3, 45, 16), heads(2, 3, 45, 16)
    masks = {
        "all": torch.randn(2, 3, 37, 45),
        "heads": torch.randn(2, 1, 37, 45),
        "shared": torch.randn(37, 45),
        "keys": torch.randn(2, 1, 1, 45).expand(2, 3, 37, 45),
        "queries": torch.randn(1, 1, 37, 1).expand(2, 3, 37, 45),
        "turned": torch.randn(45, 37).t(),
        "one": torch.randn(1, 1, 1, 1).expand(2, 3, 37, 45),
    }
    for name, mask in masks.items():
        run = program(attend(), tmp_path / name)
        for some in (mask, torch.where(torch.rand_like(mask) < 0.4, -INF, mask)):
            close(run(q, k, v, some), attend(), q, k, v, some)
        assert generated(tmp_path / name) or not wide_vectors()
    check(tmp_path / "scaled", attend(scale=0.7), q, k, v, masks["all"])
    boolean: Callable[..., Tensor] = lambda q, k, v, mask: attend()(q, k, v, mask > 0)  # noqa: E731
    close(compiled(boolean, tmp_path / "bool", q, k, v, masks["all"]), boolean, q, k, v, masks["all"])


def check_odd_numbers(folder: Path, operands: tuple[Tensor, ...], line: int) -> None:
    """Checks for eager's results where one operand has NaN, an infinity or a large number in this row."""
    run = program(attend(), folder / "odd")
    for number, which in itertools.product((float("nan"), INF, -INF, 3e3), range(len(operands))):
        args = [x.clone() for x in operands]
        args[which][0, 0, line, 9] = number
        torch.testing.assert_close(run(*args), attend()(*args), rtol=2e-5, atol=2e-5, equal_nan=True)


def test_what_is_no_number(tmp_path: Path) -> None:
    """Fully masked rows; NaN and infinities in queries, keys, values and masks; scores far apart."""
    q, k, v, mask = heads(1, 2, 20, 16), heads(1, 2, 40, 16), heads(1, 2, 40, 16), torch.zeros(1, 1, 20, 40)
    mask[..., 3:5, :] = -INF
    check(tmp_path / "masked", attend(), q, k, v, mask)
    check_odd_numbers(tmp_path, (q, k, v, mask), 7)


@pytest.mark.parametrize("keys", [1, 300])
def test_one_query(keys: int, tmp_path: Path) -> None:
    """The decoding step: one query becomes row and column kernels instead of attention, with any mask in any layout."""
    q, k, v = heads(2, 3, 1, 40), heads(2, 3, keys, 40), heads(2, 3, keys, 33)
    masks = {"shared": torch.randn(1, keys), "all": torch.randn(2, 3, 1, keys)}
    masks["nothing"] = torch.full((2, 1, 1, keys), -INF)
    # A batch whose second element is fully masked.
    masks["a part"] = torch.stack([torch.zeros(1, 1, keys), torch.full((1, 1, keys), -INF)])
    below: Callable[..., Tensor] = lambda q, k, v, mask: attend()(q, k, v, mask < 0.5)  # noqa: E731
    close(compiled(below, tmp_path / "bool", q, k, v, masks["shared"]), below, q, k, v, masks["shared"])
    for name, args in {"none": (), **{name: (mask,) for name, mask in masks.items()}}.items():
        for fn in (attend(), attend(scale=0.3)) if name == "all" else (attend(),):
            close(compiled(fn, tmp_path / name, q, k, v, *args), fn, q, k, v, *args)
            assert "aten._scaled" not in (tmp_path / name / "04-planned.mlir").read_text()
    close(compiled(attend(is_causal=True), tmp_path / "causal", q, k, v), attend(is_causal=True), q, k, v)
    turned = torch.randn(2, 3, 40, keys).transpose(2, 3)
    got = compiled(direct, tmp_path / "turned", q, turned, turned)
    assert (got.double() - attend()(q.double(), turned.double(), turned.double())).abs().max() <= 4e-6


@pytest.mark.parametrize("masked", [False, True])
def test_one_query_of_heads_that_share_keys(masked: bool) -> None:
    """Grouped-query attention: up to four adjacent heads share keys, as in most models; larger ones use the library."""
    dynamlir.reset()
    fn = attend(enable_gqa=True)
    for queries, shared in ((4, 2), (4, 1), (6, 2), (9, 1)):
        step = dynamlir.compile(attend(enable_gqa=True))
        for keys in (1, 7, 8, 65, 300, 2):
            q, k, v = heads(2, queries, 1, 32), heads(2, shared, keys, 32), heads(2, shared, keys, 32)
            args = (torch.randn(2, queries, 1, keys),) if masked else ()
            close(step(q, k, v, *args), fn, q, k, v, *args)
        assert len(step._cache) <= 3
    assert dynamlir.counters()["ops_extern"] <= 3, dynamlir.counters()


def test_one_query_that_is_no_number(tmp_path: Path) -> None:
    q, k, v, mask = heads(1, 2, 1, 16), heads(1, 2, 40, 16), heads(1, 2, 40, 16), torch.zeros(1, 1, 1, 40)
    check_odd_numbers(tmp_path, (q, k, v, mask), 0)


@pytest.mark.parametrize("masked", [False, True])
def test_one_query_to_keys_that_grow(masked: bool) -> None:
    """One graph from the second length on, without library calls."""
    dynamlir.reset()
    step = dynamlir.compile(attend())
    for keys in (1, 5, 6, 7, 64, 701, 8, 2):
        q, k, v = heads(1, 4, 1, 64), heads(1, 4, keys, 64), heads(1, 4, keys, 64)
        args = (torch.where(torch.arange(keys) < 3, 0.0, -1e4)[None],) if masked else ()
        close(step(q, k, v, *args), attend(), q, k, v, *args)
    counters = dynamlir.counters()
    assert counters["graphs_compiled"] <= 3 and not counters["ops_extern"], counters


def test_what_follows_is_fused(tmp_path: Path) -> None:
    fn: Callable[..., Tensor] = lambda q, k, v: torch.sigmoid(q) * attend()(q, k, v) + 1  # noqa: E731
    args = heads(2, 3, 30, 32), heads(2, 3, 40, 32), heads(2, 3, 40, 32)
    check(tmp_path, fn, *args)
    text = (tmp_path / "04-planned.mlir").read_text()
    assert not wide_vectors() or text.count("dynamo.launch @kernels") == 1


def test_left_to_the_library(tmp_path: Path) -> None:
    """Other dtypes, too many keys, dropout."""
    for fn, args in (
        (attend(), [heads(1, 2, 20, 16).double()] * 3),
        (attend(), [heads(1, 2, 20, 16).bfloat16()] * 3),
        (attend(), [heads(1, 1, 40, 16), *[heads(1, 1, 3000, 16)] * 2]),
    ):
        got, want = compiled(fn, tmp_path / "dump", *args), fn(*args)
        assert torch.equal(got, want)
        assert "dynamo.attention" not in (tmp_path / "dump" / "03-kernels.mlir").read_text()


def test_any_schedule_gives_the_same(tmp_path: Path) -> None:
    if not wide_vectors():
        pytest.skip("no processor with wide vectors")
    args = heads(1, 2, 23, 20), heads(1, 2, 37, 20), heads(1, 2, 37, 20)
    for causal in (False, True):
        fn = attend(is_causal=causal)
        compiled(fn, tmp_path / f"{causal}", *args)
        for bits in (0, 256):
            close(run_text(planned(tmp_path / f"{causal}", bits), tmp_path, *args), fn, *args)
        text = planned(tmp_path / f"{causal}", 512)
        for block, keys, values, width in ((1, 1, 1, 16), (5, 2, 4, 8), (99, 3, 1, 16), (8, 4, 2, 1), (22, 1, 3, 8)):
            schedule = f"dynamo.matmul = {{block = {block}, keys = {keys}, values = {values}, width = {width}}}"
            close(run_text(SCHEDULE.sub(schedule, text), tmp_path, *args), fn, *args)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads(threads: int, tmp_path: Path) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        check(tmp_path, attend(), heads(2, 4, 150, 64), heads(2, 4, 150, 64), heads(2, 4, 150, 64))
    finally:
        torch.set_num_threads(before)
