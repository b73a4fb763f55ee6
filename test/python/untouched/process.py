"""The state of a process apart from any program's objects (random states, settings, hooks), and how it is restored."""

from __future__ import annotations

import asyncio
import atexit
import builtins
import contextlib
import contextvars
import copyreg
import decimal
import gc
import locale
import logging
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.hooks import RemovableHandle


def by_identity(table: Any) -> list[tuple[Any, int]]:
    return [(key, id(value)) for key, value in table.items()]


def autocast() -> list[Any]:
    return [(torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in ("cpu", "cuda")]


READ: dict[str, Callable[[], Any]] = {
    "torch's random state": lambda: torch.get_rng_state().numpy().tobytes(),
    "Python's random state": random.getstate,
    "numpy's random state": lambda: np.random.get_state()[1].tobytes(),
    "grad mode": torch.is_grad_enabled,
    "inference mode": torch.is_inference_mode_enabled,
    "autocast": autocast,
    "autocast's cache": torch.is_autocast_cache_enabled,
    "default dtype": torch.get_default_dtype,
    "default device": lambda: str(torch.get_default_device()),
    "deterministic": torch.are_deterministic_algorithms_enabled,
    "fill": lambda: torch.utils.deterministic.fill_uninitialized_memory,
    "precision": torch.get_float32_matmul_precision,
    "threads of torch": torch.get_num_threads,
    "anomalies": torch.is_anomaly_enabled,
    "function modes": lambda: torch._C._len_torch_function_stack(),
    "dispatch modes": lambda: torch._C._len_torch_dispatch_stack(),
    "dispatch keys": lambda: (
        torch._C._dispatch_tls_local_include_set().raw_repr(),
        torch._C._dispatch_tls_local_exclude_set().raw_repr(),
    ),
    "torch functions": torch._C._is_torch_function_enabled,
    "forward levels": lambda: torch.autograd.forward_ad._current_level,
    "compiling": lambda: (torch.compiler.is_compiling(), torch.compiler.is_exporting()),
    "hooks of modules": lambda: [
        by_identity(getattr(torch.nn.modules.module, name))
        for name in ("_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks")
    ],
    "Tensor": lambda: by_identity(vars(torch.Tensor)),
    "Module": lambda: by_identity(vars(torch.nn.Module)),
    "functional": lambda: by_identity(vars(torch.nn.functional)),
    "builtins": lambda: by_identity({key: value for key, value in vars(builtins).items() if key != "_"}),
    "modules": lambda: by_identity(sys.modules),
    "path": lambda: (list(sys.path), list(map(id, sys.meta_path)), list(map(id, sys.path_hooks))),
    "hooks of sys": lambda: [
        id(getattr(sys, name)) for name in ("excepthook", "unraisablehook", "displayhook", "stdout", "stderr", "stdin")
    ],
    "hooks of threading": lambda: (id(threading.excepthook), threading.gettrace(), threading.getprofile()),
    "tracing": lambda: (sys.gettrace(), sys.getprofile()),
    "recursion limit": sys.getrecursionlimit,
    "switch interval": sys.getswitchinterval,
    "hooks of coroutines": sys.get_asyncgen_hooks,
    "digits": sys.get_int_max_str_digits,
    "handled": sys.exc_info,
    "threads": threading.active_count,
    "collector": lambda: (gc.isenabled(), gc.get_threshold(), list(map(id, gc.callbacks)), gc.get_debug()),
    "warnings": lambda: (list(map(id, warnings.filters)), id(warnings.showwarning)),
    "signals": lambda: [id(signal.getsignal(each)) for each in sorted(signal.valid_signals())],
    "mask": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
    "loggers": lambda: sorted(logging.root.manager.loggerDict),
    "root logger": lambda: (logging.root.level, list(map(id, logging.root.handlers)), logging.root.manager.disable),
    "environment": lambda: dict(os.environ),
    "folder": os.getcwd,
    "files": lambda: len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,
    "exits": lambda: atexit._ncallbacks(),  # type: ignore[attr-defined]
    "context": lambda: [(id(variable), id(value)) for variable, value in contextvars.copy_context().items()],
    "decimals": lambda: repr(decimal.getcontext()),
    "locale": lambda: locale.setlocale(locale.LC_ALL),
    "pickled": lambda: (by_identity(copyreg.dispatch_table), len(copyreg._extension_registry)),  # type: ignore[attr-defined]
    "loop": lambda: id(asyncio._get_running_loop()),
    "blocked": lambda: threading.stack_size(),
}


def state() -> dict[str, Any]:
    """All of this state, at one moment."""
    return {name: read() for name, read in READ.items()}


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The changes, as text."""
    return [
        f"{name}: {before[name]!s:.200} became {after[name]!s:.200}" for name in before if before[name] != after[name]
    ]


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Restores the state that programs set within the block."""
    hooks = torch.nn.modules.module._global_forward_hooks
    tables: list[Any] = [os.environ, sys.modules, hooks, logging.root.manager.loggerDict]
    copies = [dict(table) for table in tables]
    with contextlib.ExitStack() as undo:
        undo.enter_context(warnings.catch_warnings())
        undo.enter_context(decimal.localcontext())
        undo.enter_context(torch.random.fork_rng(devices=[]))
        undo.callback(random.setstate, random.getstate())
        undo.callback(np.random.set_state, np.random.get_state())
        undo.callback(torch.set_grad_enabled, torch.is_grad_enabled())
        undo.callback(torch.set_default_dtype, torch.get_default_dtype())
        undo.callback(torch.set_num_threads, torch.get_num_threads())
        undo.callback(torch.use_deterministic_algorithms, torch.are_deterministic_algorithms_enabled())
        undo.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        undo.callback(sys.setrecursionlimit, sys.getrecursionlimit())
        undo.callback(sys.path.__setitem__, slice(None), list(sys.path))
        undo.callback(setattr, RemovableHandle, "next_id", RemovableHandle.next_id)
        undo.callback(gc.enable if gc.isenabled() else gc.disable)
        for table, copy in zip(tables, copies, strict=True):
            undo.callback(_put_back, table, copy)
        yield


def _put_back(table: Any, copy: dict[Any, Any]) -> None:
    for name in [name for name in table if name not in copy]:
        del table[name]
