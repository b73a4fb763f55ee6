"""A fresh process that compiles one model with one contestant: seconds and memory. `fresh` starts it.

The task is the JSON on the command line, the answer the last line of the output. Timing begins before the contestant's
modules are imported, because a first compilation includes that.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

CALLS = 3
"""The number of calls after the first; their median is the cost of the first result once compiled."""

DYNAMO_TO_BACKEND = "OutputGraph.call_user_compiler"


def status(field: str) -> float:
    """Returns the MiB of `VmHWM` (peak resident memory so far) or `VmRSS` (resident now)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


def forget_peak() -> None:
    """Resets `VmHWM` to the memory resident now."""
    Path("/proc/self/clear_refs").write_text("5")


def backend_seconds(contestant: str) -> float:
    """Returns the seconds of the compilation without capture."""
    if contestant == "dynamlir":
        import dynamlir

        return sum(report.seconds for report in dynamlir.compiles())
    from torch._dynamo import utils

    return sum(utils.compilation_time_metrics.get(DYNAMO_TO_BACKEND, ()))


def reports() -> dict[str, Any]:
    """Summarises the reports of dynamlir's graphs."""
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
    """Returns the answer."""
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
            # The initialization by the first operations of a process does not count as compilation.
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
        # `training` compares all gradients with those of doubles; here the loss suffices to identify the program.
        answer["error"] = agree.worst_error(found[0], wanted[0]) if gradients else agree.worst_error(found, wanted)
    if contestant != "eager":
        answer["backend"] = backend_seconds(contestant)
    if contestant == "dynamlir":
        answer.update(reports())
    return answer


if __name__ == "__main__":
    print(json.dumps(trial(json.loads(sys.argv[1]))))
