"""Calls of a compiled graph: choose the variant for the overlap of the inputs, and run it.

The native executable creates the outputs and performs a call's other effects.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree

from . import config, foreign_modes, interruptions, logs, native, plain_warnings, reasons, reports
from .graph_modules import forward_of
from .program import Program
from .recording import Recording
from .shape_env import of_length

MAX_VARIANTS = 8


class Variant:
    """One executable, with the tensors that it captured and the nesting of its outputs."""

    def __init__(self, recording: Recording, executable: Any, program: Program | None = None) -> None:
        """``program`` is what was compiled, if it can be differentiated again."""
        self.executable = executable
        self.program = program
        self.varies = recording.varying is not None or recording.cut is not None
        """True if sizes are dynamic."""
        self.depends_on_offsets = recording.offset_sensitive
        storages = [record.storage for record in recording.inputs]
        self.depends_on_overlap = (
            recording.mutates_inputs
            or recording.offset_sensitive
            or any(record.version_bumps for record in recording.inputs)
            or len(set(storages)) != len(storages)
        )
        """True if inputs that share memory in another way need another variant."""
        self._captures = recording.captures
        self.trains = bool(getattr(executable, "nodes", 0))
        self._nested = None if _is_flat(recording.out_spec) else recording.out_spec
        consts = enumerate(output.const for output in recording.outputs)
        self._sizes: list[tuple[int, Any]] = [(at, size) for at, size in consts if isinstance(size, torch.SymInt)]
        """The outputs that are dynamic sizes."""
        if recording.cut is not None:
            self._sizes = []  # the segments compute them
        self._bound = [] if recording.varying is None else recording.varying[1]
        self.lengths = [(at, torch.zeros(1, dtype=torch.int64, device="cpu")) for at in recording.lengths]
        """The int arguments for each of which the graph gets a tensor of that length, with its only element."""

    def __call__(self, tensors: Sequence[Any]) -> Any:
        """Runs on the graph's tensors, in order."""
        if self._captures:
            tensors = [*tensors, *(fetch() for fetch in self._captures)]
        outputs = self.executable(*tensors)
        if self._sizes:
            values = [0 if place is None else tensors[place[0]].shape[place[1]] for place in self._bound]
            for at, size in self._sizes:
                outputs[at] = size.node.at(values)
        return outputs if self._nested is None else pytree.tree_unflatten(outputs, self._nested)

    def native(self) -> Callable[..., Any]:
        """Returns the same as one native object, for callers with their own guards and knowledge of the nesting."""
        return native.module().NativeGraph(self.executable, [fetch() for fetch in self._captures])


class PlainGraph:
    """The callable returned to torch for a graph that runs as plain eager: calling it warns the user."""

    def __init__(self, module: torch.fx.GraphModule, subject: plain_warnings.Subject, event: reasons.Event) -> None:
        self._module = module
        self._subject = subject
        self._event = event
        self._due = not event.entry.waits
        self._told = -1
        """The `config.generation` at the last warning."""

    def __call__(self, *args: Any) -> Any:
        if self._due and self._told != config.generation:
            plain_warnings.tell(self._subject, self._event)
            self._told = config.generation
        result = forward_of(self._module)(*args)
        self._due = True
        return result


