"""Checks every OpInfo against eager, with a first size that changes from call to call.

A sample of an operator is called with its own rows, then with three more, with 2, 1 and 0, and with its own again. A
tensor with another number of rows consists of the sample's own rows. The first dimension of each tensor follows if it
has the length of that of the first tensor; if eager raises for that, every dimension of this length follows. If eager
raises, the compiled call must raise the same. Sizes are symbols from the start: ``dynamic=True``, or `mark_dynamic` of
the dimensions that follow.

Run as a program, this file checks more samples than the test does, each operator in a process that may crash, and
prints the outcomes: ``PYTHONPATH=test/python test_opinfo_sizes.py [--samples N] [--dtype int64] [--only REGEX] [--modes
all,marked,grad,in-place]``.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import itertools
import json
import re
import subprocess
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dynamlir
import harness
import opinfo_runner
import pytest
import sampled
import torch
from dynamlir import native
from gradients import is_rounding, run_with_gradients
from torch.utils import _pytree as pytree

HERE = Path(__file__).resolve().parents[1]

MODES = ("all", "marked", "parts", "grad", "in-place")
"""All sizes dynamic; only the first sizes; all sizes, of tensors without their first two rows, so that one graph also
serves sizes of 0 and 1; all sizes, with gradients; all sizes, of the variant that writes to its first argument.
"""

PARTS = 12
"""The number of groups in which operators are tested."""

FACTS = opinfo_runner.data()
UNKNOWN = {
    "_batch_norm_with_update": "eager reads and writes statistics of the wrong size beyond their end",
    "_native_batch_norm_legit": "eager reads and writes statistics of the wrong size beyond their end",
    "native_batch_norm": "eager reads and writes statistics of the wrong size beyond their end",
    "nn.functional.multi_margin_loss": "eager returns uninitialised memory for an empty batch",
    "nn.functional.multilabel_margin_loss": "eager returns uninitialised memory for an empty batch",
    "nn.functional.pdist": "eager's gradient crashes for no rows",
    "resize_": "what it adds is uninitialised",
}
"""Operators without a defined result in eager for other numbers of rows: only their own number is tested."""

OPEN = {
    "diagonal": "the storage offset of an empty one",
    "einsum": "strides of an outer product with one row",
    "expand_as": "strides of a number that becomes (n, 1)",
    "linalg.diagonal": "the storage offset of an empty one",
    "nn.functional.bilinear": "strides of no rows",
    "nn.functional.pixel_shuffle": "for an empty batch eager returns its input, and its gradient raises",
    "nn.functional.pixel_unshuffle": "for an empty batch eager returns its input",
    "nn.functional.poisson_nll_loss": "the gradient of no rows is None",
    "slice_scatter": "what eager raises for, where there is one row or none",
}
"""Operators that are wrong for some numbers of rows. Remove an entry when its operator is fixed."""

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclasses.dataclass
class Seen:
    """The outcome for one operator: the graphs of its samples by kind, reasons for plain calls, and failures."""

    name: str
    samples: int = 0
    calls: int = 0
    kinds: dict[str, int] = dataclasses.field(default_factory=dict)
    plain: dict[str, int] = dataclasses.field(default_factory=dict)
    wrong: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0

    def count(self, into: str, key: str, by: int = 1) -> None:
        counts: dict[str, int] = getattr(self, into)
        counts[key] = counts.get(key, 0) + by

    @property
    def status(self) -> str:
        """The worst of its graphs: plain, numeric (a graph for each size), symbolic, or only numbers."""
        found = "plain" if self.plain else ""
        return found or next((kind for kind in ("numeric", "symbolic") if kind in self.kinds), "numbers")


def with_rows(value: torch.Tensor, dims: list[int], rows: int) -> torch.Tensor:
    """``value`` with so many rows in these dimensions, its own repeated or dropped, and strides in the same order."""
    made = value.detach()
    for d in dims:
        made = made.index_select(d, torch.arange(rows) % value.shape[d])
    if value.layout is torch.strided and not value.is_conj() and not value.is_neg() and not value.is_contiguous():
        order = sorted(range(value.dim()), key=lambda d: -value.stride(d))
        back = sorted(range(value.dim()), key=order.__getitem__)
        made = made.permute(order).contiguous().permute(back)
    return made.detach().requires_grad_(value.requires_grad)


def resized(arguments: Arguments, rows: int, every: bool) -> Arguments:
    """The arguments with so many rows; with ``every``, in each dimension that is as long as the first one."""
    tensors = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
    length = next((tensor.shape[0] for tensor in tensors if tensor.dim() and tensor.shape[0]), None)
    made: dict[int, torch.Tensor] = {}

    def change(value: torch.Tensor) -> torch.Tensor:
        dims = [d for d, size in enumerate(value.shape) if size == length and (every or d == 0)]
        if not dims or value.layout is not torch.strided or rows == length:
            return value
        return made.setdefault(id(value), with_rows(value, dims, rows))

    return pytree.tree_map_only(torch.Tensor, change, arguments)


def first_rows(arguments: Arguments) -> int | None:
    """The size to change."""
    tensors = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
    return next((tensor.shape[0] for tensor in tensors if tensor.dim() and tensor.shape[0]), None)


MORE = 2
"""The number of rows before an argument's own in the mode "parts"."""


