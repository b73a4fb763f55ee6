"""Settings: read from the environment and from ``torch.compile(options=...)``, validated in one place."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@dataclasses.dataclass(frozen=True)
class Options:
    """What one compilation is asked to do. Field names are the keys of ``options=``."""

    dump: str | None = None
    """Directory that receives every stage as text."""
    threads: int | None = None
    """Threads a kernel may use; None asks torch at each call."""
    opt_level: int = 3
    """LLVM's optimisation level."""
    mode: str = "default"

    def native(self) -> dict[str, Any]:
        """The plain dictionary handed to the native compiler."""
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}


def from_environment(environ: Mapping[str, str] | None = None) -> Options:
    """Options as the environment sets them: ``DYNAMLIR_DUMP``, ``DYNAMLIR_THREADS``, ``DYNAMLIR_OPT_LEVEL``."""
    environ = os.environ if environ is None else environ
    return Options(
        dump=environ.get("DYNAMLIR_DUMP") or None,
        threads=_integer(environ, "DYNAMLIR_THREADS"),
        opt_level=_integer(environ, "DYNAMLIR_OPT_LEVEL", 3),
    )


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


def _integer(environ: Mapping[str, str], name: str, default: int | None = None) -> Any:
    text = environ.get(name)
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"dynamlir: {name} must be an integer, not {text!r}") from None
