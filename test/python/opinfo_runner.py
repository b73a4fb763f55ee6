"""Runs torch's OpInfo samples through ``torch.compile(backend="dynamlir")`` and compares each with eager.

Operators run in worker processes, those with many samples in pieces, so a crash is one operator's result and does not
end the run. Failures that also occur with ``backend="eager"`` are torch's own and listed separately.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__).resolve().parent
DATA = HERE / "opinfo_data.json"
PIECE = 128
"""The number of samples that a worker runs in one go."""
PIECE_SECONDS = 600.0
TOGETHER = 8
"""The number of samples whose compiled code Dynamo holds at once. Each new one costs time for all before it."""


@dataclasses.dataclass
class OpResult:
    """One operator: how its samples were compiled, and the failures."""

    name: str
    samples: int = 0
    compiled: int = 0
    eager: dict[str, int] = dataclasses.field(default_factory=dict)
    generated: int = 0
    externs: dict[str, int] = dataclasses.field(default_factory=dict)
    wrong: list[str] = dataclasses.field(default_factory=list)
    torch: list[str] = dataclasses.field(default_factory=list)
    crash: str | None = None
    seconds: float = 0.0
    total: int = 0
    """The number of the operator's samples; this may be the result of some of them only."""

    def add(self, piece: OpResult) -> None:
        """Adds the result of some of the operator's samples."""
        for field in ("samples", "compiled", "generated", "seconds"):
            setattr(self, field, getattr(self, field) + getattr(piece, field))
        for ours, other in ((self.eager, piece.eager), (self.externs, piece.externs)):
            for key, count in other.items():
                ours[key] = ours.get(key, 0) + count
        self.wrong += piece.wrong
        self.torch += piece.torch
        self.crash = self.crash or piece.crash

    @property
    def status(self) -> str:
        """The worst status of its samples: crashed, eager, extern or generated."""
        if self.crash:
            return "crashed"
        if self.eager:
            return "eager"
        return "extern" if self.externs else "generated"


@dataclasses.dataclass
class Summary:
    """The results of a whole run."""

    results: list[OpResult]

    @property
    def wrong(self) -> list[OpResult]:
        return [result for result in self.results if result.wrong]

    @property
    def crashed(self) -> list[OpResult]:
        return [result for result in self.results if result.crash]

    def coverage(self) -> tuple[int, int]:
        """The number of operators generated without any extern call, and the number of all that are not library
        operators.
        """
        library = library_ops()
        own = [result for result in self.results if result.name not in library]
        return sum(result.status == "generated" for result in own), len(own)

    def text(self, *, rows: bool = True) -> str:
        """The table and the lists, in readable form."""
        library = {**_listed("other"), **library_ops()}
        lines: list[str] = []
        if rows:
            lines.append(f"{'operator':48} {'samples':>7} {'status':10} {'generated':>9} {'extern':>6}  details")
            for result in sorted(self.results, key=lambda entry: entry.name):
                details = [f"{schema} x{count}" for schema, count in sorted(result.externs.items())]
                details += [f"eager: {reason} x{count}" for reason, count in sorted(result.eager.items())]
                if result.name in library:
                    details.append(f"[{library[result.name]}]")
                extern = sum(result.externs.values())
                lines.append(
                    f"{result.name:48} {result.samples:7} {result.status:10} {result.generated:9} {extern:6}  "
                    + ", ".join(details)
                )
        statuses = collections.Counter(result.status for result in self.results)
        covered, own = self.coverage()
        share = f"{100 * covered / own:.1f}%" if own else "-"
        lines += [
            f"{len(self.results)} operators, {sum(result.samples for result in self.results)} samples, "
            + ", ".join(f"{count} {status}" for status, count in sorted(statuses.items())),
            f"generated: {covered} of {own} operators outside the library set ({share})",
        ]
        for title, found in (
            ("wrong", [(result.name, text) for result in self.results for text in result.wrong]),
            ("crashed", [(result.name, result.crash or "") for result in self.crashed]),
            ("also with backend='eager' (torch's own)", [(r.name, text) for r in self.results for text in r.torch]),
        ):
            lines.append(f"{title}: {len(found)}")
            lines += [f"  {name}: {text[:300]}" for name, text in found]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The run as plain data."""
        covered, own = self.coverage()
        rows = [{**dataclasses.asdict(result), "status": result.status} for result in self.results]
        return {"covered": covered, "own": own, "results": rows}


def data() -> dict[str, Any]:
    """The data file: library operators, operators without comparable values, those that may be seen outside of graphs,
    tolerances; each with its reason. It names the operators of one version of torch.
    """
    return json.loads(DATA.read_text())


def library_ops() -> dict[str, str]:
    """Operators that are calls into a library by nature, with the kind of library."""
    return _listed("library")


def _listed(section: str) -> dict[str, str]:
    return {name: kind for kind, entry in data()[section].items() for name in entry["ops"]}


# -- the parent


@dataclasses.dataclass(frozen=True)
class Samples:
    """The samples of an operator to compare, and what to compare."""

    count: int | None = None
    """The number of samples; None for all."""
    order: int = 0
    """1 compares gradients too, 2 also those of gradients."""
    dtype: str = "float32"
    device: str = "cpu"
    """The device of the samples."""


def run(
    samples: Samples | None = None,
    *,
    only: str | None = None,
    jobs: int | None = None,
    progress: Callable[[OpResult, int, int], None] | None = None,
) -> Summary:
    """Runs the operators whose name matches ``only`` on ``jobs`` worker processes."""
    jobs, samples = jobs or os.cpu_count() or 1, samples or Samples()
    with Worker(samples) as first:
        names = [name for name in first.names if only is None or re.search(only, name)]
        schedule = Schedule(names, progress)

        def serve(worker: Worker) -> None:
            with worker:
                while (piece := schedule.take()) is not None:
                    schedule.done(*piece, worker.run(*piece))

        others = [Worker(samples) for _ in range(min(jobs, len(names)) - 1)]
        threads = [threading.Thread(target=serve, args=(worker,)) for worker in others]
        for thread in threads:
            thread.start()
        serve(first)
        for thread in threads:
            thread.join()
    return Summary(list(schedule.results.values()))


class Schedule:
    """Hands out pieces: an operator and its first sample. An operator's number of samples is known after its first
    piece.
    """

    def __init__(self, names: list[str], progress: Callable[[OpResult, int, int], None] | None) -> None:
        self.results = {name: OpResult(name) for name in names}
        self._pieces = collections.deque((name, 0) for name in names)
        self._open = dict.fromkeys(names, 1)
        self._changed = threading.Condition()
        self._progress = progress

    def take(self) -> tuple[str, int] | None:
        """The next piece; None when all is done."""
        with self._changed:
            self._changed.wait_for(lambda: self._pieces or not any(self._open.values()))
            return self._pieces.popleft() if self._pieces else None

    def done(self, name: str, start: int, piece: OpResult) -> None:
        """Records a piece's result."""
        with self._changed:
            whole = self.results[name]
            whole.add(piece)
            if start == 0:
                whole.total = piece.total
                further = [(name, at) for at in range(PIECE, piece.total, PIECE)]
                self._pieces.extendleft(further)
                self._open[name] += len(further)
            self._open[name] -= 1
            if not self._open[name] and self._progress is not None:
                self._progress(whole, sum(not count for count in self._open.values()), len(self._open))
            self._changed.notify_all()