def within(arguments: Arguments, length: int | None) -> Arguments:
    """The arguments with extra rows before those of each tensor that follows, each wrapped in a `Part`."""

    def extend(value: torch.Tensor) -> Any:
        if not value.dim() or value.shape[0] != length or value.layout is not torch.strided:
            return value
        before = value.new_ones((MORE, *value.shape[1:]))
        return Part(torch.cat([before, value.detach()]))

    return pytree.tree_map_only(torch.Tensor, extend, arguments)


@dataclasses.dataclass
class Part:
    """A tensor whose first rows are not passed to the operator."""

    whole: torch.Tensor


def own_rows(value: Any) -> Any:
    """The part of an argument that is passed to the operator."""
    if isinstance(value, Part):
        return value.whole[MORE:]
    if type(value) in (list, tuple):
        return type(value)(own_rows(element) for element in value)
    return value


def run_written(fn: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> harness.Outcome:
    """Like `harness.run`; then writes to results that alias an input's memory, which the inputs must show."""
    parts = [leaf.whole for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Part)]
    outcome = harness.run(fn, args, kwargs, parts)
    if outcome.error is not None:
        return outcome
    owned = {leaf.untyped_storage()._cdata for leaf in outcome.inputs if leaf.layout is torch.strided}
    for leaf in pytree.tree_leaves(outcome.result):
        is_view = (
            isinstance(leaf, torch.Tensor)
            and leaf.layout is torch.strided
            and leaf.untyped_storage()._cdata in owned
            and not leaf.requires_grad
        )
        if is_view and leaf.numel():
            try:
                leaf.copy_(leaf.logical_not() if leaf.dtype is torch.bool else leaf + 1)
            except RuntimeError:
                continue  # rows that overlap
    return outcome


def parts_of(call: Callable[..., Any]) -> Callable[..., Any]:
    def given(*args: Any, **kwargs: Any) -> Any:
        return call(*[own_rows(value) for value in args], **{name: own_rows(value) for name, value in kwargs.items()})

    return given


def copied(arguments: Arguments) -> Arguments:
    """Like `harness.clone_tree`, and also copies `Part`s."""
    leaves, spec = pytree.tree_flatten(arguments)
    wholes = harness.clone_tree([leaf.whole if isinstance(leaf, Part) else leaf for leaf in leaves])
    made = [Part(whole) if isinstance(leaf, Part) else whole for leaf, whole in zip(leaves, wholes)]
    result: Arguments = pytree.tree_unflatten(made, spec)
    return result