class CompiledGraph:
    """The callable returned to torch: compiled variants of one fx graph, with plain eager as the fallback."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        example_inputs: Sequence[Any],
        first: Variant,
        compile_variant: Callable[[Sequence[Any]], Variant],
    ) -> None:
        self._module = module
        self._disturbance = native.module().disturbance
        self._compile_variant = compile_variant
        self._first = first
        self._positions = [at for at, value in enumerate(example_inputs) if isinstance(value, torch.Tensor)]
        self._all_tensors = len(self._positions) == len(example_inputs)
        # Dynamic sizes are those of tensors; Dynamo guards other numbers.
        self._numbers = [at for at in range(len(example_inputs)) if at not in set(self._positions) and not first.varies]
        self._keyed = first.depends_on_overlap
        self._subject = plain_warnings.Subject.of_graph(module)
        self._fails_alone = False
        """True if plain eager has succeeded where the compiled graph failed; otherwise its exception is enough."""
        self._variants: dict[Any, Variant | reasons.Event] = {}
        if self._keyed:
            self._variants[self._key(example_inputs)] = first
        self._lock = threading.Lock()

    def __call__(self, *args: Any) -> Any:
        if self._disturbance() is not None and (disturbed := foreign_modes.beyond_compiled_code()) is not None:
            plain_warnings.tell(self._subject, reasons.note(disturbed.reason, disturbed.message))
            return forward_of(self._module)(*args)
        variant = self._variant(args) if self._keyed else self._first
        if isinstance(variant, reasons.Event):
            plain_warnings.tell(self._subject, variant)
            return forward_of(self._module)(*args)
        tensors = args if self._all_tensors else [args[at] for at in self._positions]
        if variant.lengths:
            tensors = [*tensors, *(of_length(element, args[at]) for at, element in variant.lengths)]
        try:
            return variant(tensors)
        except Exception as error:
            interruptions.pass_on(error)
            if _is(error, "WrittenError"):
                raise  # a repeated call would read the written values
            if variant.trains and not _is(error, "NativeError"):
                raise  # from a hook on saved tensors: the graph has run
            reason = native.run_failure(error)
            event = reasons.note(reason, f"{type(error).__name__}: {error}")
            reports.bump("calls_repeated_eagerly")
        # Plain eager would not report what is wrong with the inputs.
        if reason != "run-error" or self._fails_alone:
            plain_warnings.tell(self._subject, event)
        result = forward_of(self._module)(*args)
        self._fails_alone = True
        return result

    def _key(self, args: Sequence[Any]) -> Any:
        """Returns a key for the overlap of the inputs: equal keys, equal overlap."""
        numbers: dict[int, int] = {}
        key: list[Any] = []
        counts: dict[int, int] = {}
        for at in self._positions:
            storage = args[at].untyped_storage()._cdata
            key.append(numbers.setdefault(storage, len(numbers)))
            counts[storage] = counts.get(storage, 0) + 1
        everything = self._first.depends_on_offsets
        for at in self._positions:
            if everything or counts[args[at].untyped_storage()._cdata] > 1:
                key.append(int(args[at].storage_offset()))
        return (tuple(key), self._same_objects(args), tuple(int(args[at]) for at in self._numbers if _is_int(args[at])))

    def _same_objects(self, args: Sequence[Any]) -> tuple[int, ...]:
        first: dict[int, int] = {}
        return tuple(first.setdefault(id(args[at]), at) for at in self._positions)

    def _variant(self, args: Sequence[Any]) -> Variant | reasons.Event:
        """Returns the variant for these inputs, or the reason that there is none."""
        key = self._key(args)
        if key in self._variants:
            return self._variants[key]
        with self._lock:
            if key in self._variants:
                return self._variants[key]
            if len(self._variants) >= MAX_VARIANTS:
                return reasons.note("input-layout", f"more than {MAX_VARIANTS} kinds of overlap")
            logs.logger("runtime").info("inputs overlap as never before: compiling a variant")
            try:
                made: Variant | reasons.Event = self._compile_variant(args)
            except reasons.Fallback as failure:
                made = reasons.note(failure.reason, failure.message, failure.location)
            self._variants[key] = made
            return made


def _is(error: Exception, name: str) -> bool:
    """Returns true if an exception is the native one of that name."""
    kind = getattr(native.module(), name, None)
    return kind is not None and isinstance(error, kind)


def _is_int(value: Any) -> bool:
    return isinstance(value, (int, torch.SymInt))


def _is_flat(spec: Any) -> bool:
    """Returns true if the outputs are a plain tuple or list of leaves, as torch requires."""
    return spec is None or (spec.type in (tuple, list) and all(child.is_leaf() for child in spec.children()))
