"""Hands what a program compiled over to the command that started it, when the program ends.

The command sets a variable to a folder, and the package, when it is imported, has each process write a file there.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

VARIABLE = "DYNAMLIR_HAND_OVER"


def at_exit(compiles: Callable[[], Sequence[Any]], fallbacks: Callable[[], Sequence[Any]]) -> None:
    """Has this process write its reports and fallbacks when it ends."""
    folder = os.environ[VARIABLE]
    _note(folder, "began")
    pid = os.getpid()

    def write() -> None:
        if os.getpid() != pid:
            return  # a fork that ends as an interpreter does has its parent's reports
        try:
            events = [_event(event) for event in fallbacks()]
            reports = [json.loads(report.to_json()) for report in compiles()]
            text = json.dumps({"reports": reports, "fallbacks": events, "dynamo": _of_dynamo()})
            _note(folder, "ended", text)
        except Exception as error:
            # The program has ended as it should; the command says that the file is missing.
            _note(folder, "failed", f"{type(error).__name__}: {error}")

    atexit.register(write)


def _note(folder: str, what: str, text: str = "") -> None:
    with contextlib.suppress(OSError):  # the command, and its folder, may be gone
        Path(folder, f"{os.getpid()}.{what}").write_text(text)


def _event(event: Any) -> dict[str, Any]:
    entry = event.entry
    return {
        "reason": event.reason,
        "message": event.message,
        "explanation": entry.explanation,
        "hint": entry.hint,
        "line": event.line,
        "called_from": event.called_from,
        # Plain Python that runs once, or that follows from something else that is reported.
        "expected": bool(entry.passes) or event.reason == "resumed",
    }


def _of_dynamo() -> dict[str, Any]:
    """Returns the graph breaks and recompilations of `torch.compile`, as TorchDynamo counts them."""
    utils: Any = sys.modules.get("torch._dynamo.utils")
    breaks: Iterable[Any] = getattr(utils, "graph_break_reasons", ())
    failures: Any = getattr(utils, "guard_failures", {})
    return {
        "breaks": [{"reason": str(one.reason), "line": _innermost(one.user_stack)} for one in breaks],
        "recompilations": [
            {"function": code.co_name, "line": (code.co_filename, code.co_firstlineno, code.co_name), "reasons": why}
            for code, why in failures.items()
            if hasattr(code, "co_filename")
        ],
    }


def _innermost(stack: Any) -> tuple[str, int, str] | None:
    frames = [(frame.filename, frame.lineno, frame.name) for frame in stack or ()]
    return frames[-1] if frames else None
