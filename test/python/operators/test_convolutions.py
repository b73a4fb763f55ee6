"""Generated convolutions: windows, strides, padding, dilation, groups, partial vectors, layouts, epilogues.

The reference is the same computation in float64.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from products import SCHEDULE, close, compiled, exact, generated, wide_vectors
from sampled import one_in, one_in_product
from test_products import planned, run_text
from torch import Tensor
from torch.nn import functional as F


def conv(**options: Any) -> Callable[..., Tensor]:
    """A convolution with these options."""
    return lambda x, w, b: F.conv2d(x, w, b, **options)


def check(fn: Callable[..., Tensor], x: Tensor, w: Tensor, folder: Path) -> None:
    """Checks that the compiled function agrees with the exact one and that the convolution is generated."""
    b = torch.randn(w.shape[0])
    close(compiled(fn, folder, x, w, b), exact(fn, x, w, b), w[0].numel())


WINDOWS = [(1, 1), (3, 3), (1, 5), (7, 2)]
STRIDES = [1, 2, (3, 1), (1, 3)]


@pytest.mark.parametrize(("window", "stride"), one_in_product(3, WINDOWS, STRIDES))
def test_windows_and_strides(window: tuple[int, int], stride: Any, tmp_path: Path) -> None:
    for padding, dilation in itertools.product((0, 1, (0, 3)), (1, (1, 2))):
        x, w = torch.randn(2, 5, 13, 21), torch.randn(19, 5, *window)
        check(conv(stride=stride, padding=padding, dilation=dilation), x, w, tmp_path / f"{padding}{dilation}")


SIZES = [(1, 1), (7, 7), (9, 16), (5, 33), (40, 40), (1, 50), (50, 1)]


@pytest.mark.parametrize(("size", "images"), one_in_product(3, SIZES, [1, 3]))
def test_sizes(size: tuple[int, int], images: int, tmp_path: Path) -> None:
    for window in (1, 3):
        x, w = torch.randn(images, 8, *size), torch.randn(21, 8, window, window)
        check(conv(padding=window // 2), x, w, tmp_path / str(window))


def test_weights_with_dimensions_of_one_element(tmp_path: Path) -> None:
    """Their strides carry no information: channels-last windows of one element, channel or filter are in order."""
    last = {"memory_format": torch.channels_last}
    for at, shape in enumerate([(19, 5, 1, 1), (19, 1, 3, 3), (1, 5, 1, 1), (1, 1, 3, 3), (1, 1, 1, 3)]):
        x, w = torch.randn(2, shape[1], 9, 13), torch.randn(shape)
        for number, weight in enumerate(
            (w.to(**last), w.as_strided(shape, [s + (n == 1) for n, s in zip(shape, w.stride())]))
        ):
            check(conv(), x.to(**last), weight, tmp_path / f"{at}.{number}")


@pytest.mark.parametrize("groups", [2, 3])
def test_groups(groups: int, tmp_path: Path) -> None:
    x, w = torch.randn(2, 4 * groups, 11, 18), torch.randn(17 * groups, 4, 3, 3)
    check(conv(padding=1, groups=groups), x, w, tmp_path / "plain")
    check(conv(padding=1, stride=2, groups=groups), x, w, tmp_path / "stride")


@pytest.mark.parametrize(("window", "stride"), one_in_product(3, [*WINDOWS, (6, 6)], STRIDES))
def test_a_window_for_each_channel(window: tuple[int, int], stride: Any, tmp_path: Path) -> None:
    for padding, dilation in itertools.product((0, (2, 3)), (1, (1, 2))):
        x, w = torch.randn(2, 7, 13, 21), torch.randn(7, 1, *window)
        folder = tmp_path / f"{padding}{dilation}"
        check(conv(stride=stride, padding=padding, dilation=dilation, groups=7), x, w, folder)
        assert generated(folder) or not wide_vectors()


def pool(**options: Any) -> Callable[..., Tensor]:
    """Max pooling, with something after it."""
    return lambda x, w, b: F.max_pool2d(x, **options) + b[: x.shape[1], None, None]


@pytest.mark.parametrize(("window", "stride"), one_in_product(3, [*WINDOWS, (2, 2), (6, 6)], STRIDES))
def test_largest_of_windows(window: tuple[int, int], stride: Any, tmp_path: Path) -> None:
    x, unused, b = torch.randn(2, 7, 13, 21), torch.zeros(1), torch.randn(7)
    for padding, dilation in itertools.product((0, tuple(k // 2 for k in window)), (1, (1, 2))):
        fn, folder = (
            pool(kernel_size=window, stride=stride, padding=padding, dilation=dilation),
            tmp_path / f"{padding}{dilation}",
        )
        assert torch.equal(compiled(fn, folder, x, unused, b), fn(x, unused, b))
        assert generated(folder) or not wide_vectors()


def test_largest_of_what_is_no_number(tmp_path: Path) -> None:
    """NaN, infinities, windows rounded up, images with other layouts, single images, requested indices."""
    x, unused, b = torch.randn(2, 3, 9, 40), torch.zeros(1), torch.zeros(3)
    x[0, 0, 0, 0], x[0, 1, 4, 7], x[1] = float("nan"), float("inf"), float("-inf")
    fns = {
        "plain": pool(kernel_size=3, padding=1),
        "rounded": pool(kernel_size=3, stride=2, ceil_mode=True),
        "places": lambda x, w, b: F.max_pool2d(x, 3, return_indices=True)[1],
        "large": pool(kernel_size=6, stride=1),
    }
    for name, fn in fns.items():
        for layout in (x, x.transpose(2, 3), x.to(memory_format=torch.channels_last), x[0]):
            got, want = compiled(fn, tmp_path / name, layout, unused, b), fn(layout, unused, b)
            assert got.stride() == want.stride()
            torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("size", one_in(2, [(1, 1), (7, 7), (1, 40), (40, 1), (90, 130), (2, 3000), (300, 2)]))
def test_bands_of_rows(size: tuple[int, int], tmp_path: Path) -> None:
    """Images that are split into bands, the last one smaller; windows entirely within the padding."""
    x, w = torch.randn(2, 3, *size), torch.randn(3, 1, 3, 3)
    for stride, padding in ((1, 1), (2, 1), (1, 4), (2, 5)):
        check(conv(padding=padding, stride=stride, groups=3), x, w, tmp_path / f"{stride}{padding}")


@pytest.mark.parametrize("images", one_in(2, [3, 2, 18, 4]))
def test_images_share_vectors(images: int, tmp_path: Path) -> None:
    """Where an image ends in the middle of a vector, the next image continues there: with windows, lines, steps."""
    if not wide_vectors():
        pytest.skip("no processor with wide vectors")
    x, b = torch.randn(images, 12, 7, 7), torch.randn(20)
    for (window, stride), vectors in itertools.product(((3, 1), (1, 1), (1, 2), (3, 2)), (1, 3)):
        w, folder = torch.randn(20, 12, window, window), tmp_path / f"{window}{stride}{vectors}"
        fn = conv(padding=window // 2, stride=stride)
        positions = compiled(fn, folder, x, w, b)[0, 0].numel()
        panels = -(-images * positions // (16 * vectors))
        schedule = (
            f"chunk = {panels}, depth = 5, group = 7, images = {images}, rows = 4, vectors = {vectors}, width = 16"
        )
        text = SCHEDULE.sub(f"dynamo.matmul = {{{schedule}}}", planned(folder, 512))
        close(run_text(text, tmp_path, x, w, b), exact(fn, x, w, b), w[0].numel())


def test_many_channels(tmp_path: Path) -> None:
    """More than one block of channels, more than one group of outputs, weights with power-of-two strides."""
    check(conv(padding=1), torch.randn(1, 150, 9, 9), torch.randn(130, 150, 3, 3), tmp_path / "blocks")
    check(conv(), torch.randn(1, 16, 5, 8), torch.randn(1100, 16, 1, 1), tmp_path / "outputs")
    check(conv(), torch.randn(2, 1024, 6, 8), torch.randn(40, 1024, 1, 1), tmp_path / "power")


def test_operands_that_lie_otherwise(tmp_path: Path) -> None:
    x, w = torch.randn(2, 8, 10, 30), torch.randn(16, 8, 3, 3)
    cases = {
        "gaps": (x[:, :, :, 3:27], w),
        "channels last": (x.to(memory_format=torch.channels_last), w),
        "weights channels last": (x, w.to(memory_format=torch.channels_last)),
        "turned": (torch.randn(2, 8, 30, 10).transpose(2, 3), w),
        "repeated": (torch.randn(1, 8, 10, 30).expand(2, 8, 10, 30), w),
    }
    for name, (images, weights) in cases.items():
        for padding in (0, 1):
            check(conv(padding=padding), images, weights, tmp_path / f"{name}{padding}")
        check(conv(padding=1, groups=8), images, weights[:8, :1], tmp_path / f"{name} groups")


def block(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """A convolution with the operations that follow it in a residual network."""
    y = F.batch_norm(F.conv2d(x, w, padding=1), b, b.abs() + 1, b, b)
    return F.relu(y + x)


def each(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """The same with a depthwise convolution."""
    y = F.batch_norm(F.conv2d(x, w[:, :1], padding=1, groups=w.shape[0]), b, b.abs() + 1, b, b)
    return F.hardswish(y + x)


def gated(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """An epilogue that reads one number per image and channel."""
    return F.conv2d(x, w, b, padding=1) * torch.sigmoid(x.mean((2, 3), keepdim=True))


@pytest.mark.parametrize("fn", [block, each, gated])
@pytest.mark.parametrize("images", [1, 2])
def test_epilogues(fn: Callable[..., Tensor], images: int, tmp_path: Path) -> None:
    check(fn, torch.randn(images, 24, 14, 15), torch.randn(24, 24, 3, 3) / 8, tmp_path)
    if wide_vectors():
        assert generated(tmp_path)
        text = (tmp_path / "04-planned.mlir").read_text()
        assert sum("convolution" in name for name in re.findall(r"dynamo\.launch @kernels::@(\w+)", text)) == 1


def test_results_in_another_order(tmp_path: Path) -> None:
    """The consumer wants positions that do not form a line: the result is computed in order, then copied."""
    fn: Callable[..., Tensor] = lambda x, w, b: F.conv2d(x, w, b, padding=1).permute(0, 3, 2, 1).contiguous()  # noqa: E731
    check(fn, torch.randn(2, 8, 10, 12), torch.randn(16, 8, 3, 3), tmp_path / "permuted")
    other: Callable[..., Tensor] = lambda x, w, b: (  # noqa: E731
        F.conv2d(x, w, b, padding=1) + F.conv2d(x, w, b, padding=1).transpose(2, 3)
    )
    check(other, torch.randn(2, 8, 12, 12), torch.randn(16, 8, 3, 3), tmp_path / "turned")


def test_what_is_outside_counts_as_zero(tmp_path: Path) -> None:
    """NaN and infinities next to the border; windows entirely within the padding."""
    x, w, b = torch.randn(1, 8, 6, 20), torch.randn(16, 8, 3, 3), torch.randn(16)
    x[0, 0, 0, 0], x[0, 3, 5, 19] = float("nan"), float("inf")
    got, want = compiled(conv(padding=3), tmp_path, x, w, b), F.conv2d(x, w, b, padding=3)
    assert torch.equal(got.isfinite(), want.isfinite())
    close(got[want.isfinite()], want[want.isfinite()], 72)


def test_narrow_vectors(tmp_path: Path) -> None:
    if not wide_vectors():
        pytest.skip("no processor with wide vectors")
    for number, (size, options) in enumerate((((9, 21), {"padding": 1}), ((12, 12), {"stride": 2, "padding": 1}))):
        x, w, b = torch.randn(2, 6, *size), torch.randn(20, 6, 3, 3), torch.randn(20)
        compiled(conv(**options), tmp_path / str(number), x, w, b)
        for bits in (0, 256):
            text = planned(tmp_path / str(number), bits)
            close(run_text(text, tmp_path, x, w, b), exact(conv(**options), x, w, b), 54)


def test_any_schedule_gives_the_same(tmp_path: Path) -> None:
    if not wide_vectors():
        pytest.skip("no processor with wide vectors")
    x, w, b = torch.randn(2, 12, 9, 11), torch.randn(34, 6, 3, 3), torch.randn(34)
    fn = conv(padding=1, groups=2)
    compiled(fn, tmp_path / "dump", x, w, b)
    text, pick = planned(tmp_path / "dump", 512), random.Random(0)
    for number in range(24):
        vectors, width, chunk, images = pick.randint(1, 3), pick.choice([1, 8, 16]), pick.randint(1, 6), 1 + number % 2
        if images == 2:  # these compute all their panels at once
            chunk = -(-2 * 99 // (vectors * width))
        schedule = (
            f"chunk = {chunk} : i64, depth = {pick.randint(1, 7)} : i64, "
            f"group = {pick.randint(1, 20)} : i64, images = {images} : i64, rows = {pick.randint(1, 12)} : i64, "
            f"vectors = {vectors} : i64, width = {width} : i64"
        )
        try:
            close(
                run_text(SCHEDULE.sub(f"dynamo.matmul = {{{schedule}}}", text), tmp_path, x, w, b),
                exact(fn, x, w, b),
                54,
            )
        except AssertionError:
            raise AssertionError(schedule) from None


def test_any_band_gives_the_same(tmp_path: Path) -> None:
    if not wide_vectors():
        pytest.skip("no processor with wide vectors")
    x, w, b = torch.randn(2, 5, 11, 19), torch.randn(5, 1, 5, 3), torch.randn(5)
    fn = conv(padding=(2, 1), stride=(1, 2), groups=5)
    compiled(fn, tmp_path / "dump", x, w, b)
    text = planned(tmp_path / "dump", 512)
    for rows, vectors, width in itertools.product((1, 2, 3, 10, 11, 99), (1, 3, 8), (1, 8, 16)):
        schedule = (
            f"{{chunk = {rows}, depth = 1, group = 1, images = 1, rows = 1, vectors = {vectors}, width = {width}}}"
        )
        close(run_text(SCHEDULE.sub(f"dynamo.matmul = {schedule}", text), tmp_path, x, w, b), exact(fn, x, w, b), 15)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads(threads: int, tmp_path: Path) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        check(conv(padding=1), torch.randn(2, 32, 30, 30), torch.randn(48, 32, 3, 3), tmp_path / "all")
        check(conv(padding=1, groups=32), torch.randn(2, 32, 60, 60), torch.randn(32, 1, 3, 3), tmp_path / "each")
    finally:
        torch.set_num_threads(before)
