"""Settings of the process and the thread that a function reads are guarded, as is the exception that its caller
handles.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch

X = torch.ones(2)


# The exception that a caller handles.


@pytest.mark.parametrize("look", ["exc_info", "exception", "context", "again"])
def test_an_exception_that_a_caller_handles(look: str) -> None:
    def context(x: torch.Tensor) -> torch.Tensor:
        try:
            raise KeyError
        except KeyError as error:
            return x * (2 if error.__context__ is None else 3)

    def again(x: torch.Tensor) -> torch.Tensor:
        try:
            raise
        except ZeroDivisionError:
            return x * 3
        except RuntimeError:
            return x * 2

    function = {
        "exc_info": lambda x: x * (2 if sys.exc_info()[0] is None else 3),
        "exception": lambda x: x * (2 if sys.exception() is None else 3),
        "context": context,
        "again": again,
    }[look]
    compiled = dynamlir.compile(function)
    seen = [compiled(X)[0].item()]
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        seen.append(compiled(X)[0].item())
    seen.append(compiled(X)[0].item())
    assert seen == [2, 3, 2]


# Settings.

SETTINGS: dict[str, tuple[Callable[..., Any], Callable[[], Any], Callable[[], Any]]] = {
    "recursion limit": (
        lambda x: x + sys.getrecursionlimit(),
        lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 9),
        lambda: sys.setrecursionlimit(sys.getrecursionlimit() - 9),
    ),
    "switch interval": (
        lambda x: x + sys.getswitchinterval(),
        lambda: sys.setswitchinterval(0.125),
        lambda: sys.setswitchinterval(0.005),
    ),
    "threads": (
        lambda x: x + torch.get_num_threads(),
        lambda: torch.set_num_threads(torch.get_num_threads() + 1),
        lambda: torch.set_num_threads(torch.get_num_threads() - 1),
    ),
    "matmul precision": (
        lambda x: x + len(torch.get_float32_matmul_precision()),
        lambda: torch.set_float32_matmul_precision("medium"),
        lambda: torch.set_float32_matmul_precision("highest"),
    ),
    "anomaly mode": (
        lambda x: x + torch.is_anomaly_enabled(),
        lambda: torch.autograd.set_detect_anomaly(True),
        lambda: torch.autograd.set_detect_anomaly(False),
    ),
    "autocast dtype": (
        lambda x: x + torch.get_autocast_dtype("cpu").itemsize,
        lambda: torch.set_autocast_dtype("cpu", torch.float64),
        lambda: torch.set_autocast_dtype("cpu", torch.bfloat16),
    ),
    "default device": (
        lambda x: x + len(str(torch.get_default_device())),
        lambda: torch.set_default_device("meta"),
        lambda: torch.set_default_device(None),
    ),
    "cudnn": (
        lambda x: x + torch.backends.cudnn.enabled,
        lambda: torch._C._set_cudnn_enabled(False),
        lambda: torch._C._set_cudnn_enabled(True),
    ),
    "mkldnn": (
        lambda x: x + torch._C._get_mkldnn_enabled(),
        lambda: torch._C._set_mkldnn_enabled(False),
        lambda: torch._C._set_mkldnn_enabled(True),
    ),
    "scaled dot product": (
        lambda x: x + torch.backends.cuda.math_sdp_enabled(),
        lambda: torch.backends.cuda.enable_math_sdp(False),
        lambda: torch.backends.cuda.enable_math_sdp(True),
    ),
    "default dtype": (
        lambda x: x + torch.get_default_dtype().itemsize,
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.set_default_dtype(torch.float32),
    ),
    "deterministic algorithms": (
        lambda x: x + torch.are_deterministic_algorithms_enabled(),
        lambda: torch.use_deterministic_algorithms(True),
        lambda: torch.use_deterministic_algorithms(False),
    ),
}


@torch.no_grad()
@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_is_read(name: str) -> None:
    function, change, back = SETTINGS[name]
    compiled = dynamlir.compile(function)
    assert torch.equal(compiled(X), function(X))
    change()
    try:
        given = torch.ones(2, device="cpu", dtype=torch.float32)
        assert compiled(given).tolist() == function(given).tolist()
    finally:
        back()
    assert torch.equal(compiled(X), function(X))


def test_the_thread_that_calls() -> None:
    function = lambda x: x + threading.get_ident() % 1009  # noqa: E731
    compiled, seen = dynamlir.compile(function), []
    compiled(X)
    thread = threading.Thread(target=lambda: seen.append(torch.equal(compiled(X), function(X))))
    thread.start()
    thread.join()
    assert seen == [True]
