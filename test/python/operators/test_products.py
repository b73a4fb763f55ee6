"""Generated products of matrices: every form and remainder, layouts, epilogues, and schedules edited by hand.

The reference is the same in float64. Errors of a sum of n products of numbers near 1 grow as √n · 2⁻²⁴.
"""

from __future__ import annotations

import random
import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import dynamlir
import pytest
import torch
from products import SCHEDULE, close, compiled, exact, generated, wide_vectors
from sampled import one_in, one_in_product
from stages import dynamlir_opt
from torch import Tensor
from torch.nn import functional as F

LINES, DEPTHS = [1, 2, 3, 5, 8, 15, 16, 17, 33, 50], [8, 17, 64, 100]


@pytest.mark.parametrize(("m", "k"), one_in_product(3, LINES, DEPTHS))
def test_layers_of_any_size(m: int, k: int, tmp_path: Path) -> None:
    for n in (1, 7, 16, 61):
        x, w, b = torch.randn(m, k), torch.randn(n, k), torch.randn(n)
        close(compiled(F.linear, tmp_path / str(n), x, w, b), exact(F.linear, x, w, b), k)


@pytest.mark.parametrize("m", one_in(2, [1, 3, 8, 15]))
def test_columns_side_by_side(m: int, tmp_path: Path) -> None:
    for n, k in ((16, 8), (100, 33), (513, 64)):
        x, w = torch.randn(m, k), torch.randn(k, n)
        close(compiled(torch.mm, tmp_path / str(n), x, w), exact(torch.mm, x, w), k)


def test_long_sums_go_in_pieces(tmp_path: Path) -> None:
    x, w = torch.randn(40, 3000), torch.randn(70, 3000)
    close(compiled(F.linear, tmp_path, x, w), exact(F.linear, x, w), 3000)


def test_rows_that_collide_are_copied(tmp_path: Path) -> None:
    x, w = torch.randn(64, 1024), torch.randn(96, 1024)
    close(compiled(F.linear, tmp_path, x, w), exact(F.linear, x, w), 1024)
    if generated(tmp_path):
        text = (tmp_path / "05-linalg.mlir").read_text()
        (rows,) = re.findall(r"form = \"panels\".* rows = (\d+)", text)
        # Rows 4 KiB apart map to one set of the cache, which has room for eight lines; tiles of AVX2 have six rows.
        assert ("copied = true" in text) == (int(rows) >= 8)


@pytest.mark.parametrize("batch", [1, 3])
def test_batches(batch: int, tmp_path: Path) -> None:
    a, b = torch.randn(batch, 20, 24), torch.randn(batch, 40, 24).transpose(1, 2)
    close(compiled(torch.bmm, tmp_path / "bmm", a, b), exact(torch.bmm, a, b), 24)
    c = torch.randn(batch, 4, 24)
    close(compiled(torch.matmul, tmp_path / "matmul", c, b), exact(torch.matmul, c, b), 24)


def gelu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(F.linear(x, w, b))