class Worker:
    """A child process that runs operators by name, and is restarted after a crash."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        self._process: subprocess.Popen[str] | None = None
        self.names: list[str] = []

    def __enter__(self) -> Self:
        if self._process is None:
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
            self._process = None

    def _start(self) -> None:
        command = [sys.executable, "-u", str(HERE / "opinfo_runner.py"), "--worker"]
        command.append(json.dumps(dataclasses.asdict(self._samples)))
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if not os.environ.get("DYNAMLIR_LOGS") else None,
            text=True,
            env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        )
        hello = self._read()
        if hello is None:
            raise RuntimeError(
                "the OpInfo worker does not start; run test/python/opinfo_runner.py --worker 1 to see why"
            )
        self.names = hello["names"]

    def _read(self) -> dict[str, Any] | None:
        assert self._process is not None and self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        return None

    def run(self, name: str, start: int) -> OpResult:
        """Runs a piece of an operator; a process that dies or hangs counts as its result."""
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None and process.stdin is not None
        process.stdin.write(json.dumps([name, start]) + "\n")
        process.stdin.flush()
        stuck = threading.Timer(PIECE_SECONDS, process.kill)
        stuck.start()
        at = -1
        try:
            while (message := self._read()) is not None:
                if "result" in message:
                    return OpResult(**message["result"])
                at = message["sample"]
        finally:
            expired = not stuck.is_alive()
            stuck.cancel()
        code = process.wait()
        self._process = None
        return OpResult(name, crash=f"{'timeout' if expired else f'exit code {code}'} in sample {at}")


# -- the worker


def op_name(op: Any) -> str:
    """The operator with its variant, as one word."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def forward_ops(samples: Samples) -> Iterable[Any]:
    """OpInfos that take these samples on the CPU and are differentiable there to the requested order. Random operators
    do not seed the generator: the harness does, outside the compiled call.
    """
    import torch
    from torch.testing._internal import common_methods_invocations as invocations

    dtype = getattr(torch, samples.dtype)
    invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)

    def is_wanted(op: Any) -> bool:
        if samples.order == 0:
            return dtype in op.supported_dtypes(samples.device)
        differentiable = op.supports_autograd and (samples.order == 1 or op.supports_gradgrad)
        return bool(differentiable) and dtype in op.supported_backward_dtypes(samples.device)

    return [op for op in invocations.op_db if is_wanted(op)]


