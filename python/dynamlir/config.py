"""Settings: read from the environment and from ``torch.compile(options=...)``, validated in one place."""

from __future__ import annotations

import collections
import dataclasses
import os
import threading
from collections.abc import Mapping
from typing import Any

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@dataclasses.dataclass(frozen=True)
class Options:
    """What one compilation is asked to do. Field names are the keys of ``options=``."""

    dump: str | None = None
    """Directory that receives every stage as text; graphs after the first go to ``graph-1``, ``graph-2``, … in it."""
    no_cache: bool = False
    """Compile every kernel anew, also those that this process has compiled before."""
    mode: str = "default"
    """torch's mode. All modes compile alike so far."""

    def native(self) -> dict[str, Any]:
        """The plain dictionary handed to the native compiler, one call per compilation."""
        dump = None if self.dump is None else _dump_folder(self.dump)
        return {"dump": dump, "no_cache": self.no_cache}


_dumps: collections.Counter[str] = collections.Counter()
_lock = threading.Lock()


def _dump_folder(folder: str) -> str:
    """The folder itself for this process's first graph, a numbered one in it for each later graph."""
    with _lock:
        number = _dumps[folder]
        _dumps[folder] += 1
    return folder if number == 0 else os.path.join(folder, f"graph-{number}")


def from_environment(environ: Mapping[str, str] | None = None) -> Options:
    """Options as the environment sets them: ``DYNAMLIR_DUMP``."""
    environ = os.environ if environ is None else environ
    return Options(dump=environ.get("DYNAMLIR_DUMP") or None)


def resolve(mode: str | None = None, options: Mapping[str, Any] | None = None) -> Options:
    """The environment's options, overridden by what the user passed to ``torch.compile``."""
    base = from_environment()
    known = {field.name for field in dataclasses.fields(Options)}
    unknown = sorted(set(options or {}) - known)
    if unknown:
        raise ValueError(f"dynamlir: unknown option(s) {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    if mode is not None and mode not in MODES:
        raise ValueError(f"dynamlir: unknown mode {mode!r}; known: {', '.join(MODES)}")
    merged = dataclasses.replace(base, **dict(options or {}))
    return dataclasses.replace(merged, mode=mode) if mode is not None else merged
