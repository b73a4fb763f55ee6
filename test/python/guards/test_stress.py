"""Many calls, many compilations, many threads: nothing leaks, and nothing is mixed up."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch
from torch import Tensor, nn


def resident() -> int:
    """The memory of this process, in KiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4


def eight_threads(work: Callable[[int], None]) -> None:
    """Runs ``work(number)`` in each of eight threads, until all have ended."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@torch.no_grad()
def test_a_million_calls_leave_nothing_behind() -> None:
    compiled = dynamlir.compile(lambda x: x + 1)
    x = torch.randn(8)
    for _ in range(10_000):
        compiled(x)
    gc.collect()
    objects, references, memory = len(gc.get_objects()), sys.getrefcount(x), resident()
    for _ in itertools.repeat(None, 1_000_000):
        compiled(x)
    gc.collect()
    assert sys.getrefcount(x) == references
    # Leftovers of other tests may be freed meanwhile.
    assert len(gc.get_objects()) - objects < 100
    # Each call creates a tensor of some 300 bytes: a leak of one in thirty would show.
    assert resident() - memory < 10_000


@torch.no_grad()
def test_calls_that_miss_raise_or_are_refused_leave_nothing_behind() -> None:
    def function(x: Tensor, scale: float, *, fail: bool = False) -> Tensor:
        if fail:
            raise ValueError("as asked")
        return x * scale

    compiled = dynamlir.compile(function)
    x, scale = torch.randn(8), 2.5

    def all_ways() -> None:
        compiled(x, scale)
        with pytest.raises(ValueError, match="as asked"):
            compiled(x, scale, fail=True)
        with pytest.raises(TypeError):
            compiled(x)
        with pytest.raises(TypeError):
            compiled(x, scale, unknown=1)

    for _ in range(100):
        all_ways()
    gc.collect()
    objects, references = len(gc.get_objects()), (sys.getrefcount(x), sys.getrefcount(scale))
    for _ in range(5_000):
        all_ways()
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(scale)) == references
    assert len(gc.get_objects()) - objects < 100


class Model(nn.Module):
    """A model large enough to be noticed if it leaks."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.ballast = nn.Buffer(torch.zeros(1 << 16))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.fc(x)) + self.ballast[:8]


def a_model() -> tuple[Any, Tensor]:
    model = Model().eval()
    return model, model.ballast


def a_function() -> tuple[Any, Tensor]:
    ballast = torch.zeros(1 << 16)

    def function(x: Tensor) -> Tensor:
        return x + ballast[:8]

    return function, ballast


@torch.no_grad()
@pytest.mark.parametrize(("make", "count"), [(a_function, 1_000), (a_model, 150)])
def test_compilations_leave_nothing_behind(make: Callable[[], tuple[Any, Tensor]], count: int) -> None:
    """All functions share one code object: entries of freed functions do not count."""
    x = torch.randn(2, 8)
    references: list[weakref.ref[Any]] = []

    def compile_and_drop(count: int) -> None:
        for _ in range(count):
            subject, ballast = make()
            # Not "eager": torch keeps the source of its fx modules.
            compiled = dynamlir.compile(subject, backend="python")
            torch.testing.assert_close(compiled(x), subject(x))
            references.extend([weakref.ref(subject), weakref.ref(ballast)])
            assert len(compiled._cache) == 1
        del subject, ballast, compiled
        # Drops what is kept on purpose for inspection: the latest reports and traces.
        dynamlir.reset()
        gc.collect()

    compile_and_drop(30)
    objects, memory = len(gc.get_objects()), resident()
    compile_and_drop(count)
    assert not any(reference() is not None for reference in references)
    # The bound is a quarter of the ballast, which is 256 KiB each. An allocator may keep memory of earlier tests once,
    # but a leak grows in every round.
    grown = [resident() - memory]
    while grown[-1] >= count * 64 and len(grown) < 3:
        memory = resident()
        compile_and_drop(count)
        grown.append(resident() - memory)
    assert grown[-1] < count * 64
    # The weak references are objects, too.
    assert len(gc.get_objects()) - objects - 2 * count * len(grown) < 500


@torch.no_grad()
def test_machine_code_goes_with_its_function() -> None:
    def function(number: int) -> Any:
        return dynamlir.compile(lambda x: x * number + number)

    x = torch.randn(4)

    def compile_and_drop(first: int, count: int) -> None:
        for number in range(first, first + count):
            torch.testing.assert_close(function(number)(x), x * number + number)
        dynamlir.reset()
        gc.collect()

    compile_and_drop(0, 10)
    memory = resident()
    compile_and_drop(10, 40)
    assert resident() - memory < 40_000


@torch.no_grad()
def test_eight_threads_call_one_function_with_shapes_of_their_own() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(x * 2 + y).sum(-1)

    compiled = dynamlir.compile(function)
    start = threading.Barrier(8)
    wrong: list[str] = []

    def work(number: int) -> None:
        x, y = torch.randn(2, number + 1), torch.randn(number + 1)
        start.wait()
        # Grad mode is local to the thread.
        with torch.no_grad():
            for turn in range(300):
                x.add_(0.001 * turn)
                try:
                    torch.testing.assert_close(compiled(x, y), function(x, y))
                except Exception as error:
                    wrong.append(f"thread {number}, turn {turn}: {error}")
                    return

    eight_threads(work)
    assert not wrong, wrong
    assert 1 <= len(compiled._cache) <= 8


def test_threads_share_an_entry_and_its_memory() -> None:
    """One entry, eight concurrent runs: each has its own workspace, also where torch lets other threads run."""
    compiled = dynamlir.compile(lambda x, w: torch.softmax(x @ w, -1) @ w)
    w = torch.randn(64, 64)
    wrong: list[str] = []

    def work(number: int) -> None:
        x = torch.full((64, 64), 0.01 * number)
        with torch.no_grad():
            expected = torch.softmax(x @ w, -1) @ w
            for turn in range(200):
                difference = (compiled(x, w) - expected).abs().max()
                if not difference < 1e-4:
                    wrong.append(f"thread {number}, turn {turn}: {difference}")
                    return

    eight_threads(work)
    assert not wrong, wrong
    assert len(compiled._cache) == 1
