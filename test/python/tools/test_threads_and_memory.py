"""Kernels on machines and memory of all kinds: threads, cores, sizes, strides and addresses never change a result.

Each is tested with a map, a reduction, a product and a convolution, since each of these is generated in its own way.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from sampled import one_in
from torch import Tensor
from torch.nn import functional as F


def mapped(x: Tensor, y: Tensor) -> Tensor:
    return torch.tanh(x) * y + 1


def reduced(x: Tensor, y: Tensor) -> Tensor:
    return torch.softmax(x - y, 1)


def summed(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(0)


def product(x: Tensor, w: Tensor) -> Tensor:
    return torch.relu(F.linear(x, w))


def columns(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


def convolution(x: Tensor, w: Tensor) -> Tensor:
    return torch.relu(F.conv2d(x, w, padding=1))


def agree(fn: Callable[..., Tensor], *args: Tensor, run: Callable[..., Tensor] | None = None) -> None:
    """Checks that the compiled function gives eager's result, also at its first call."""
    before = dynamlir.fallbacks()
    with torch.no_grad():
        got, want = (run or dynamlir.compile(fn))(*args), fn(*args)
    assert dynamlir.fallbacks() == before, dynamlir.fallbacks()[len(before) :]
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    assert got.stride() == want.stride()


def work(scale: int = 1) -> list[tuple[Callable[..., Tensor], tuple[Tensor, ...]]]:
    """One function of each kind, large enough for threads to share."""
    a = torch.randn(67 * scale, 1021)
    image, windows = torch.randn(2, 24, 31, 29), torch.randn(40, 24, 3, 3)
    return [
        (mapped, (a, a + 1)),
        (reduced, (a, a * 2)),
        (summed, (a, a - 1)),
        (product, (a, torch.randn(203, 1021))),
        (columns, (a[:7], torch.randn(1021, 301))),
        (convolution, (image, windows)),
    ]


# Threads and cores.

PROGRAM = """
    import os
    {before}
    import torch, dynamlir, test_threads_and_memory as cases
    runs = [(dynamlir.compile(fn), fn, args) for fn, args in cases.work()]
    for number in range(2):
        for run, fn, args in runs:
            cases.agree(fn, *args, run=run)
        {after}
    assert dynamlir.counters()["graphs_compiled"] == len(runs)
    print(torch.get_num_threads())
"""


def elsewhere(before: str = "", after: str = "", **environment: str) -> int:
    """Runs the work in a separate process; returns the number of threads that torch had."""
    return int(run(PROGRAM.format(before=before, after=after), **environment))


def run(program: str, **environment: str) -> str:
    """The output of another process, which imports this file as a module."""
    here = os.path.dirname(__file__)
    environment["PYTHONPATH"] = os.pathsep.join([here, os.path.dirname(here), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("threads", one_in(2, [1, 2, 7]))
def test_threads_that_the_environment_asks_for(threads: int) -> None:
    """Torch uses no more threads than there are cores."""
    assert elsewhere(OMP_NUM_THREADS=str(threads)) in (threads, os.cpu_count())


@pytest.mark.parametrize("settings", ["OMP_THREAD_LIMIT=1", "OMP_DYNAMIC=true OMP_PROC_BIND=true KMP_BLOCKTIME=0"])
def test_other_settings_of_openmp(settings: str) -> None:
    elsewhere(**dict(setting.split("=") for setting in settings.split()))


def test_one_core() -> None:
    """Restricted before torch starts, as under taskset or in a container; and later, when functions are already
    compiled.
    """
    one = "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    assert elsewhere(before=one) == 1
    elsewhere(after=one)


def test_no_more_threads_may_be_made() -> None:
    """At the limit of a container, kernels are compiled on the existing thread."""
    program = """
        import os, resource, threading
        import torch, dynamlir, test_threads_and_memory as cases
        x, y = torch.randn(40, 50), torch.randn(40, 50)
        # What this imports nobody else may be able to read.
        cases.agree(cases.mapped, x[0], y[0])
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        os.getuid() or os.setuid(65534)
        try:
            threading.Thread(target=print).start()
            print("unlimited")
        except RuntimeError:
            several = lambda x, y: torch.cat([f(x, y).flatten() for f in (cases.reduced, cases.summed)])
            cases.agree(several, x, y)
            cases.agree(cases.product, x, y)
            assert dynamlir.counters()["kernels"] > 3, dynamlir.counters()
    """
    if run(program, OMP_NUM_THREADS="1", DYNAMLIR_COMPILE_THREADS="4") == "unlimited":
        pytest.skip("this system lets threads be made without limit")


def test_the_number_of_threads_changes_between_calls() -> None:
    before = torch.get_num_threads()
    runs = [(dynamlir.compile(fn), fn, args) for fn, args in work()]
    try:
        for threads in (1, 2, 5, 1, 3):
            torch.set_num_threads(threads)
            for run, fn, args in runs:
                agree(fn, *args, run=run)
    finally:
        torch.set_num_threads(before)


# Sizes.


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 13, 127, 1009])
def test_sizes_divisible_by_nothing(size: int) -> None:
    for other in (1, 7, 31, 131):
        x, y = torch.randn(size, other), torch.randn(size, other)
        for fn in (mapped, reduced, summed):
            agree(fn, x, y)
        agree(product, x, torch.randn(37, other))
        agree(product, torch.randn(11, size), torch.randn(other, size))
        agree(columns, torch.randn(other, size), y)


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (7, 5), (13, 17), (1, 101), (101, 1)])
def test_images_divisible_by_nothing(size: tuple[int, int]) -> None:
    for images, channels, outputs in ((1, 1, 17), (3, 7, 19), (0, 4, 16)):
        agree(convolution, torch.randn(images, channels, *size), torch.randn(outputs, channels, 3, 3))


