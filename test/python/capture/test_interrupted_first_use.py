"""Ctrl-C during the imports of a process's first call: the caller gets the exception, and later calls are right."""

from __future__ import annotations

import subprocess
import sys

FIRST_CALL = """
import signal, sys
import torch
import dynamlir


class Deadline(Exception):
    pass


def late(*args):
    raise Deadline


class Interrupts:
    points = {1: signal.SIGINT, 3: signal.SIGALRM, 40: signal.SIGINT, 200: signal.SIGINT, 500: signal.SIGALRM}
    imports = 0

    def find_spec(self, name, path=None, target=None):
        self.imports += 1
        if self.imports in self.points:
            signal.raise_signal(self.points[self.imports])


signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGALRM, late)
assert "torch._dynamo" not in sys.modules
interrupts = Interrupts()
sys.meta_path.insert(0, interrupts)
function = lambda x: torch.nn.functional.gelu(x) * 2 + 1
x, raised = torch.ones(3), []
while True:
    try:
        result = dynamlir.compile(function, fullgraph=True)(x)
    except (KeyboardInterrupt, Deadline) as error:
        raised.append(type(error).__name__)
        assert len(raised) < 50
        assert torch._C._len_torch_dispatch_stack() == 0
        continue
    break
assert interrupts.imports > 500, interrupts.imports
assert set(raised) == {"KeyboardInterrupt", "Deadline"}, raised
torch.testing.assert_close(result, function(x))
assert not dynamlir.fallbacks(), dynamlir.fallbacks()
assert torch.equal(torch.compile(lambda x: x + 1, backend="dynamlir")(x), x + 1)
"""


def test_interruptions_of_what_the_first_call_imports() -> None:
    """One process, which repeats the call after each interruption."""
    done = subprocess.run([sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
