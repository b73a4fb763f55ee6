"""The long tail: torch's own decomposition of one operation, recorded at its shapes and attached to it.

An operation that the native decomposition pass neither lowers nor keeps may still be expressible in operations that it
knows. Torch has such expressions in its decomposition table and in its composite kernels; both are run on fakes under
the same recorder. A decomposition counts only if all its operations are known natively: otherwise the operation stays
one extern call, which is what eager runs.
"""

from __future__ import annotations

import functools
import math
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from .. import interruptions, logs, native
from ..fakes import Faker
from ..recorder import OpRecorder
from ..recording import DTYPES, NO_RESULT, OpRecord, OutputRecord, Recording, Ref, TensorMeta, map_refs
from . import custom, schema, table
from .rerun_on_fakes import Operands, freeze, split_arguments

_MAX_DEPTH = 8


class _NotThisWay(Exception):
    """A decomposition that is not equivalent to its operation."""


Known = frozenset[str] | set[str]


class Decomposer:
    """Finds, records and caches decompositions. ``known`` holds the schemas that the compiler lowers or keeps."""

    def __init__(self, rust_ops: Known, keep_ops: Known) -> None:
        self.known = frozenset(rust_ops) | frozenset(keep_ops)
        self._cache: dict[Any, Recording | None] = {}
        self._lock = threading.Lock()
        self._active = threading.local()

    def attach(self, recording: Recording, mode: FakeTensorMode) -> None:
        """Attaches a decomposition to every operation that needs one, where one exists."""
        with _disable_current_modes():
            self._attach(recording, mode)

    def _attach(self, recording: Recording, mode: FakeTensorMode) -> None:
        for op in recording.ops:
            if self.wants(op):
                op.decomposition = self._find(op, recording, mode)
            if op.vjp is not None:
                self._attach(op.vjp, mode)

    def wants(self, op: OpRecord) -> bool:
        """Returns true if the compiler itself can only emit this operation as a call."""
        name = op.functional or op.schema
        known = name in self.known or op.is_view or op.random or op.raw is None
        return not known and not table.facts(name).uninitialised

    def covered(self, recording: Recording) -> bool:
        """Returns true if every operation is known natively or decomposed into such operations."""
        return all(not self.wants(op) or op.decomposition is not None for op in recording.ops)

    def _find(self, op: OpRecord, of: Recording, mode: FakeTensorMode) -> Recording | None:
        assert op.raw is not None
        metas, device = of.metas, of.device
        overload, raw = op.raw
        name = str(overload)
        if not candidates(overload):
            return None
        key = (name, freeze(raw, metas, []), tuple(op.results) if not op.functional else None, str(device or "cpu"))
        # A user may replace an operator's kernel, or reuse its name for another operator.
        remembers = overload.namespace in custom.TORCHS
        with self._lock:
            if remembers and key in self._cache:
                return self._cache[key]
        stack: list[str] = self._active.__dict__.setdefault("stack", [])
        if name in stack or len(stack) >= _MAX_DEPTH:
            return None
        if _is_refused(op, overload, raw, metas):
            with self._lock:
                self._cache[key] = None
            return None
        stack.append(name)
        try:
            found = self._record(op, overload, raw, of, mode)
        finally:
            stack.pop()
        if remembers and not stack:  # inside another decomposition a refusal may be due to the recursion limit alone
            with self._lock:
                self._cache[key] = found
        return found

    def _record(
        self,
        op: OpRecord,
        overload: OpOverload,
        raw: list[Any],
        of: Recording,
        mode: FakeTensorMode,
    ) -> Recording | None:
        log = logs.logger("decomposition")
        for run in candidates(overload):
            try:
                recording = record_one(op, run, overload, raw, of, mode)
                self._attach(recording, mode)
            except Exception as error:
                interruptions.pass_on(error)
                log.info("%s: not decomposed: %s: %s", overload, type(error).__name__, error)
                continue
            if any(meta.dtype.startswith("complex") for meta in recording.metas.values()):
                # No code is generated for complex numbers, so decomposing would gain nothing.
                log.info("%s: not decomposed: complex numbers", overload)
                return None
            if self.covered(recording):
                log.info("%s: %s", overload, dict(recording.histogram()))
                return recording
            unknown = sorted({inner.schema for inner in recording.ops if self.wants(inner) and not inner.decomposition})
            log.info("%s: not decomposed: needs %s", overload, ", ".join(unknown))
        return None


