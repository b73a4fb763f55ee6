"""The code of kernels is released with the last function that uses it, except that of the latest few kernels."""

from __future__ import annotations

import gc
import textwrap

import dynamlir
import forked
import pytest
import torch

X = torch.ones(4)


def one(number: int):
    space: dict = {}
    exec(f"def f(x): return x.sin() * {number}.25 + 1", space)
    return dynamlir.compile(space["f"])


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()
    with torch.no_grad():
        yield


def reused() -> bool:
    """Returns true if the kernels of the latest compilation had been compiled before."""
    return dynamlir.last_compile().threads == 0


def test_a_kernel_in_use_is_found_again_however_many_come_after_it():
    first = one(1)
    first(X)
    for number in range(100, 200):
        one(number)(X)
    again = one(1)
    assert torch.allclose(again(X), X.sin() * 1.25 + 1)
    assert reused()
    assert torch.allclose(first(X), X.sin() * 1.25 + 1)


def test_one_of_the_latest_is_found_again_though_nothing_uses_it():
    one(2)(X)
    gc.collect()
    one(2)(X)
    assert reused()


def test_one_that_nothing_has_used_for_long_is_compiled_again():
    one(3)(X)
    for number in range(200, 300):
        one(number)(X)
    gc.collect()
    compiled = one(3)
    assert torch.allclose(compiled(X), X.sin() * 3.25 + 1)
    assert not reused()


def test_memory_does_not_grow_with_functions_that_are_gone():
    program = """
    import gc, torch, dynamlir
    def resident():
        gc.collect()
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    x = torch.ones(4)
    def one(number):
        space = {}
        exec(f"def f(x): return x.sin() * {number}.25 + 1", space)
        dynamlir.compile(space["f"])(x)
    for number in range(60):
        one(number)
    before = resident()
    for number in range(100, 300):
        one(number)
    print((resident() - before) / 200)
    """
    done = forked.python(textwrap.dedent(program))
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 40, f"{done.stdout} KiB for each function that is gone"
