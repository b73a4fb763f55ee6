"""Interpreters whose frame layout is unknown: one warning for all functions, plain Python, the other front door as
usual.

The program pretends to run on another interpreter by overwriting the C function that returns the version.
"""

from __future__ import annotations

import platform

import forked
import pytest
from interpreters import KNOWN

PRETENDING = """
import ctypes, mmap

at = ctypes.cast(ctypes.pythonapi.Py_GetVersion, ctypes.c_void_p).value
text = ctypes.create_string_buffer({version!r})
page = at & ~(mmap.PAGESIZE - 1)
allowed = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), 2 * mmap.PAGESIZE, allowed) == 0
code = bytes([0x48, 0xB8]) + ctypes.addressof(text).to_bytes(8, "little") + bytes([0xC3])  # mov rax, text; ret
ctypes.memmove(at, code, len(code))
"""

PRETENDED = """
import warnings
import dynamlir, torch

x = torch.ones(3)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    function, module = dynamlir.compile(lambda x: x + 1), dynamlir.compile(torch.nn.ReLU())
    for _ in range(2):
        assert function(x).tolist() == [2.0] * 3 and module(-x).tolist() == [0.0] * 3
    assert torch.compile(lambda x: x * 2, backend="dynamlir")(x).tolist() == [2.0] * 3
for warning in said:
    print(warning.category.__name__, warning.filename, warning.message)
assert dynamlir.counters()["graphs_compiled"] == 1 and dynamlir.counters()["fallbacks"] == {"unknown-python": 2}
try:
    dynamlir.compile(lambda x: x, fullgraph=True)
except dynamlir.Unsupported as error:
    print(error)
"""

# Training, dynamic sizes, gradients of gradients, an operator of torch: none of these depends on the layout of objects.
TRAINED = """
import copy
import dynamlir, torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.linalg.inv(x.mT @ x + torch.eye(4)) @ self.linear(x).tanh().mT * x.shape[0]

torch.manual_seed(0)
eager = Model()
trained = copy.deepcopy(eager)
compiled = torch.compile(trained, backend="dynamlir", dynamic=True)
for size in (5, 6, 7):
    x = torch.randn(size, 4, requires_grad=True)
    found = []
    for model, of in (eager, eager), (compiled, trained):
        (gradient,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
        found.append([gradient, *torch.autograd.grad(gradient.sum(), [x, *of.parameters()])])
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
assert dynamlir.counters()["fallbacks"] == {}, dynamlir.counters()
assert dynamlir.counters()["graphs_compiled"], dynamlir.counters()
"""

needs_code = pytest.mark.skipif(platform.machine() != "x86_64", reason="the code that pretends is of another machine")
UNLOCKED = b"3.14.2 free-threading build (main)"


@needs_code
@pytest.mark.parametrize(
    ("version", "said"),
    [
        (b"3.16.0 (main)", "CPython 3.16.0 (main) is not supported"),
        (b"3.13.1 experimental free-threading build (main)", "free-threaded CPython is not supported"),
        (UNLOCKED, "free-threaded CPython is not supported"),
    ],
)
def test_an_unknown_one_warns_once(version: bytes, said: str) -> None:
    finished = forked.python(PRETENDING.format(version=version) + PRETENDED)
    assert finished.returncode == 0, finished.stderr
    warned, raised = finished.stdout.splitlines()
    assert warned.startswith("PlainRunWarning") and said in warned and f"{KNOWN[0]} to {KNOWN[-1]}" in warned
    assert "unknown-python" in raised and said in raised


@needs_code
def test_torchs_door_is_open_without_the_lock() -> None:
    finished = forked.python(PRETENDING.format(version=UNLOCKED) + TRAINED)
    assert finished.returncode == 0, finished.stderr
