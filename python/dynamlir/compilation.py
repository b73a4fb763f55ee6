"""Compiles recordings: completes them with decompositions and derivatives, and hands them to the extension."""

from __future__ import annotations

import dataclasses
import functools
import os
import time
import traceback
from collections.abc import Mapping
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode

from . import autograd_functions, autotune, device, higher_order, interruptions, logs, native, reports, reproducer
from .aten import decompositions, derivatives
from .logs import output_code
from .options import Options, resolve
from .program import Program
from .reasons import Fallback
from .recording import Builder, Recording
from .reports import outline
from .reports.decisions import Decision
from .runtime import Variant
from .thread_state import nothing_packed


def compile_recording(
    recording: Recording,
    mode: FakeTensorMode,
    settings: Options,
    name: str,
    seconds: float = 0.0,
    *,
    all_recorded: bool = False,
) -> tuple[Variant, reports.CompileReport]:
    """Compiles a recording made under ``mode``, which took ``seconds``; raises `Fallback` if that is impossible. With
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
    products: tuple[Decision, ...] = ()
    if settings.measures and recording.varying is None:
        products = autotune.choose(trace, settings)
        stages["measure"] = time.perf_counter() - emitted
    try:
        given = {**settings.native(), "choices": autotune.choices(products)}
        with output_code.logged(given, name) as logged:
            executable = extension.compile_trace(trace, logged)
    except Exception as error:
        interruptions.pass_on(error)
        failure = native.fallback_of(error)
        if failure is not None and failure.reason == "autograd" and not all_recorded:
            # A rule may be invalid for these arguments, while torch's formulas are valid.
            variant, made = compile_recording(recording, mode, settings, name, seconds, all_recorded=True)
            retry = Decision.of("dynamo-autodiff", name, "torch's derivatives", "the compiler's rules", failure)
            return variant, dataclasses.replace(made, decisions=(retry, *made.decisions))
        if failure is None:
            logs.logger("fallback").debug("%s", traceback.format_exc())
            failure = Fallback("internal-error", f"{type(error).__name__}: {error}")
        if recording.varying is not None:
            raise failure from error  # a static graph follows, whose failure gets a reproducer
        raise reproducer.attach(failure, trace, recording, settings, name) from error
    recorded_ops = dict(recording.histogram())
    own = {"recorded": recorded_ops, "ops_recorded": sum(recorded_ops.values()), "mode": settings.mode}
    folder = None if given["dump"] is None else os.path.abspath(given["dump"])
    kept = {"_times": executable.times(name), "_outline": outline.packed(recording), "_dump": folder}
    made = reports.from_native(executable.report(name), stages, products, **own, **kept)
    program = Program(trace)
    _differentiate(executable, program, settings, name, made)
    _log(made)
    return Variant(recording, executable, program if recording.is_training else None), made


def compile_program(program: Program, settings: Options, name: str) -> Any:
    """Compiles a complete program, such as one that was read from a text, and returns its native executable. Raises
    native errors."""
    executable = native.module().compile_trace(program.trace, settings.native())
    made = reports.from_native(executable.report(name), {}, mode=settings.mode, _times=executable.times(name))
    _differentiate(executable, program, settings, name, made)
    reports.add(made)
    _log(made)
    return executable


def differentiate_loaded(executables: Mapping[str, Any], text: str, name: str) -> None:
    """Makes the gradients of the entries of a text differentiable, if it is at stage 00 (aten): other stages no longer
    contain the operations that torch differentiates."""
    for entry, executable in executables.items():
        if executable.nodes:
            try:
                program = Program.read(text, entry)
            except ValueError:
                return
            _differentiate(executable, program, resolve(), name, reports.from_native(executable.report(name), {}))


def _differentiate(
    executable: Any, program: Program, settings: Options, name: str, made: reports.CompileReport
) -> None:
    """Makes the gradients of a program differentiable. Those of higher orders do this themselves."""
    if executable.nodes and program.order == 1:
        drawn = higher_order.drawn_by(made)
        gradients = functools.partial(higher_order.Gradients, program, settings, name, compile_recording, drawn=drawn)
        higher_order.attach(executable, gradients)


def _complete(recording: Recording, mode: FakeTensorMode, all_recorded: bool = False) -> None:
    """Adds what the compiler needs besides the recorded operations: torch's decompositions and derivatives."""
    device.check(recording)
    _refuse_views_of_custom_results(recording)
    with nothing_packed():
        if recording.is_training:
            autograd_functions.check(recording)
            recording.drop_unseen_detaches()
            derivatives.differentiator().attach(recording, mode, recording.order, all_recorded)
        # torch's decompositions need static sizes: with dynamic ones, operations without code of ours are extern calls.
        if recording.varying is None:
            decompositions.decomposer().attach(recording, mode)


def written(recording: Recording, mode: FakeTensorMode) -> Builder:
    """Returns the complete recording in the form of the native builder; raises `Fallback` if it has no such form."""
    _complete(recording, mode)
    return recording.emit(native.module().TraceBuilder)


def _refuse_views_of_custom_results(recording: Recording) -> None:
    """Refuses views of a custom operator's results: writes to them at any time show in eager's views, not in fakes."""
    roots = recording.roots()
    makers = {value: op for op in recording.ops for value in op.result_ids}
    for output in recording.outputs:
        maker = makers.get(roots[output.id]) if output.id in roots else None
        if maker is not None and not maker.schema.startswith(("aten.", autograd_functions.SCHEMA)):
            raise Fallback("custom-op-view", maker.schema, maker.location)


def _log(made: reports.CompileReport) -> None:
    logs.logger("perf").info("%s: %s", made.graph, {name: round(value, 4) for name, value in made.stages.items()})
    for product in made.products:
        times = reports.fastest_first(product.milliseconds)
        logs.logger("perf").info("%s by %s: %s %s", product.strategy, product.source, product.problem, times)
    for extern in made.externs:
        logs.logger("extern").info(
            "%s by %s at %s, %d times", extern.schema, extern.route, extern.location, extern.count
        )
