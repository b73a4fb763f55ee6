"""The backend that ``torch.compile(model, backend="dynamlir")`` calls: record, decompose, compile, or plain eager."""

from __future__ import annotations

import functools
import re
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from . import (
    autotune,
    collectives,
    device,
    doors,
    functions,
    higher_order,
    interruptions,
    logs,
    native,
    plain,
    progress,
    reasons,
    report,
    reproducer,
)
from .options import Options
from .options import resolve as resolve_options
from .reasons import Fallback
from .recording import Builder, Recording
from .runtime import CompiledGraph, PlainGraph, Variant
from .segmented import Segmented, Whole
from .shape_env import Translation
from .thread_state import nothing_packed
from .tracing import fresh_fake_mode, record

TESTED = ((2, 11), (2, 15))
"""First and last torch version this package has been tried with."""


def dynamlir_backend(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    **unknown: Any,
) -> Callable[..., Any]:
    """Compile ``gm`` for ``example_inputs``. What cannot be compiled runs as plain eager, with a counted reason.

    ``mode``, ``options`` and ``name`` are torch.compile's; the latter is what reports call the graph.
    """
    if unknown:
        raise TypeError(f"dynamlir: unexpected backend argument(s) {', '.join(sorted(unknown))}")
    settings = resolve_options(mode, options)
    doors.keep_tracer_out()
    name = name or _graph_name(gm)
    try:
        _check_version()
        whole = _told_late(gm, example_inputs, settings, name) or _sized(gm, example_inputs, settings, name)
        if whole is not None:
            return whole
        _specialise(gm, example_inputs)
        between = collectives.cut(gm, functools.partial(dynamlir_backend, mode=mode, options=options))
        if between is not None:
            return between
        return _compile(gm, example_inputs, settings, name)
    except Fallback as failure:
        return _eager(gm, name, failure)
    except Exception as error:
        interruptions.pass_on(error)
        logs.logger("fallback").debug("%s", traceback.format_exc())
        return _eager(gm, name, Fallback("internal-error", f"{type(error).__name__}: {error}"))


def reset() -> None:
    """Forget the kernels and decompositions of this process; torch does so in ``torch.compiler.reset()``."""
    native.forget_kernels()


dynamlir_backend.reset = reset  # type: ignore[attr-defined]


def _sized(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], settings: Options, name: str
) -> CompiledGraph | None:
    """Compile a graph for all sizes that Dynamo has vary. None where none does, or where it takes numbers."""
    sizes = Translation(gm, example_inputs)
    if not sizes.any:
        return None
    try:
        started = time.perf_counter()
        mode = fresh_fake_mode()
        mode.cache_enabled = False  # its keys are made of torch's own symbols
        recording = record(gm, example_inputs, mode, sizes=sizes)
        sizes.install_guards()
        recording.varying = sizes.sizes, sizes.bound
        first, made = compile_recording(recording, mode, settings, name, time.perf_counter() - started)
    except Fallback as failure:
        logs.logger("recompiles").info("%s: a graph for each size, since %s", name, failure.message)
        return None
    compiled = CompiledGraph(gm, example_inputs, first, lambda inputs: compile_graph(gm, inputs, settings, name)[0])
    report.add(made)
    return compiled


def _told_late(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], settings: Options, name: str
) -> CompiledGraph | None:
    """Compile a graph with sizes that only running tells, in parts. None where there are none, or it cannot be cut."""
    torchs: Any = sys.modules.get("torch._dynamo.config")
    if torchs is None or not (torchs.capture_dynamic_output_shape_ops or torchs.capture_scalar_outputs):
        return None
    if not _tells_sizes(gm):
        return None
    may_tell = bool(torchs.capture_dynamic_output_shape_ops), bool(torchs.capture_scalar_outputs)
    sizes = Translation(gm, example_inputs)
    try:
        mode = fresh_fake_mode()
        mode.cache_enabled = not sizes.any
        recording = record(gm, example_inputs, mode, sizes=sizes, may_tell=may_tell)
        if recording.cut is None:
            return None
        sizes.install_guards()
        plan, layouts = recording.cut
        bound = [*sizes.bound, *[None] * (len(sizes.sizes) - len(sizes.bound))]
        whole = Whole(name, recording, plan, sizes.sizes, bound, layouts, strict=False)
        parts = Segmented(whole, mode, settings)
    except Fallback as failure:
        logs.logger("recompiles").info("%s: not in parts, since %s", name, failure.message)
        return None
    return CompiledGraph(
        gm, example_inputs, Variant(recording, parts), lambda inputs: compile_graph(gm, inputs, settings, name)[0]
    )


