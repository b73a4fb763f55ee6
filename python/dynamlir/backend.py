"""The backend that ``torch.compile(model, backend="dynamlir")`` calls: record, decompose, compile, or plain eager."""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from . import (
    checking,
    collectives,
    interruptions,
    logs,
    native,
    nested_doors,
    plain_warnings,
    progress,
    reasons,
    reports,
)
from .compilation import compile_recording
from .options import Options
from .options import resolve as resolve_options
from .reasons import Fallback
from .recording import Recording
from .reports.decisions import Decision, Site
from .run_segments import Segmented, Whole
from .runtime import CompiledGraph, PlainGraph, Variant
from .shape_env import Translation
from .source_lines import parse_stack
from .tracing import fresh_fake_mode, record

TESTED = ((2, 11), (2, 15))
"""The first and last torch version with which this package has been tested."""


@reports.decisions.collecting()
def dynamlir_backend(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    **unknown: Any,
) -> Callable[..., Any]:
    """Compiles ``gm`` for ``example_inputs``. A graph that cannot be compiled runs as plain eager, with a counted
    reason.

    ``mode``, ``options`` and ``name`` are torch.compile's; the latter names the graph in reports.
    """
    if unknown:
        raise TypeError(f"dynamlir: unexpected backend argument(s) {', '.join(sorted(unknown))}")
    settings = resolve_options(mode, options)
    nested_doors.keep_tracer_out()
    name = name or _graph_name(gm)
    compiled = _compiled(
        gm, example_inputs, settings, name, functools.partial(dynamlir_backend, mode=mode, options=options)
    )
    return checking.checked(name, gm, compiled, settings) if isinstance(compiled, CompiledGraph) else compiled


def _compiled(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], settings: Options, name: str, of_part: collectives.Compile
) -> Callable[..., Any]:
    """Compiles a graph; ``of_part`` compiles a part of it between collectives."""
    try:
        _check_version()
        whole = _with_unbacked(gm, example_inputs, settings, name) or _sized(gm, example_inputs, settings, name)
        if whole is not None:
            return whole
        _specialise(gm, example_inputs)
        between = collectives.cut(gm, of_part)
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
    """Discards the kernels and decompositions of this process; called by ``torch.compiler.reset()``."""
    native.forget_kernels()


dynamlir_backend.reset = reset  # type: ignore[attr-defined]


def _sized(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], settings: Options, name: str
) -> CompiledGraph | None:
    """Compiles a graph for all dynamic sizes from Dynamo. Returns None without any, or if it needs numbers."""
    sizes = Translation(gm, example_inputs)
    if not sizes.any:
        return None
    try:
        started = time.perf_counter()
        mode = fresh_fake_mode()
        mode.cache_enabled = False  # its keys only support torch's own symbols
        recording = record(gm, example_inputs, mode, sizes=sizes)
        sizes.install_guards()
        recording.varying = sizes.sizes, sizes.bound
        first, made = compile_recording(recording, mode, settings, name, time.perf_counter() - started)
    except Fallback as failure:
        reports.instead(name, "a graph for each size", failure)
        return None
    compiled = CompiledGraph(gm, example_inputs, first, lambda inputs: compile_graph(gm, inputs, settings, name)[0])
    reports.add(made)
    return compiled


def _with_unbacked(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], settings: Options, name: str
) -> CompiledGraph | None:
    """Compiles a graph with unbacked sizes, in segments. Returns None if there are none, or if it cannot be cut."""
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
        reports.instead(name, "not in parts", failure)
        return None
    return CompiledGraph(
        gm, example_inputs, Variant(recording, parts), lambda inputs: compile_graph(gm, inputs, settings, name)[0]
    )


def _tells_sizes(gm: torch.fx.GraphModule) -> bool:
    """Returns true if Dynamo may have created an unbacked symbol."""
    # This imports sympy, which few programs need.
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    values = [node.meta.get("example_value") for node in gm.graph.nodes if node.op != "placeholder"]
    # To Dynamo, a value read from a number that is an input is a symbol like any other.
    return any(
        isinstance(value, torch.SymInt) or (isinstance(value, torch.Tensor) and bool(free_unbacked_symbols(value)))
        for value in values
    )


def _compile(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], settings: Options, name: str) -> CompiledGraph:
    def compile_variant(inputs: Sequence[Any]) -> Variant:
        variant, made = compile_graph(gm, inputs, settings, name)
        again = Decision("guards", Site(name), "compile again", ("reuse an entry",), "inputs overlap as never before")
        reports.add(dataclasses.replace(made, decisions=(again, *made.decisions)))
        return variant

    first, made = compile_graph(gm, example_inputs, settings, name)
    compiled = CompiledGraph(gm, example_inputs, first, compile_variant)
    reports.add(made)  # last: an interrupted compilation leaves nothing behind
    return compiled


def compile_graph(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], settings: Options, name: str
) -> tuple[Variant, reports.CompileReport]:
    """Records and compiles one variant; raises `Fallback` if that is impossible."""
    started = time.perf_counter()
    logs.logger("graph").debug("%s", gm.graph)
    with progress.Shown(progress.label(name)):
        mode = fresh_fake_mode()
        recording = record(gm, inputs, mode)
        return compile_recording(recording, mode, settings, name, time.perf_counter() - started)


def explain(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Recording:
    """Returns the recording alone, without compiling: for tools."""
    return record(gm, example_inputs)


def _eager(gm: torch.fx.GraphModule, name: str, failure: Fallback) -> PlainGraph:
    event = reasons.note(failure.reason, failure.message, failure.location)
    reports.add(reports.CompileReport(graph=name, eager=event))
    return PlainGraph(gm, plain_warnings.Subject.of_graph(gm), event)


def _check_version() -> None:
    match = re.match(r"(\d+)\.(\d+)", torch.__version__)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    if TESTED[0] <= version <= TESTED[1]:
        return
    raise Fallback("unsupported-torch", torch.__version__)


def _specialise(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    """Specialises symbolic sizes to their values, guarded through torch; refuses sizes that the user marked dynamic."""
    # This imports sympy, which few programs need.
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    context = torch._guards.TracingContext.try_get()
    contexts = getattr(context, "tensor_to_context", None)
    if contexts is not None:
        for value in example_inputs:
            if isinstance(value, torch.Tensor):
                symbolic = contexts.get(value, None)
                limits = getattr(symbolic, "constraint_sizes", None) or ()
                # Sizes that Dynamo made dynamic automatically, after a change, have limits that only warn.
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
    """Returns a name for the graph: the Python line of its first operation."""
    for node in gm.graph.nodes:
        frames = parse_stack(node.stack_trace) if node.op not in ("placeholder", "output", "get_attr") else []
        if frames:
            return f"{frames[-1][2]} ({frames[-1][0]}:{frames[-1][1]})"
    return "graph"