def raises(call: Callable[..., Any], arguments: Arguments, gradients: bool) -> bool:
    args, kwargs = harness.clone_tree(arguments)
    with torch.set_grad_enabled(gradients):
        return harness.run(call, args, kwargs).error is not None


def mark(arguments: Arguments, length: int | None) -> None:
    """Calls `mark_dynamic` for first dimensions that follow, except those of 0 and 1, which are specialized."""
    for leaf in pytree.tree_leaves(arguments):
        if isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.shape[0] == length and leaf.shape[0] > 1:
            torch._dynamo.mark_dynamic(leaf, 0)


def check_sample(
    seen: Seen, call: Callable[..., Any], sample: Arguments, mode: str, dtype: torch.dtype, deltas: str = "long"
) -> None:
    """Checks one sample with all numbers of rows."""
    seen.samples += 1
    rows = first_rows(sample)
    values = seen.name not in FACTS["values_undefined"]["ops"]
    gradients = mode == "grad"
    runner: Any = functools.partial(run_with_gradients, order=1) if gradients else run_written
    dynamlir.reset()
    given = parts_of(call) if mode == "parts" else call
    compiled = dynamlir.compile(given, dynamic=None if mode == "marked" else True)
    if rows is None:
        several = [None]
    else:
        several = [rows, rows + 3, 2, 1, 0, rows] if deltas == "long" else [rows, rows + 3, 1, 0]
    if seen.name in UNKNOWN:
        several = [rows]
    for count in several:
        arguments = sample
        if count is not None and count != rows:
            arguments = resized(sample, count, every=False)
            if raises(call, arguments, gradients):
                other = resized(sample, count, every=True)
                if not raises(call, other, gradients):
                    arguments = other
        if mode == "parts":
            arguments = within(arguments, count)
        outcomes = []
        for fn in (given, compiled):
            args, kwargs = copied(arguments)
            if fn is compiled and mode == "marked":
                mark((args, kwargs), count)
            with torch.set_grad_enabled(gradients):
                outcomes.append(runner(fn, args, kwargs))
        seen.calls += 1
        if "Constraints violated" in str(outcomes[1].error):
            seen.count("kinds", "constraints")
            break
        if type(outcomes[0].error) is type(outcomes[1].error) is not type(None):
            continue  # messages may differ
        found = harness.differences(*outcomes, values=values)
        if found and gradients and is_rounding(call, arguments, dtype, 1, *outcomes):
            found = []
        if found:
            seen.wrong.append(f"{mode}, rows {count} of {rows}, shapes {shapes(arguments)}: {'; '.join(found)[:600]}")
    count_graphs(seen, compiled)


def count_graphs(seen: Seen, compiled: Any) -> None:
    """Records the kinds of a compiled function's entries, and the reasons for its plain runs since the last reset."""
    for entry in compiled._cache:
        graph = entry.compiled
        if isinstance(graph, native.module().SizedGraph):
            seen.count("kinds", "numeric")
        else:
            seen.count("kinds", "numbers" if getattr(graph, "instances", None) is None else "symbolic")
    for reason, times in dynamlir.counters()["fallbacks"].items():
        seen.count("plain", reason, times)


def shapes(arguments: Arguments) -> list[tuple[int, ...]]:
    leaves = [leaf.whole if isinstance(leaf, Part) else leaf for leaf in pytree.tree_leaves(arguments)]
    return [tuple(leaf.shape) for leaf in leaves if isinstance(leaf, torch.Tensor)]


def operators(dtype: torch.dtype, gradients: bool) -> list[Any]:
    return list(opinfo_runner.forward_ops(opinfo_runner.Samples(order=int(gradients), dtype=str(dtype).split(".")[1])))


