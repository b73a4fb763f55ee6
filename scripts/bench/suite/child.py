"""A fresh process that compiles one model with one contestant: seconds and memory. `fresh` starts it.

The task is the JSON on the command line, the answer the last line of the output. What is timed begins before the
contestant's modules are imported: whoever compiles for the first time waits for that, too.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

CALLS = 3
"""Calls after the first; their median is what the first one's result would have cost compiled."""

DYNAMO_TO_BACKEND = "OutputGraph.call_user_compiler"


def status(field: str) -> float:
    """MiB of `VmHWM` (most memory resident so far) or `VmRSS` (resident now)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


def forget_peak() -> None:
    """From here on `VmHWM` is that of what follows."""
    Path("/proc/self/clear_refs").write_text("5")


def backend_seconds(contestant: str) -> float:
    """What of the compilation was not capture."""
    if contestant == "dynamlir":
        import dynamlir

        return sum(report.seconds for report in dynamlir.compiles())
    from torch._dynamo import utils

    return sum(utils.compilation_time_metrics.get(DYNAMO_TO_BACKEND, ()))


def reports() -> dict[str, Any]:
    """What became of dynamlir's graphs."""
    import dynamlir

    made = dynamlir.compiles()
    code = 0.0
    for report in made:
        names = list(report.stages)
        if "scheduled" in names:
            code += sum(report.stages[name] for name in names[names.index("scheduled") :])
    notes = [str(event).splitlines()[0] for event in dynamlir.fallbacks()]
    return {"graphs": len(made), "kernels": sum(report.kernels for report in made), "code": code, "notes": notes}


def trial(task: dict[str, Any]) -> dict[str, Any]:
    """The answer."""
    import torch

    from . import agree, catalog, contestants, training

    contestants.quiet()
    torch.set_num_threads(task["threads"])
    contestant, gradients = task["contestant"], task["gradients"]
    with torch.set_grad_enabled(gradients):
        module, inputs = catalog.MODELS[task["model"]].make(task["batch"], **task["sizes"])
        if gradients:
            module = training.without_dropout(module)

        def run(function: Any) -> Any:
            return training.gradients(function, module, inputs) if gradients else function(**inputs)

        if task["warm"]:
            # What the first operations of a process set up is nobody's compilation.
            run(module)
        answer: dict[str, Any] = {"start": status("VmRSS")}
        started = time.perf_counter()
        field = contestants.Field(task["door"])
        compiled = module if contestant == "eager" else field.enter(contestant, module)
        found = run(compiled)
        first = time.perf_counter() - started
        answer["peak"] = status("VmHWM")
        calls = []
        forget_peak()
        resident = status("VmRSS")
        for _ in range(CALLS):
            started = time.perf_counter()
            run(compiled)
            calls.append(time.perf_counter() - started)
        answer["call peak"] = status("VmHWM") - resident
        answer["call"] = statistics.median(calls)
        answer["seconds"] = max(first - answer["call"], 0.0)
        wanted = run(module)
        # `training` compares all gradients, with those of doubles; here the loss tells whether it is the same program.
        answer["error"] = agree.worst_error(found[0], wanted[0]) if gradients else agree.worst_error(found, wanted)
    if contestant != "eager":
        answer["backend"] = backend_seconds(contestant)
    if contestant == "dynamlir":
        answer.update(reports())
    return answer


if __name__ == "__main__":
    print(json.dumps(trial(json.loads(sys.argv[1]))))
