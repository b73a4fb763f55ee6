"""Composite factory kernels without tensor arguments run on fakes, except for those that would end the process."""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from both import check_both
from dynamlir.aten import decompositions, schema
from dynamlir.tracing import fresh_fake_mode
from torch._C import DispatchKey
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

KEY = DispatchKey.CompositeExplicitAutograd
LISTS = {"List[int]": [4], "List[SymInt]": [4]}
VALUES: dict[str, Any] = {"int": 4, "SymInt": 4, "number": 4, "float": 1.0, "bool": True, **LISTS}


def factories() -> Iterator[OpOverload]:
    """The aten overloads with such a kernel and without tensor arguments."""
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        packet_name, _, overload = rest.partition(".")
        packet = getattr(torch.ops.aten, packet_name, None) if namespace == "aten" else None
        op = getattr(packet, overload or "default", None)
        if not isinstance(op, OpOverload) or not op.has_kernel_for_dispatch_key(KEY):
            continue
        if not any("Tensor" in str(argument.type) for argument in op._schema.arguments):
            yield op


class Passed(TorchDispatchMode):
    """Intercepts dispatched calls as a recorder does, so that kernels run until they dispatch something."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def call_on_fakes(op: OpOverload) -> bool:
    """Calls the kernel; returns false if it refuses these arguments."""
    given = [VALUES.get(str(argument.type)) for argument in op._schema.arguments if not argument.kwarg_only]
    try:
        with fresh_fake_mode(), Passed():
            op._op_dk(KEY, *given)
    except Exception:
        return False
    return True


def ended_by(call: Callable[[], int]) -> int:
    """The exit status of a child process that makes a call, or the negated number of the signal that ended it."""
    child = os.fork()
    if child == 0:
        status = 255
        faulthandler.disable()
        try:
            status = call()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_kernels_that_are_run_on_fakes_survive_it() -> None:
    safe = [op for op in factories() if not schema.info(op).facts.in_its_result]

    def call_all() -> int:
        return sum(call_on_fakes(op) for op in safe)

    assert len(safe) > 40 and ended_by(call_all) > 20


@pytest.mark.parametrize("op", [op for op in factories() if schema.info(op).facts.in_its_result], ids=str)
def test_kernels_that_are_not_would_end_the_process(op: OpOverload) -> None:
    assert ended_by(lambda: call_on_fakes(op)) == -signal.SIGSEGV
    assert not any(run.args == (KEY,) for run in decompositions.candidates(op) if hasattr(run, "args"))


def windows(x: torch.Tensor) -> torch.Tensor:
    old = torch.kaiser_window(8) + torch.kaiser_window(8, periodic=False) * torch.kaiser_window(8, True, 3.0)
    old = (
        old
        + torch.bartlett_window(8) * torch.blackman_window(8)
        - torch.hamming_window(8)
        + torch.hann_window(8, False)
    )
    new = torch.signal.windows.kaiser(8, beta=2.0) + torch.signal.windows.gaussian(8, std=1.0, dtype=torch.float64)
    return x * old + new + torch.kaiser_window(8, dtype=torch.float64)


def spectra(x: torch.Tensor) -> torch.Tensor:
    window = torch.kaiser_window(8)
    there = torch.stft(x.repeat(8), 8, window=window, return_complex=True)
    return torch.istft(there, 8, window=window) + there.abs().sum()


@pytest.mark.parametrize("program", [windows, spectra])
def test_windows_are_those_of_eager(program: Callable[[torch.Tensor], torch.Tensor]) -> None:
    check_both(program, torch.linspace(-1.0, 2.0, 8), expect=None)
