"""dynamlir: a torch.compile stack on MLIR.

``dynamlir.compile(model)`` and ``torch.compile(model, backend="dynamlir")`` compile functions and modules. Code that
cannot be compiled runs as plain Python: a `PlainRunWarning` reports it once, `fallbacks` each time.

To compile: `compile`, whose result is called like its argument (`Compiled`), `reset`, `config`, `error_on_graph_break`.
To see the results of compilation: `last_compile`, `compiles`, `counters`, `fallbacks`, `explain_last`. To check what
the cache remembers: `config.audit`, `audits`. To measure the run time of each kernel: `profile`. To write all of this
as a page for a browser: `report`. To see how a call is captured, without compiling it: `explain`, `trace_steps`; to
inspect a function: `disassemble`, `decompile`. To save a whole program: `export`, whose `ExportedProgram`s `load`
reads; `Dim`, from torch.export, declares its dynamic sizes. To run a dumped stage: `load`, too.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .cli import early as _early  # noqa: F401 (`python -m dynamlir --help` ends here, before torch is imported)

# isort: split
from . import requirements  # noqa: F401 (before all that imports torch)

# isort: split
from torch.export import Dim

from . import autotune, compilation, config, logs, native, parsing, plain_warnings, profiling, reasons, reports
from .backend import dynamlir_backend as backend
from .capture import api as _api
from .capture import audit as _audit
from .capture.api import compile
from .capture.audit import Audits, StaleEntry, StaleEntryWarning, audits
from .capture.callable_types import Compiled
from .capture.explain import explain
from .capture.steps import trace_steps
from .exported.making import export
from .exported.program import ExportedProgram
from .graph_break_errors import error_on_graph_break
from .html_report import report
from .plain_warnings import PlainRunWarning, Unsupported
from .profiling import Profile, profile
from .reports import CompileReport
from .version import __version__

if TYPE_CHECKING:
    from ._native import Executable


logs.configure()


def last_compile() -> CompileReport | None:
    """Returns the report of the latest compilation, of any thread; None before the first."""
    return reports.last()


def compiles() -> list[CompileReport]:
    """Returns the latest reports, oldest first."""
    return reports.all_reports()


def counters() -> dict[str, Any]:
    """Returns totals since the last `reset`: graphs, operations, kernels, and reason counts under ``fallbacks``."""
    return {**reports.counters(), "fallbacks": reasons.counts()}


def fallbacks() -> list[reasons.Event]:
    """Returns the latest occasions on which plain eager ran, oldest first."""
    return reasons.events()


def explain_last() -> str:
    """Returns the latest report and the reasons so far, as text."""
    made = reports.last()
    parts = [str(made) if made is not None else "nothing compiled yet"]
    table = reports.reasons_table(reasons.counts())
    return "\n".join([*parts, table] if table else parts)


def decompile(function: Callable[..., Any] | types.CodeType) -> str:
    """Returns the bytecode of a function or code object as equivalent Python source, else as disassembly."""
    return native.module().decompile(function)


def disassemble(function: Callable[..., Any] | types.CodeType) -> str:
    """Returns the instructions of a function or code object, one per line."""
    return native.module().disassemble(function)


def reset(compiled: Any = None) -> None:
    """Discards what was compiled, as if the process had just begun: everything, or that for one function or module.

    This covers the entries of everything that `compile` returned, kernels, reports, counters, reasons, and the record
    of warnings given. Files on disk and settings stay. ``torch.compiler.reset()`` discards the entries of
    torch.compile, and the kernels; ``compiled.reset()`` is the same as ``dynamlir.reset(compiled)``.
    """
    if compiled is not None:
        _api.reset(compiled)
        return
    _api.reset_all()
    native.forget_kernels()
    autotune.forget()
    reports.reset()
    profiling.reset()
    reasons.reset()
    plain_warnings.reset()
    _audit.reset()


def load(
    path: str | os.PathLike[str], stage: str | None = None, *, dump: str | os.PathLike[str] | None = None
) -> Executable | ExportedProgram:
    """Reads an exported program, which is a folder; or turns a dumped ``.mlir`` of any stage into an executable.

    The executable is called with the graph's tensors, the program like the original (`ExportedProgram`).

    ``stage`` (``"linalg"``, ``"05-linalg"``) gives the stage of the text. Without it, the stage is taken from the
    file's name if that is a dump's, else from the text itself. ``dump`` is a folder for the stages from there on.
    Raises `ValueError` if the text is not such a program, or if its ``dynamo.target`` is a machine whose code this one
    cannot run. In that case its stages are still dumped, down to LLVM IR. For a text with several entries use
    `load_entries`.

    An entry with ``dynamo.vjp`` trains: if grad mode is on and an input with a gradient requires one, its outputs have
    a history, whose gradients are computed by the entry it names. The two form one program here. An entry with
    ``dynamo.vjps`` is several nodes of autograd's graph, and names an entry for each. Any other entry computes values
    only, as the call did from which it was dumped. In grad mode it raises for an input that requires a gradient,
    unless the text says ``dynamo.requires_grad`` of it. Inputs with tangents of ``torch.autograd.forward_ad`` raise.
    """
    if isinstance(path, (str, os.PathLike)) and os.path.isdir(path):
        from .exported import files  # few programs save or load

        if stage is not None or dump is not None:
            raise ValueError(f"{os.fspath(path)} is a folder: an exported program, which has no stage and no dump")
        return files.load(os.fspath(path))
    entries = _load(path, stage, dump)
    for vjp in [vjp for executable in entries.values() for vjp in executable.vjps]:
        entries.pop(vjp, None)
    if len(entries) > 1:
        names = ", ".join(entries)
        raise ValueError(f"{os.fspath(path)} has the entries {names}: dynamlir.load_entries gives them by name")
    return next(iter(entries.values()))


def load_entries(
    path: str | os.PathLike[str], stage: str | None = None, *, dump: str | os.PathLike[str] | None = None
) -> dict[str, Executable]:
    """Like `load`, for a text with any number of entries: returns each ``func.func`` with ``dynamo.entry``, by its
    name.

    Each is called separately. They share common kernels. One with ``dynamo.vjp`` trains, as with `load`. The entry it
    names can be called as well, with the saved values and the tangents.
    """
    return _load(path, stage, dump)


def _load(
    path: str | os.PathLike[str], stage: str | None, dump: str | os.PathLike[str] | None
) -> dict[str, Executable]:
    """Returns the entries of a text, named in profiles after the file, and after the entry if there are several."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"expected the path of a dumped .mlir file, not {path!r}")
    if stage is not None and not isinstance(stage, str):
        raise TypeError(f"expected the name of a stage such as 'linalg', not {stage!r}")
    parsing.check(os.fspath(path))
    options = {} if dump is None else {"dump": os.fspath(dump)}
    entries = dict(native.module().load(os.fspath(path), stage, options))
    for name, executable in entries.items():
        file = os.path.basename(path)
        executable.times(file if len(entries) == 1 else f"{file} @{name}")
    if any(executable.nodes for executable in entries.values()):
        with open(path, encoding="utf-8") as text:
            compilation.differentiate_loaded(entries, text.read(), os.path.basename(path))
    return entries


def __dir__() -> list[str]:
    """Returns the public names, for completion; the other modules of the package can be imported as ever."""
    return [*__all__, "__doc__", "__file__", "__name__", "__path__"]


if "DYNAMLIR_HAND_OVER" in os.environ:
    from .cli import hand_over as _hand_over  # only where `python -m dynamlir explain` waits for it

    _hand_over.at_exit(compiles, fallbacks)

__all__ = [
    "Audits",
    "CompileReport",
    "Compiled",
    "Dim",
    "ExportedProgram",
    "PlainRunWarning",
    "Profile",
    "StaleEntry",
    "StaleEntryWarning",
    "Unsupported",
    "__version__",
    "audits",
    "backend",
    "compile",
    "compiles",
    "config",
    "counters",
    "decompile",
    "disassemble",
    "error_on_graph_break",
    "explain",
    "explain_last",
    "export",
    "fallbacks",
    "last_compile",
    "load",
    "load_entries",
    "profile",
    "report",
    "reset",
    "trace_steps",
]
