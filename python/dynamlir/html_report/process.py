"""The state of this process that a report shows."""

from __future__ import annotations

import dataclasses
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence

import torch

from .. import profiling, reasons, reports
from ..capture import compiled_objects
from ..reports import CompileReport
from ..version import __version__

_GUARDED = 1_000
"""The functions whose guards are listed."""


@dataclasses.dataclass(frozen=True)
class Guarded:
    """A function or module that `dynamlir.compile` has compiled, with the guards of each of its entries."""

    name: str
    file: str
    line: int
    entries: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class Process:
    """A process, or what is known of one."""

    reports: Sequence[CompileReport] = ()
    counters: Mapping[str, int] = dataclasses.field(default_factory=dict)
    fallbacks: Mapping[str, int] = dataclasses.field(default_factory=dict)
    events: Sequence[reasons.Event] = ()
    guarded: Sequence[Guarded] = ()
    profiled: Sequence[profiling.Graph] = ()
    """The graphs of profiles, oldest first."""
    program: str = ""
    facts: Mapping[str, str] = dataclasses.field(default_factory=dict)


def of_now() -> Process:
    """Returns the state of this process."""
    return Process(
        reports.all_reports(),
        reports.counters(),
        reasons.counts(),
        reasons.events(),
        [Guarded(*one) for one in compiled_objects.guards()[:_GUARDED]],
        profiling.closed(),
        _program(),
        {
            "written": time.strftime("%Y-%m-%d %H:%M:%S"),
            "process": str(os.getpid()),
            "dynamlir": __version__,
            "torch": torch.__version__,
            "Python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}, torch threads: {torch.get_num_threads()}",
        },
    )


def _program() -> str:
    given = [os.path.basename(sys.argv[0]), *sys.argv[1:]] if sys.argv and sys.argv[0] else []
    return " ".join(given) or "interactive session"