def _tells_sizes(gm: torch.fx.GraphModule) -> bool:
    """Whether Dynamo may have made a symbol of something that only running tells."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    values = [node.meta.get("example_value") for node in gm.graph.nodes if node.op != "placeholder"]
    # What it reads from a number that is an input is a symbol like others to it.
    return any(
        isinstance(value, torch.SymInt) or (isinstance(value, torch.Tensor) and bool(free_unbacked_symbols(value)))
        for value in values
    )


def _compile(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], settings: Options, name: str) -> CompiledGraph:
    def compile_variant(inputs: Sequence[Any]) -> Variant:
        variant, made = compile_graph(gm, inputs, settings, name)
        report.add(made)
        return variant

    first, made = compile_graph(gm, example_inputs, settings, name)
    compiled = CompiledGraph(gm, example_inputs, first, compile_variant)
    report.add(made)  # last: a compilation that was interrupted leaves nothing behind
    return compiled


def compile_graph(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], settings: Options, name: str
) -> tuple[Variant, report.CompileReport]:
    """Record and compile one variant; `Fallback` when it cannot be."""
    started = time.perf_counter()
    logs.logger("graph").debug("%s", gm.graph)
    with progress.Shown(progress.label(name)):
        mode = fresh_fake_mode()
        recording = record(gm, inputs, mode)
        return compile_recording(recording, mode, settings, name, time.perf_counter() - started)


def compile_recording(
    recording: Recording,
    mode: FakeTensorMode,
    settings: Options,
    name: str,
    seconds: float = 0.0,
    *,
    all_recorded: bool = False,
) -> tuple[Variant, report.CompileReport]:
    """Compile what was recorded under ``mode``, which took ``seconds``; `Fallback` when it cannot be. With
    ``all_recorded``, all derivatives are torch's own."""
    extension = native.module()
    recorded = time.perf_counter()
    _complete(recording, mode, all_recorded)
    decomposed = time.perf_counter()
    trace = recording.emit(extension.TraceBuilder)
    if logs.logger("ir").isEnabledFor(10):
        logs.logger("ir").debug("%s", trace.text())
    emitted = time.perf_counter()
    stages = {"record": seconds, "decompose": decomposed - recorded, "hand over": emitted - decomposed}
    products: tuple[report.Product, ...] = ()
    if settings.measures and recording.varying is None:
        products = autotune.choose(trace, settings)
        stages["measure"] = time.perf_counter() - emitted
    try:
        executable = extension.compile_trace(trace, {**settings.native(), "choices": autotune.choices(products)})
    except Exception as error:
        interruptions.pass_on(error)
        failure = native.fallback_of(error)
        if failure is not None and failure.reason == "autograd" and not all_recorded:
            # A rule does not hold for these arguments, perhaps: torch's formulas do.
            return compile_recording(recording, mode, settings, name, seconds, all_recorded=True)
        if failure is None:
            logs.logger("fallback").debug("%s", traceback.format_exc())
            failure = Fallback("internal-error", f"{type(error).__name__}: {error}")
        if recording.varying is not None:
            raise failure from error  # a graph is made for given sizes, and what fails then has a reproducer
        raise reproducer.attach(failure, trace, recording, settings, name) from error
    histogram = dict(recording.histogram())
    times = executable.times(name)
    made = report.from_native(name, executable.report(), stages, histogram, products, settings.mode, times)
    if recording.is_training and recording.order == 1:
        gradients = functools.partial(
            higher_order.Gradients, recording, settings, name, drawn=higher_order.drawn_by(made)
        )
        higher_order.attach(executable, gradients)
    _log(made)
    return Variant(recording, executable), made


