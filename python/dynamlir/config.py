"""Settings: read from the environment and from ``torch.compile(options=...)``, validated in one place."""

from __future__ import annotations

import collections
import dataclasses
import os
import threading
from collections.abc import Mapping
from typing import Any

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
AUTOTUNING = MODES[2:]


@dataclasses.dataclass(frozen=True)
class Options:
    """What one compilation is asked to do. Field names are the keys of ``options=``."""

    dump: str | None = None
    """Directory that receives every stage as text; graphs after the first go to ``graph-1``, ``graph-2``, … in it."""
    no_cache: bool = False
    """Compile every kernel anew, also those that this process has compiled before."""
    threads: int | None = None
    """How many threads compile kernels; as many as the process may run at a time where this is None."""
    mode: str = "default"
    """torch's mode. The ones for autotuning measure; the others compile alike."""
    max_autotune: bool = False
    """Measure which way is fastest for each product and convolution, whatever the mode; see `dynamlir.autotune`."""
    cache_dir: str | None = None
    """Folder for measurements. Else ``DYNAMLIR_CACHE_DIR``, ``XDG_CACHE_HOME/dynamlir`` or ``~/.cache/dynamlir``."""

    @property
    def measures(self) -> bool:
        """Whether measurements decide, not the cost model."""
        return self.max_autotune or self.mode in AUTOTUNING

    def native(self) -> dict[str, Any]:
        """The plain dictionary handed to the native compiler, one call per compilation."""
        dump = None if self.dump is None else _dump_folder(self.dump)
        return {"dump": dump, "no_cache": self.no_cache, "threads": self.threads}


_dumps: collections.Counter[str] = collections.Counter()
_lock = threading.Lock()


def _dump_folder(folder: str) -> str:
    """The folder itself for this process's first graph, a numbered one in it for each later graph."""
    with _lock:
        number = _dumps[folder]
        _dumps[folder] += 1
    return folder if number == 0 else os.path.join(folder, f"graph-{number}")


def from_environment(environ: Mapping[str, str] | None = None) -> Options:
    """Options as the environment sets them: ``DYNAMLIR_DUMP``, ``DYNAMLIR_COMPILE_THREADS``."""
    environ = os.environ if environ is None else environ
    threads = environ.get("DYNAMLIR_COMPILE_THREADS")
    if threads and not threads.isdecimal():
        raise ValueError(f"dynamlir: DYNAMLIR_COMPILE_THREADS is {threads!r}, expected a number")
    return _checked(Options(dump=environ.get("DYNAMLIR_DUMP") or None, threads=int(threads) if threads else None))


def _checked(options: Options) -> Options:
    threads = options.threads
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise ValueError(f"dynamlir: threads is {threads!r}, expected a number from 1")
    if options.mode not in MODES:
        raise ValueError(f"dynamlir: unknown mode {options.mode!r}; known: {', '.join(MODES)}")
    if not isinstance(options.max_autotune, bool):
        raise ValueError(f"dynamlir: max_autotune is {options.max_autotune!r}, expected True or False")
    if not isinstance(options.cache_dir, (str, os.PathLike, type(None))):
        raise ValueError(f"dynamlir: cache_dir is {options.cache_dir!r}, expected a path")
    return options


def resolve(mode: str | None = None, options: Mapping[str, Any] | None = None) -> Options:
    """The environment's options, overridden by what the user passed to ``torch.compile``."""
    base = from_environment()
    known = {field.name for field in dataclasses.fields(Options)}
    unknown = sorted(set(options or {}) - known)
    if unknown:
        raise ValueError(f"dynamlir: unknown option(s) {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    merged = dataclasses.replace(base, **dict(options or {}))
    return _checked(merged if mode is None else dataclasses.replace(merged, mode=mode))