def residual(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return x + torch.relu(F.linear(x, w, b))


def kept(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    y = F.linear(x, w, b)
    return torch.stack([y, y * torch.sigmoid(y)])


def test_one_number_for_all(tmp_path: Path) -> None:
    """A scale or bias that is broadcast along every dimension."""
    scaled: Callable[..., Tensor] = lambda x, w, s: torch.relu(F.linear(x, w) * s)  # noqa: E731
    for m in (4, 40):
        for shape in ((), (1,)):
            x, w, s = torch.randn(m, 64), torch.randn(32, 64), torch.randn(shape)
            close(compiled(scaled, tmp_path / f"{m}{len(shape)}", x, w, s), exact(scaled, x, w, s), 64)
        bias = torch.randn(1).expand(32)
        close(compiled(gelu, tmp_path / f"{m}bias", x, w, bias), exact(gelu, x, w, bias), 64)


def test_sums_of_equal_terms_keep_their_last_bits(tmp_path: Path) -> None:
    """A single float accumulator for all terms would have 20 times the error."""
    for m, n in ((40, 64), (8, 64), (2, 64)):
        for fn, w in ((F.linear, torch.full((n, 2000), 0.1)), (torch.mm, torch.full((2000, n), 0.1))):
            x = torch.full((m, 2000), 0.1)
            got, want = compiled(fn, tmp_path / f"{m}{fn.__name__}", x, w), exact(fn, x, w)
            torch.testing.assert_close(got, want, rtol=2e-6, atol=0)
    images, windows = torch.full((1, 512, 9, 9), 0.1), torch.full((16, 512, 3, 3), 0.1)
    got = compiled(F.conv2d, tmp_path / "conv", images, windows)
    torch.testing.assert_close(got, exact(F.conv2d, images, windows), rtol=2e-6, atol=0)


@pytest.mark.parametrize("fn", [gelu, residual, kept])
@pytest.mark.parametrize("shape", [(2, 9, 48), (4, 48), (48,), (33, 48)])
def test_epilogues(fn: Callable[..., Tensor], shape: tuple[int, ...], tmp_path: Path) -> None:
    x, w, b = torch.randn(shape), torch.randn(48, 48), torch.randn(48)
    close(compiled(fn, tmp_path, x, w, b), exact(fn, x, w, b), 48)
    if generated(tmp_path):
        launches = re.findall(r"dynamo\.launch @kernels::@(\w+)", (tmp_path / "04-planned.mlir").read_text())
        assert sum("matmul" in name for name in launches) == 1


def test_operands_that_lie_otherwise(tmp_path: Path) -> None:
    """Gaps, steps, a storage offset, memory in reverse order, the same memory twice, a matrix of equal rows."""
    x, w = torch.randn(40, 96), torch.randn(64, 96)
    cases = {
        "gaps": (torch.randn(20, 100)[:, 2:98], w),
        "steps": (x[::2, ::2], w[::2, ::2]),
        "turned": (torch.randn(96, 20).t(), w),
        "turned both": (torch.randn(96, 20).t(), torch.randn(96, 64).t()),
        "twice": (x, x),
        "repeated": (torch.randn(1, 96).expand(20, 96), w),
        "repeated k": (torch.randn(20, 1).expand(20, 96), w),
        "offset": (torch.randn(41 * 96 + 3)[3:].as_strided((40, 96), (96, 1)), w),
    }
    for name, (a, b) in cases.items():
        close(compiled(F.linear, tmp_path / name, a, b), exact(F.linear, a, b), 96)
    flipped: Callable[..., Tensor] = lambda a, b: F.linear(a.flip(1), b.flip(0))  # noqa: E731
    close(compiled(flipped, tmp_path / "flipped", x, w), exact(flipped, x, w), 96)


def test_numbers_that_are_none(tmp_path: Path) -> None:
    """Infinities and NaN stay in their rows, as in eager; padding of a tile never reaches a result."""
    for m in (3, 20):
        x, w = torch.randn(m, 40), torch.randn(50, 40)
        x[1, 3], x[2, 5], w[7, 1] = float("nan"), float("inf"), float("-inf")
        got, want = compiled(F.linear, tmp_path / str(m), x, w), F.linear(x, w)
        assert torch.equal(got.isnan(), want.isnan()) and torch.equal(got.isinf(), want.isinf())
        finite = want.isfinite()
        close(got[finite], want[finite], 40)


def test_weights_are_read_at_each_call(tmp_path: Path) -> None:
    """No copy of the weights is kept: writes that no version counter sees take effect as well."""
    layer = torch.nn.Linear(48, 64)
    run = dynamlir.compile(layer)
    with torch.no_grad():
        for m in (4, 20):
            x = torch.randn(m, 48)
            close(run(x), exact(lambda x: F.linear(x, layer.weight.double(), layer.bias.double()), x), 48)
            layer.weight.data.mul_(2)
            layer.weight.data.numpy()[3] = 1.0
            close(run(x), exact(lambda x: F.linear(x, layer.weight.double(), layer.bias.double()), x), 48)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads(threads: int, tmp_path: Path) -> None:
    before = torch.get_num_threads()
    x, w = torch.randn(100, 256), torch.randn(300, 256)
    try:
        torch.set_num_threads(threads)
        close(compiled(F.linear, tmp_path, x, w), exact(F.linear, x, w), 256)
    finally:
        torch.set_num_threads(before)


def test_small_stacks(tmp_path: Path) -> None:
    """Large buffers of blocks are allocated on the heap."""
    x, w = torch.randn(150, 2000), torch.randn(300, 2000)
    images, windows = torch.randn(4, 128, 8, 8), torch.randn(1014, 128, 1, 1)
    layer: Callable[..., Tensor] = lambda x, w: torch.relu(F.linear(x, w))  # noqa: E731
    linear, conv = dynamlir.compile(layer), dynamlir.compile(F.conv2d)
    results: list[Tensor] = []

    def calls() -> None:
        with torch.no_grad():
            results.extend((linear(x, w), conv(images, windows)))

    calls()
    before = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=calls)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert len(results) == 4
    close(results[2], exact(layer, x, w), 2000)
    close(results[3], exact(F.conv2d, images, windows), 128)


def planned(folder: Path, bits: int) -> str:
    """Stage 05 of the dump, planned for vectors of `bits` bits."""
    passes = f"dynamo-attach-target{{vector-bits={bits}}},dynamo-plan,dynamo-to-linalg"
    command = [dynamlir_opt(), f"--pass-pipeline=builtin.module({passes})", folder / "03-kernels.mlir"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def run_text(text: str, folder: Path, *args: Tensor) -> Tensor:
    """The result of a text at stage 05, run unchanged."""
    path = folder / "05-linalg.mlir"
    path.write_text(text)
    (result,) = dynamlir.load(path)(*args)
    return result


def test_narrow_vectors(tmp_path: Path) -> None:
    """Code for AVX2 runs on every processor with wider vectors."""
    if not wide_vectors():
        pytest.skip("no processor with wide vectors")
    for m, n, k in ((1, 20, 33), (7, 61, 64), (20, 50, 40), (50, 20, 100)):
        x, w, b = torch.randn(m, k), torch.randn(n, k), torch.randn(n)
        folder = tmp_path / f"{m}x{n}x{k}"
        compiled(gelu, folder, x, w, b)
        text = planned(folder, 256)
        assert "width = 8" in text
        close(run_text(text, tmp_path, x, w, b), exact(gelu, x, w, b), k)


def test_any_schedule_gives_the_same(tmp_path: Path) -> None:
    """Schedules are data: for any schedule, the result is right, or the kernel reports why it has none."""
    if not wide_vectors():
        pytest.skip("no processor with wide vectors")
    x, w, b = torch.randn(50, 72), torch.randn(45, 72), torch.randn(45)
    compiled(gelu, tmp_path / "dump", x, w, b)
    text = planned(tmp_path / "dump", 512)
    # Schedules need different amounts of scratch memory; this is the largest of them.
    (scratch,) = re.findall(r"memref<(\d+)xf32> \{dynamo\.scratch", text)
    text = text.replace(f"memref<{scratch}xf32>", "memref<65536xf32>")
    text = re.sub(r"memref<\d+xi8>", "memref<400000xi8>", text)
    pick = random.Random(0)
    for _ in range(24):
        lanes = pick.choice(["lhs", "rhs"])
        form = pick.choice(["panels", "panels", "dots"])
        schedule = (
            f"chunk = {pick.randint(1, 5)} : i64, copied = {pick.choice(['true', 'false'])}, "
            f'depth = {pick.choice([16, 32, 72])} : i64, form = "{form}", group = {pick.randint(1, 60)} : i64, '
            f'lanes = "{lanes}", rows = {pick.randint(1, 12)} : i64, '
            f"vectors = {pick.choice([1, 2, 4] if form == 'dots' else [1, 2, 3])} : i64, "
            f"width = {pick.choice([8, 16])} : i64"
        )
        edited = SCHEDULE.sub(f"dynamo.matmul = {{{schedule}}}", text)
        try:
            close(run_text(edited, tmp_path, x, w, b), exact(gelu, x, w, b), 72)
        except AssertionError:
            raise AssertionError(schedule) from None


@pytest.mark.parametrize(
    "broken", ['form = "spiral"', "rows = 0 : i64", "width = 5 : i64", "chunk = -1 : i64", "group = 100000000 : i64"]
)
def test_a_schedule_that_is_none(broken: str, tmp_path: Path) -> None:
    if not wide_vectors():
        pytest.skip("no processor with wide vectors")
    x, w = torch.randn(50, 72), torch.randn(45, 72)
    compiled(F.linear, tmp_path / "dump", x, w)
    text = planned(tmp_path / "dump", 512)
    name = broken.split(" ")[0]
    value = r'"[^"]*"' if name == "form" else r"\d+ : i64"
    edited = SCHEDULE.sub(lambda match: re.sub(rf"{name} = {value}", broken, match.group()), text)
    assert edited != text
    close(run_text(edited, tmp_path, x, w), exact(F.linear, x, w), 72)


def test_what_runs_as_plain_loops_is_reported(tmp_path: Path) -> None:
    """The report gives the reason, also for a kernel that this process has compiled before."""
    if not wide_vectors():
        pytest.skip("no processor with wide vectors")
    compiled(F.linear, tmp_path / "dump", torch.randn(50, 72), torch.randn(45, 72))
    edited = SCHEDULE.sub('dynamo.matmul = {form = "spiral"}', planned(tmp_path / "dump", 512))
    (tmp_path / "05-linalg.mlir").write_text(edited)
    for _ in range(2):
        native = dynamlir.load(tmp_path / "05-linalg.mlir").report()
        made = dynamlir.reports.from_native(native, {})
        (name,), (reason,) = made.unscheduled.keys(), made.unscheduled.values()
        assert "matmul" in name and "schedule" in reason and reason in str(made)
