"""The options of one compilation: the process's settings combined with ``torch.compile(options=...)``."""

from __future__ import annotations

import collections
import dataclasses
import difflib
import os
import threading
from collections.abc import Mapping
from typing import Any

from . import config

MODES: Mapping[str, str] = {
    "default": "the cost model decides how products are computed",
    "reduce-overhead": "as default: no CUDA graphs are made",
    "max-autotune": "measures how products are computed fastest; no CUDA graphs are made",
    "max-autotune-no-cudagraphs": "as max-autotune, which makes no CUDA graphs either",
}
"""torch's four names, with their meaning here: there are two behaviours."""
AUTOTUNING = ("max-autotune", "max-autotune-no-cudagraphs")


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of one compilation. Field names are the keys of ``options=``."""

    dump: str | None = None
    """Directory that receives every stage as text; graphs after the first go to ``graph-1``, ``graph-2``, … in it."""
    no_cache: bool = False
    """Compile every kernel anew, also those that this process has compiled before."""
    threads: int | None = None
    """The number of threads that compile kernels; None means as many as the process may run at a time."""
    mode: str = "default"
    """torch's mode. Four names, two behaviours: ``default`` and ``reduce-overhead`` compile alike, and so do
    ``max-autotune`` and ``max-autotune-no-cudagraphs``, which measure. No mode uses CUDA graphs."""
    max_autotune: bool = False
    """Measure the fastest strategy for each product and convolution, in any mode; see `dynamlir.autotune`."""
    cache_dir: str | None = None
    """Folder for measurements. Else ``DYNAMLIR_CACHE_DIR``, ``XDG_CACHE_HOME/dynamlir`` or ``~/.cache/dynamlir``."""
    eager_random: bool = False
    """Random numbers are eager's own: its operators draw them, with the same results for the same seed."""

    memory_budget: float | None = None
    """The share of the optional values that is saved for backward: 0.0 is the least memory, 1.0 the least time. If
    None, the cost model weighs one against the other."""

    check: bool | int = False
    """The number of calls of each graph that are compared with eager; True means 10. See `dynamlir.checking`."""

    @property
    def measures(self) -> bool:
        """True if measurements decide, not the cost model."""
        return self.max_autotune or self.mode in AUTOTUNING

    def native(self) -> dict[str, Any]:
        """Returns the plain dictionary passed to the native compiler, one call per compilation."""
        dump = None if self.dump is None else _dump_folder(self.dump)
        return {
            "dump": dump,
            "no_cache": self.no_cache,
            "threads": self.threads,
            # A comparison needs the same random numbers.
            "eager_random": self.eager_random or bool(self.check),
            "memory_budget": None if self.memory_budget is None else round(100 * self.memory_budget),
        }


_dumps: collections.Counter[str] = collections.Counter()
_lock = threading.Lock()


def _dump_folder(folder: str) -> str:
    """Returns the folder itself for this process's first graph, a numbered one in it for each later graph."""
    with _lock:
        number = _dumps[folder]
        _dumps[folder] += 1
    return folder if number == 0 else os.path.join(folder, f"graph-{number}")


def resolve(mode: str | None = None, options: Mapping[str, Any] | None = None) -> Options:
    """Returns the current settings of the process, overridden by the user's options for one function."""
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"dynamlir: options is {options!r}, expected a dictionary such as {{'dump': 'folder'}}")
    known = {field.name for field in dataclasses.fields(Options)}
    given = dict(options or {})
    if unknown := [str(name) for name in given if name not in known]:
        close = difflib.get_close_matches(unknown[0], known, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        names = ", ".join(sorted(unknown))
        raise ValueError(f"dynamlir: unknown option(s) {names}{hint}; known: {', '.join(sorted(known))}")
    if mode is not None:
        given["mode"] = mode
    if given.get("mode", "default") not in MODES:
        raise ValueError(f"dynamlir: unknown mode {given['mode']!r}; known: {', '.join(MODES)}")
    values = {name: value for name, value in config.read_all().items() if name in known}
    values |= {name: value if name == "mode" else config.checked(name, value) for name, value in given.items()}
    return Options(**values)