FAR = 2**31 + 2**29
"""The number of elements, few of which are touched: distances exceed 32 bits, and untouched pages cost nothing."""


def test_memory_that_is_far_apart() -> None:
    memory = torch.empty(FAR)

    def spread(*sizes: int) -> Tensor:
        """Spread over all of the memory along the first dimension, in order along the others."""
        inner = [int(torch.tensor(sizes[at + 1 :]).prod()) for at in range(1, len(sizes))]
        view = memory.as_strided(sizes, [FAR // sizes[0], *inner])
        return view.copy_(torch.randn(sizes))

    for fn in (mapped, reduced, summed):
        agree(fn, spread(33, 65), torch.randn(33, 65))
    agree(product, spread(40, 70), torch.randn(50, 70))
    agree(product, torch.randn(40, 70), spread(50, 70))
    agree(product, spread(3, 70), torch.randn(50, 70))
    agree(columns, torch.randn(5, 40), spread(40, 70))
    agree(convolution, spread(3, 8, 9, 9), torch.randn(16, 8, 3, 3))


# Addresses and strides.


def odd(*sizes: int) -> Tensor:
    """At an address that is misaligned for a float."""
    count = int(torch.tensor(sizes).prod())
    made = torch.frombuffer(bytearray(4 * count + 1), dtype=torch.float32, count=count, offset=1).view(sizes)
    assert made.data_ptr() % 4 in (1, 3)
    return made.copy_(torch.randn(sizes))


def shifted(*sizes: int) -> Tensor:
    """One element past the alignment of an allocation."""
    count = int(torch.tensor(sizes).prod())
    return torch.randn(count + 1)[1:].view(sizes)


def apart(*sizes: int) -> Tensor:
    """Every other element of each row, and a gap after the row."""
    return torch.randn(*sizes[:-1], 2 * sizes[-1] + 3)[..., 1 : 2 * sizes[-1] + 1 : 2]


def turned(*sizes: int) -> Tensor:
    """With the last two dimensions exchanged."""
    return torch.randn(*sizes[:-2], sizes[-1], sizes[-2]).transpose(-1, -2)


def overlapping(*sizes: int) -> Tensor:
    """Each row starts one element after the previous one."""
    return torch.randn(sum(sizes)).as_strided(sizes, [1] * len(sizes))


LAYOUTS: dict[str, Callable[..., Tensor]] = {
    layout.__name__: layout for layout in (odd, shifted, apart, turned, overlapping)
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_memory_of_any_kind(name: str) -> None:
    layout = LAYOUTS[name]
    for m, n in ((50, 70), (3, 67), (17, 16)):
        for fn in (mapped, reduced, summed):
            agree(fn, layout(m, n), torch.randn(m, n))
            agree(fn, torch.randn(m, n), layout(m, n))
        agree(product, layout(m, n), layout(33, n))
        agree(columns, layout(m, n), layout(n, 33))
    agree(convolution, layout(2, 8, 9, 11), layout(16, 8, 3, 3))


@pytest.mark.parametrize("name", ["odd", "shifted"])
def test_addresses_change_between_calls(name: str) -> None:
    """Nothing is assumed about an address because it was true for an earlier call."""
    for fn, args in work():
        run = dynamlir.compile(fn)
        agree(fn, *args, run=run)
        moved: tuple[Any, ...] = tuple(LAYOUTS[name](*arg.shape).copy_(arg) for arg in args)
        agree(fn, *moved, run=run)
        agree(fn, *args, run=run)