def _complete(recording: Recording, mode: FakeTensorMode, all_recorded: bool = False) -> None:
    """Add what the compiler needs beside what was recorded: torch's decompositions and derivatives."""
    device.check(recording)
    _refuse_views_of_custom_results(recording)
    with nothing_packed():
        if recording.is_training:
            functions.check(recording)
            recording.drop_unseen_detaches()
            native.differentiator().attach(recording, mode, recording.order, all_recorded)
        # torch's decompositions are recorded at sizes that are numbers: what has no code of ours is the library's.
        if recording.varying is None:
            native.decomposer().attach(recording, mode)


def written(recording: Recording, mode: FakeTensorMode) -> Builder:
    """What was recorded, complete, as the native builder has it; `Fallback` when it has no such form."""
    _complete(recording, mode)
    return recording.emit(native.module().TraceBuilder)


def _refuse_views_of_custom_results(recording: Recording) -> None:
    """A custom operator may write to what it returns as often as it likes; a view of that shows it, fakes do not."""
    roots = recording.roots()
    makers = {value: op for op in recording.ops for value in op.result_ids}
    for output in recording.outputs:
        maker = makers.get(roots[output.id]) if output.id in roots else None
        if maker is not None and not maker.schema.startswith(("aten.", functions.SCHEMA)):
            raise Fallback("custom-op-view", maker.schema, maker.location)


def explain(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Recording:
    """The recording alone, without compiling: for tools."""
    return record(gm, example_inputs)


def _eager(gm: torch.fx.GraphModule, name: str, failure: Fallback) -> PlainGraph:
    event = reasons.note(failure.reason, failure.message, failure.location)
    report.add(report.CompileReport(graph=name, eager=event))
    return PlainGraph(gm, plain.Subject.of_graph(gm), event)


def _check_version() -> None:
    match = re.match(r"(\d+)\.(\d+)", torch.__version__)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    if TESTED[0] <= version <= TESTED[1]:
        return
    raise Fallback("unsupported-torch", torch.__version__)


def _specialise(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    """Take symbolic sizes at their value, guarded through torch; refuse sizes that the user marked dynamic."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    context = torch._guards.TracingContext.try_get()
    contexts = getattr(context, "tensor_to_context", None)
    if contexts is not None:
        for value in example_inputs:
            if isinstance(value, torch.Tensor):
                symbolic = contexts.get(value, None)
                limits = getattr(symbolic, "constraint_sizes", None) or ()
                # Sizes that Dynamo took for dynamic by itself, after a change, have limits that only warn.
                if any(limit is not None and not getattr(limit, "warn_only", False) for limit in limits):
                    raise Fallback("dynamic-shape", f"an input of shape {tuple(value.shape)}")
    for node in gm.graph.find_nodes(op="placeholder"):
        example = node.meta.get("example_value")
        numbers: Sequence[Any] = ()
        if isinstance(example, torch.SymInt):
            numbers = (example,)
        elif type(example) is FakeTensor and example.layout is torch.strided:
            numbers = (*example.shape, *example.stride(), example.storage_offset())
        try:
            for number in numbers:
                int(number)
        except GuardOnDataDependentSymNode as error:
            raise Fallback("dynamic-shape", f"{node.target} has a size that mark_unbacked was used on") from error


def _graph_name(gm: torch.fx.GraphModule) -> str:
    """Where the graph comes from: the Python line of its first operation."""
    from .places import parse_stack

    for node in gm.graph.nodes:
        frames = parse_stack(node.stack_trace) if node.op not in ("placeholder", "output", "get_attr") else []
        if frames:
            return f"{frames[-1][2]} ({frames[-1][0]}:{frames[-1][1]})"
    return "graph"


def _log(made: report.CompileReport) -> None:
    logs.logger("perf").info("%s: %s", made.graph, {name: round(value, 4) for name, value in made.stages.items()})
    for product in made.products:
        logs.logger("perf").info("%s by %s: %s %s", product.strategy, product.source, product.problem, product.times())
    for extern in made.externs:
        logs.logger("extern").info(
            "%s by %s at %s, %d times", extern.schema, extern.route, extern.location, extern.count
        )
