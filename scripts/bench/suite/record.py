"""The output of a run: lines of tables as they come, and everything as JSON.

The document: ``schema`` (the number below), ``machine``, ``settings``, and under ``parts`` for each part that ran
``lines`` and ``summary``. A line has ``name``, ``case`` (batch, threads and the like), ``unit``, ``right``, and where
it applies ``times`` (contestant → median in the unit), ``ratios`` (``"dynamlir/inductor"`` → value, low, high),
``errors``, ``rounds``, ``figures`` and ``notes``.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from pathlib import Path
from typing import Any

from . import measure

SCHEMA = 1


@dataclasses.dataclass
class Line:
    """One line of a table."""

    name: str
    case: dict[str, Any]
    unit: str = "ms"
    times: dict[str, float] = dataclasses.field(default_factory=dict)
    ratios: dict[str, Any] = dataclasses.field(default_factory=dict)
    errors: dict[str, float] = dataclasses.field(default_factory=dict)
    rounds: int = 0
    figures: dict[str, float] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    right: bool = True

    def json(self) -> dict[str, Any]:
        """Returns it for the record, without empty fields."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value or name == "right"}

    def compared(self) -> str:
        """Returns the ratios, for a table."""
        return "  ".join(str(measure.Estimate(**value)).ljust(22) for value in self.ratios.values())


UNITS = {"us": 1e6, "ms": 1e3, "s": 1.0, "MiB": 1.0}


def timed(
    name: str,
    case: dict[str, Any],
    samples: measure.Samples,
    compared: list[str],
    *,
    unit: str = "ms",
) -> Line:
    """Returns a line for the result of `measure.sample`; ``compared`` are pairs like ``"dynamlir/eager"``."""
    line = Line(name, case, unit)
    line.rounds = len(next(iter(samples.values())))
    line.times = {who: measure.median(seen) * UNITS[unit] for who, seen in samples.items()}
    line.ratios = {pair: measure.ratio(samples, *pair.split("/")).json() for pair in compared}
    return line


def machine() -> dict[str, Any]:
    """Describes the machine."""
    import numpy
    import torch

    model = [line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "processor": model[0] if model else platform.processor(),
        "cores": os.cpu_count(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "load": list(os.getloadavg()),
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


class Record:
    """Collects lines, prints them, and keeps the JSON file up to date, so that an interrupted run has one."""

    def __init__(self, settings: dict[str, Any], file: Path | None = None) -> None:
        self.file = file
        self.document: dict[str, Any] = {"schema": SCHEMA, "machine": machine(), "settings": settings, "parts": {}}
        self.right = True
        self._part: dict[str, Any] = {}

    def part(self, name: str, about: str, header: str) -> None:
        """Begins a table."""
        self._part = self.document["parts"].setdefault(name, {"lines": [], "summary": {}})
        print(f"\n{about}\n{header}", flush=True)

    def collect(self, line: Line) -> None:
        """Adds a line as data; it is written with the next one that is printed."""
        self._part["lines"].append(line.json())
        self.right &= line.right

    def add(self, line: Line, text: str) -> None:
        """Adds a line as data and as text."""
        self.collect(line)
        print(text + "".join(f"\n    {note}" for note in line.notes), flush=True)
        self._write()

    def summary(self, name: str, value: Any, text: str) -> None:
        """Adds a figure for the whole table."""
        self._part["summary"][name] = value.json() if isinstance(value, measure.Estimate) else value
        print(text, flush=True)
        self._write()

    def _write(self) -> None:
        if self.file:
            fresh = self.file.with_name(self.file.name + ".new")
            fresh.write_text(json.dumps(self.document, indent=1) + "\n")
            fresh.replace(self.file)

    def lines(self) -> list[dict[str, Any]]:
        """The lines of the current table."""
        return self._part["lines"]