def run_op(op: Any, samples: Samples, start: int, at: Callable[[int], None]) -> OpResult:
    """Runs a piece of one operator's samples in this process."""
    import dynamlir
    import harness
    import torch
    from dynamlir import reasons, reports
    from gradients import is_rounding, run_with_gradients

    name = op_name(op)
    facts = data()
    values = name not in facts["values_undefined"]["ops"]
    wider = facts["tolerance"].get(name)
    tolerance = wider["rtol_atol"] if wider and wider["dtype"] == samples.dtype else None
    result = OpResult(name)
    started = time.perf_counter()
    target = op.op

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    compiled = torch.compile(call, backend="dynamlir", dynamic=False)
    stray_checked = name in facts["beside_the_graph"]["ops"]
    torch.manual_seed(0)
    dtype, gradients = getattr(torch, samples.dtype), samples.order > 0
    runner = functools.partial(run_with_gradients, order=samples.order) if gradients else harness.run
    drawn = list(itertools.islice(op.sample_inputs(samples.device, dtype, requires_grad=gradients), samples.count))
    result.total = len(drawn)
    for number, sample in list(enumerate(drawn))[start : start + PIECE]:
        at(number)
        if number % TOGETHER == 0:
            torch._dynamo.reset()
        result.samples += 1
        reports.reset()
        reasons.reset()
        torch._dynamo.utils.counters["graph_break"].clear()
        arguments = ((sample.input, *sample.args), sample.kwargs)
        outcomes = []
        with torch.set_grad_enabled(gradients):
            for fn in (call, compiled):
                args, kwargs = harness.clone_tree(arguments)
                outcomes.append(runner(fn, args, kwargs))
        found = harness.differences(*outcomes, values=values, tolerance=tolerance)
        if found and gradients and is_rounding(call, arguments, dtype, samples.order, *outcomes):
            found = []
        _count(result, dynamlir, bool(torch._dynamo.utils.counters["graph_break"]))
        reports = dynamlir.compiles()
        if found:
            with torch.set_grad_enabled(gradients):
                differs = _torch_differs(runner, call, arguments, outcomes[0], values, tolerance)
            blamed = result.torch if differs else result.wrong
            blamed.append(f"sample {number}: " + "; ".join(found))
        elif (
            not (stray_checked or gradients)
            and _all_compiled(reports)
            and not outcomes[0].error
            and "graph-break" not in result.eager
        ):
            stray_checked = True
            args, kwargs = harness.clone_tree(arguments)
            with torch.no_grad():
                stray = harness.unexpected_ops(lambda: compiled(*args, **kwargs), reports)  # noqa: B023
            if stray:
                result.wrong.append(f"sample {number}: operations outside the report: {', '.join(sorted(set(stray)))}")
    result.seconds = round(time.perf_counter() - started, 3)
    return result


def _all_compiled(reports: list[Any]) -> bool:
    return bool(reports) and not any(made.eager for made in reports)


def _count(result: OpResult, dynamlir: Any, broken: bool) -> None:
    """Adds one sample's reports. No report and no graph break: the sample ran an earlier sample's code."""
    reports = dynamlir.compiles()
    reasons = dict(dynamlir.counters()["fallbacks"])
    if broken:
        reasons["graph-break"] = 1
    for reason, count in reasons.items():
        result.eager[reason] = result.eager.get(reason, 0) + count
    if not reasons:
        result.compiled += 1
    for made in reports:
        result.generated += made.ops_generated
        for extern in made.externs:
            result.externs[extern.schema] = result.externs.get(extern.schema, 0) + extern.count


def _torch_differs(runner: Any, call: Any, arguments: Any, eager: Any, values: bool, tolerance: Any) -> bool:
    """Returns true if Dynamo alone, with the eager backend, differs from eager too."""
    import harness
    import torch

    args, kwargs = harness.clone_tree(arguments)
    outcome = runner(torch.compile(call, backend="eager", dynamic=False), args, kwargs)
    return bool(harness.differences(eager, outcome, values=values, tolerance=tolerance))


def worker(samples: Samples) -> None:
    """Runs the operators named on stdin; answers are JSON lines."""
    import warnings

    sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]
    import registration

    registration.ensure()
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = 1 << 30
    torch._dynamo.config.accumulated_recompile_limit = 1 << 30
    # Dynamo times the guards of its compiled code, with cold caches: half of the seconds of a small graph.
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0
    ops = {op_name(op): op for op in forward_ops(samples)}

    def say(message: dict[str, Any]) -> None:
        print("\n" + json.dumps(message), flush=True)

    say({"names": list(ops)})
    for line in sys.stdin:
        name, start = json.loads(line)
        try:
            result = run_op(ops[name], samples, start, lambda number: say({"sample": number}))
        except Exception:
            result = OpResult(name, crash=traceback.format_exc())
        say({"result": dataclasses.asdict(result)})


if __name__ == "__main__":
    if sys.argv[1:2] != ["--worker"]:
        sys.exit("this module is run by scripts/opinfo")
    worker(Samples(**json.loads(sys.argv[2])))