_MOST_ELEMENTS = 1 << 22
"""The limit on operand elements for a trial run. Above it, an operation that might be refused is not decomposed."""


def _is_refused(op: OpRecord, overload: OpOverload, raw: list[Any], metas: dict[int, TensorMeta]) -> bool:
    """Returns true if eager may not have a kernel for these element types. Decompositions accept more types than
    kernels, so the kernel itself is tried. Kernels for single and double floats always exist."""
    operands = [metas[value] for value in op.operands]
    if all(meta.dtype in ("f32", "f64") for meta in operands):
        return False
    if sum(math.prod(meta.sizes) for meta in operands) > _MOST_ELEMENTS:
        return True

    def zeros(ref: Ref) -> torch.Tensor:
        meta = metas[ref.id]
        return torch.zeros(meta.sizes, dtype=DTYPES[meta.dtype])

    arguments = [map_refs(value, zeros) for value in raw]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            positional, keywords = schema.call(overload, arguments)
            overload(*positional, **keywords)
        except NotImplementedError:
            return True
        except Exception:  # it does not accept zeros
            return False
    return False


@functools.cache
def candidates(overload: OpOverload) -> tuple[Callable[..., Any], ...]:
    """Returns ways to express ``overload`` by other operations, best first."""
    from torch._decomp import decomposition_table  # takes a tenth of a second

    if overload.namespace != "aten":
        return ()  # a custom operator is called directly
    found: list[Callable[..., Any]] = []
    if overload in decomposition_table:
        found.append(decomposition_table[overload])
    key = DispatchKey.CompositeExplicitAutograd
    if overload.has_kernel_for_dispatch_key(key) and not schema.info(overload).facts.in_its_result:
        found.append(functools.partial(overload._op_dk, key))
    return tuple(found)


def record_one(
    op: OpRecord,
    run: Callable[..., Any],
    overload: OpOverload,
    raw: list[Any],
    of: Recording,
    mode: FakeTensorMode,
) -> Recording:
    """Records ``run`` on fakes that look like the operation's operands. The inputs are its operands in order."""
    recording = Recording(str(overload).replace(".", "_"))
    faker = Faker(mode)
    recorder = OpRecorder(recording, faker)
    operands = Operands(recorder, faker, of)
    positional, keywords = split_arguments(overload, [operands.replaced(value) for value in raw])
    with torch.no_grad(), mode, recorder:
        result = run(*positional, **keywords)
    if recorder.failure is not None:
        raise recorder.failure
    if result is NotImplemented:
        raise _NotThisWay("the decomposition does not apply")
    if recording.mutates_inputs or any(inner.random for inner in recording.ops):
        raise _NotThisWay("the decomposition is not a function of its operands")
    leaves = [leaf for leaf in pytree.tree_leaves(result)]
    for leaf in leaves:
        if leaf is None:
            recording.outputs.append(OutputRecord("none"))
            continue
        if not isinstance(leaf, torch.Tensor):
            raise _NotThisWay("the decomposition returns something else")
        recording.outputs.append(OutputRecord("value", recorder.id_of(leaf)))
    _check(op, [NO_RESULT if leaf is None else TensorMeta.of(leaf) for leaf in leaves])
    return recording


def _check(op: OpRecord, results: list[TensorMeta]) -> None:
    if op.functional:
        return  # the results are fresh ones and new values; the pass that uses them checks
    wanted = [(meta.dtype, meta.sizes) for meta in op.results]
    if [(meta.dtype, meta.sizes) for meta in results] != wanted:
        raise _NotThisWay(f"the decomposition gives {results}, not {wanted}")


@native.derived
def decomposer() -> Decomposer:
    """Returns the process's decompositions, for the operations this native module knows."""
    extension = native.module()
    return Decomposer(extension.rust_ops(), extension.keep_ops())