def samples(op: Any, mode: str, dtype: torch.dtype, count: int) -> Iterator[tuple[Callable[..., Any], Arguments]]:
    """An operator's first samples that have rows, each as a callable and its arguments."""
    target = op.get_inplace() if mode == "in-place" else op.op
    if target is None:
        return

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    torch.manual_seed(0)
    drawn = op.sample_inputs("cpu", dtype, requires_grad=mode == "grad")
    found = 0
    for sample in itertools.islice(drawn, 64):
        if found == count:
            return
        arguments = ((sample.input, *sample.args), sample.kwargs)
        if first_rows(arguments) is None or (mode == "in-place" and sample.broadcasts_input):
            continue
        found += 1
        yield call, arguments


def check_operator(op: Any, modes: tuple[str, ...], dtype: torch.dtype, count: int, deltas: str = "long") -> Seen:
    seen = Seen(opinfo_runner.op_name(op))
    started = time.perf_counter()
    with dynamlir.config.patch(on_plain="ignore"):
        for mode in modes:
            if mode == "grad" and not (op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")):
                continue
            for call, arguments in samples(op, mode, dtype, count):
                check_sample(seen, call, arguments, mode, dtype, deltas)
    seen.seconds = round(time.perf_counter() - started, 2)
    return seen


@pytest.mark.parametrize("part", sampled.one_in(3, range(PARTS)))
def test_operators_with_any_number_of_rows(part: int) -> None:
    wrong: list[str] = []
    for op in operators(torch.float32, gradients=False):
        name = opinfo_runner.op_name(op)
        number = zlib.crc32(name.encode())
        if number % PARTS == part and name not in OPEN:
            mode = ("all", "marked", "parts")[number // PARTS % 3]
            wrong += [f"{name}: {text}" for text in check_operator(op, (mode,), torch.float32, 1, "short").wrong]
    assert not wrong, "\n".join(wrong)


def worker(options: argparse.Namespace) -> None:
    """Checks the operators named on stdin; each answer is one line of JSON."""
    import warnings

    import registration

    registration.ensure()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dtype = getattr(torch, options.dtype)
    known = {opinfo_runner.op_name(op): op for op in operators(dtype, gradients=False)}
    modes = tuple(options.modes.split(","))
    print("\n" + json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        name = line.strip()
        try:
            seen = check_operator(known[name], modes, dtype, options.samples)
        except Exception:
            seen = Seen(name, wrong=["the check itself: " + traceback.format_exc()[-1500:]])
        print("\n" + json.dumps(dataclasses.asdict(seen)), flush=True)


class Child:
    """A process that checks operators, restarted after a crash."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-u", "-X", "faulthandler", __file__, "--worker", *sys.argv[1:]]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.names = self.read() or []

    def read(self) -> Any:
        assert self.process.stdout is not None
        return next((json.loads(line) for line in self.process.stdout if line[:1] in "[{"), None)

    def check(self, name: str) -> Seen:
        assert self.process.stdin is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        answer = self.read()
        if answer is not None:
            return Seen(**answer)
        seen = Seen(name, wrong=[f"crash: exit code {self.process.wait()}"])
        self.start()
        return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=3, help="of each operator and mode")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--only", help="a regular expression of operators")
    parser.add_argument("--modes", default="all,marked")
    parser.add_argument("--json", help="where all is written")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options)
        return
    child = Child()
    found: list[Seen] = []
    for name in child.names:
        if options.only is None or re.search(options.only, name):
            found.append(child.check(name))
            for text in found[-1].wrong:
                print(f"WRONG {name}: {text}", flush=True)
            if options.json:
                Path(options.json).write_text(json.dumps([dataclasses.asdict(seen) for seen in found], indent=1))
    statuses = collections.Counter(seen.status for seen in found)
    reasons = collections.Counter(reason for seen in found for reason in seen.plain)
    print(f"{len(found)} operators, {sum(seen.calls for seen in found)} calls: {dict(statuses)}")
    print(f"operators with plain calls, by reason: {dict(reasons)}")
    print(f"wrong: {sum(bool(seen.wrong) for seen in found)}")


if __name__ == "__main__":
    main()
