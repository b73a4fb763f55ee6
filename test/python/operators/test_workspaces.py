"""The memory for graphs' intermediate values is shared by graphs that run one after another, and has a limit."""

from __future__ import annotations

import textwrap
import threading

import dynamlir
import forked
import torch

# Prints the growth of the process in MiB while graphs run, counted from after graph {first} or from the start. Each
# graph has {mib} MiB between a kernel and a product.
PROGRAM = """
import gc, torch, dynamlir
def resident():
    gc.collect()
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024
x, w = torch.ones({mib}, 2**18), torch.ones(2**18, 1)
def one(number):
    space = {{}}
    exec(f"def f(x, w): return (x.sin() * {{number}}.25) @ w", space)
    compiled = dynamlir.compile(space["f"])
    for _ in range(2):
        compiled(x, w)
    return compiled
before = resident()
kept = []
for number in range({graphs}):
    kept.append(one(number))
    if number == {first}:
        before = resident()
assert not dynamlir.fallbacks()
print(resident() - before)
"""


def growth(mib: int, graphs: int, first: int = -1) -> float:
    done = forked.python(textwrap.dedent(PROGRAM.format(mib=mib, graphs=graphs, first=first)))
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def test_large_ones_are_shared():
    assert growth(mib=64, graphs=3, first=0) < 64


def test_huge_ones_are_given_back():
    assert growth(mib=520, graphs=1) < 300


def test_threads_have_one_each():
    def f(x):
        return (x.sin() * 2) @ x.cos()

    compiled = dynamlir.compile(f)
    xs = [torch.randn(768, 768) + number for number in range(4)]
    with torch.no_grad():
        wanted = [f(x) for x in xs]
        compiled(xs[0])
        wrong: list[int] = []

        def run(number: int) -> None:
            with torch.no_grad():
                for _ in range(20):
                    if not torch.allclose(compiled(xs[number]), wanted[number], rtol=1e-3, atol=1e-3):
                        wrong.append(number)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
