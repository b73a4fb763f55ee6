"""A stand-in for ``dynamlir._native`` in pure Python: it checks what it is given and runs it with torch's own
operators.

It lets the recorder, the decompositions and the call-time fix-ups be tested without the compiler. Mutations run as
their functional variant and a copy, and decompositions run instead of the operation, so the semantics of both are
tested.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

if TYPE_CHECKING:
    from dynamlir.recording import TensorMeta

_DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "ui8": torch.uint8,
    "i1": torch.bool,
}

RUST_OPS: set[str] = {
    str(overload)
    for packet in (getattr(torch.ops.aten, name) for name in dir(torch.ops.aten) if not name.startswith("__"))
    if isinstance(packet, torch._ops.OpOverloadPacket)
    for overload in (getattr(packet, name) for name in packet.overloads())
    if torch.Tag.core in overload.tags
}
KEEP_OPS: set[str] = set()
FAIL_RUN: list[Exception] = []
"""Exceptions for the next calls of executables."""


class NativeError(Exception):
    """The base class of the native exceptions."""


class Unsupported(NativeError):
    """Stands in for the native exception of this name."""

    def __init__(self, reason_id: str, message: str, location: Any = None) -> None:
        super().__init__(reason_id, message, location)
        self.reason_id, self.message, self.location = reason_id, message, location


class RunError(NativeError):
    """Stands in for the native exception of this name."""


class TraceBuilder:
    """Checks and keeps the recorded operations."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[tuple[Any, ...]] = []
        self.bumps: list[int] = []
        self.effects = {"random": False, "no_grad": False}
        self.ops: list[dict[str, Any]] = []
        self.outputs: list[tuple[Any, ...]] = []
        self.metas: dict[int, TensorMeta] = {}

    def libraries(self, folders: Sequence[str]) -> None:
        assert all(folder.endswith("/") for folder in folders)

    def random(self) -> None:
        self.effects["random"] = True

    def input(
        self,
        value: int,
        name: str,
        meta: TensorMeta,
        storage: int,
        version_bumps: int = 0,
        requires_grad: bool = False,
        tangent: int | None = None,
    ) -> None:
        self.bumps.append(version_bumps)
        self.effects["no_grad"] |= requires_grad
        assert not self.ops and meta.dtype in _DTYPES and len(meta.sizes) == len(meta.strides)
        self.inputs.append((value, name, meta, storage))
        self._define(value, meta)

    def op(
        self,
        schema: str,
        args: list[Any],
        values: list[int],
        results: list[TensorMeta],
        aliases: list[int],
        mutates: list[int],
        functional: str | None,
        grad_enabled: bool,
        decomposition: TraceBuilder | None,
        vjp: TraceBuilder | None,
        location: list[tuple[str, int, str]],
    ) -> None:
        operands = list(tensors(args))
        assert all(value in self.metas for value in operands), (schema, operands)
        assert len(values) == len(results)
        assert len(aliases) == len(results) and all(-1 <= alias < len(operands) for alias in aliases)
        assert all(0 <= at < len(operands) for at in mutates) and bool(mutates) == (functional is not None)
        assert len(find(schema)._schema.arguments) == len(args)
        assert all(isinstance(file, str) and isinstance(line, int) for file, line, _ in location)
        for value, meta in zip(values, results):
            self._define(value, meta)
        self.ops.append(
            {
                "schema": schema,
                "args": args,
                "operands": operands,
                "results": results,
                "ids": values,
                "aliases": aliases,
                "mutates": mutates,
                "functional": functional,
                "decomposition": decomposition,
                "vjp": vjp,
                "location": location,
            }
        )

    def output(self, kind: str, *payload: Any) -> None:
        assert kind in ("value", "none", "const") and len(payload) == {"value": 6, "none": 0, "const": 1}[kind]
        self.outputs.append((kind, *payload))

    def text(self) -> str:
        lines = [f"func @{self.name} {self.inputs}"]
        lines += [f"  {op['ids']} = {op['schema']} {op['args']} {op['aliases']} {op['mutates']}" for op in self.ops]
        return "\n".join([*lines, f"  return {self.outputs}"])

    def _define(self, value: int, meta: TensorMeta) -> None:
        assert value not in self.metas
        self.metas[value] = meta


def tensors(args: list[Any]) -> Any:
    for value in args:
        if isinstance(value, tuple) and value[0] == "t":
            yield value[1]
        elif isinstance(value, list):
            yield from tensors(value)


def find(schema: str) -> Any:
    namespace, _, rest = schema.partition(".")
    op, _, overload = rest.rpartition(".")
    return getattr(getattr(getattr(torch.ops, namespace), op), overload)


def decode(value: Any, values: dict[int, Any]) -> Any:
    if isinstance(value, list):
        return [decode(element, values) for element in value]
    if isinstance(value, tuple):
        kind, payload = value
        if kind == "t":
            return values[payload]
        if kind == "dtype":
            return _DTYPES[payload]
        return {
            "device": torch.device,
            "memory_format": lambda n: getattr(torch, n),
            "layout": lambda n: torch.strided,
        }[kind](payload)
    return value


def call(op: Any, named: dict[str, Any]) -> Any:
    positional = [named[a.name] for a in op._schema.arguments if not a.kwarg_only]
    return op(*positional, **{a.name: named[a.name] for a in op._schema.arguments if a.kwarg_only})


def flat(out: Any) -> list[Any]:
    return [leaf for element in out for leaf in flat(element)] if isinstance(out, (list, tuple)) else [out]


def run(trace: TraceBuilder, arguments: list[torch.Tensor]) -> list[Any]:
    """Runs a trace with real aliasing; writes use functional variants."""
    values: dict[int, Any] = {value: argument for (value, *_), argument in zip(trace.inputs, arguments)}
    for op in trace.ops:
        overload = find(op["schema"])
        named = {a.name: decode(v, values) for a, v in zip(overload._schema.arguments, op["args"])}
        operands = [values[value] for value in op["operands"]]
        effective = find(op["functional"]) if op["functional"] else overload
        kept = [a.name for a in effective._schema.arguments]
        if op["decomposition"] is not None:
            inner = list(tensors([v for a, v in zip(overload._schema.arguments, op["args"]) if a.name in kept]))
            out = run(op["decomposition"], [values[value] for value in inner])
        else:
            out = flat(call(effective, {name: named.get(name) for name in kept}))
        if op["functional"]:
            fresh = [at for at, alias in enumerate(op["aliases"]) if alias < 0]
            assert len(out) == len(fresh) + len(op["mutates"]), (op["schema"], op["functional"])
            for at, new in zip(op["mutates"], out[len(fresh) :]):
                assert new.shape == operands[at].shape, (op["schema"], new.shape, operands[at].shape)
                with torch.autograd._unsafe_preserve_version_counter(operands[at]):
                    operands[at].copy_(new)
            results: list[Any] = [None] * len(op["results"])
            for at, value in zip(fresh, out):
                results[at] = value
            out = [operands[alias] if alias >= 0 else r for alias, r in zip(op["aliases"], results)]
        for value, tensor, meta, alias in zip(op["ids"], out, op["results"], op["aliases"]):
            if meta.dtype == "none":
                assert tensor is None
                continue
            check(op["schema"], tensor, meta, op["decomposition"] is not None)
            decomposed = op["decomposition"] is not None
            if alias < 0 and (decomposed or tensor.stride() != meta.strides or tensor.storage_offset() != meta.offset):
                tensor = torch.empty_strided(meta.sizes, meta.strides, dtype=tensor.dtype).copy_(tensor)
            if alias < 0 and op["schema"].startswith("aten.") and not tensor.is_inference():
                torch._C._autograd._unsafe_set_version_counter((tensor,), (0,))
            values[value] = tensor
    out = []
    for kind, *payload in trace.outputs:
        out.append(values[payload[0]] if kind == "value" else payload[0] if kind == "const" else None)
    return out


def finished(trace: TraceBuilder, outputs: list[Any], arguments: Sequence[torch.Tensor]) -> list[Any]:
    """The outputs, as views of the tensors they alias, with version counters."""
    bases = [payload[2] if kind == "value" else None for kind, *payload in trace.outputs]
    first: dict[int, int] = {}
    same = [first.setdefault(id(output), at) for at, output in enumerate(outputs)]
    made = list(outputs)
    for at in sorted(range(len(outputs)), key=lambda at: (bases[at] is not None, bases[at] != ("hidden", at))):
        old, base = outputs[at], bases[at]
        if same[at] != at or not isinstance(old, torch.Tensor) or any(old is argument for argument in arguments):
            continue
        if old.is_inference() or (base is None and not old._is_view()):
            continue
        if base is None:
            made[at] = old.detach()
            continue
        kind, number = base
        if kind == "arg":
            target = arguments[number]
        elif kind == "output":
            target = made[number]
        else:
            target = old.detach() if number == at else made[number]._base
        made[at] = target.as_strided(old.shape, old.stride(), old.storage_offset())
    made = [made[at] for at in same]
    for argument, count in zip(arguments, trace.bumps):
        for _ in range(count if not argument.is_inference() else 0):
            torch.autograd.graph.increment_version(argument)
    storages = {argument.untyped_storage()._cdata for argument in arguments}
    for tensor, (kind, *payload) in zip(made, trace.outputs):
        if (
            kind == "value"
            and payload[1]
            and tensor.untyped_storage()._cdata not in storages
            and not tensor.is_inference()
        ):
            torch._C._autograd._unsafe_set_version_counter((tensor,), (payload[1],))
    return made


def check(schema: str, tensor: torch.Tensor, meta: Any, decomposed: bool) -> None:
    dtype, sizes, strides, _ = meta
    found = (tensor.dtype, tuple(tensor.shape))
    assert found == (_DTYPES[dtype], sizes), (schema, found, meta)
    if not decomposed and tensor.numel() > 1 and "empty" not in schema:
        live = [at for at, size in enumerate(sizes) if size > 1]
        assert [tensor.stride(at) for at in live] == [strides[at] for at in live], (schema, tensor.stride(), meta)


class Executable:
    """Interprets its trace."""

    def __init__(self, trace: TraceBuilder) -> None:
        self._trace = trace

    def __call__(self, *arguments: torch.Tensor) -> list[Any]:
        if FAIL_RUN:
            raise FAIL_RUN.pop()
        assert len(arguments) == len(self._trace.inputs), (len(arguments), len(self._trace.inputs))
        for tensor, (_, name, (dtype, sizes, strides, _), _) in zip(arguments, self._trace.inputs):
            if (tensor.dtype, tuple(tensor.shape), tensor.stride()) != (_DTYPES[dtype], sizes, strides):
                raise RunError(f"input {name} is not what was compiled for")
        with _disable_current_modes():
            saved = {tensor.untyped_storage()._cdata: tensor.untyped_storage().clone() for tensor in arguments}
        state = torch.get_rng_state()
        try:
            grad = torch.is_grad_enabled() and not self._trace.effects["no_grad"]
            with torch.set_grad_enabled(grad), torch.autograd._unsafe_preserve_version_counter(tuple(set(arguments))):
                outputs = run(self._trace, list(arguments))
            with torch.no_grad():
                return finished(self._trace, outputs, arguments)
        except AssertionError:
            raise
        except Exception as error:
            if self._trace.effects["random"]:
                torch.set_rng_state(state)
            for tensor in arguments:
                tensor.untyped_storage().copy_(saved[tensor.untyped_storage()._cdata])
            raise RunError(f"{type(error).__name__}: {error}") from error

    def report(self) -> dict[str, Any]:
        externs = [
            {"schema": schema, "route": "python", "location": location, "count": 1}
            for schema, location in _executed(self._trace)
        ]
        return {
            "stages": {"fake": 0.0},
            "kernels": 0,
            "externs": externs,
            "ops_generated": sum(1 for op in self._trace.ops if op["decomposition"] is not None),
            "ops_extern": len(externs),
        }


def _executed(trace: TraceBuilder) -> Iterator[tuple[str, Any]]:
    """Everything that interpreting a trace dispatches."""
    for op in trace.ops:
        yield op["functional"] or op["schema"], op["location"][:1]
        if op["decomposition"] is not None:
            yield from _executed(op["decomposition"])
    for schema in ("aten.copy_.default", "aten.empty_strided.default", "aten.empty.memory_format"):
        yield schema, []


def compile_trace(trace: TraceBuilder, options: dict[str, Any]) -> Executable:
    del options
    return Executable(trace)


def load(path: str, stage: str | None) -> Executable:
    raise NativeError(f"cannot replay {path} from {stage}")


def disturbance() -> str | None:
    return None


def rust_ops() -> set[str]:
    return RUST_OPS


def keep_ops() -> set[str]:
    return KEEP_OPS


def configure(refuses_plain: bool, entries: int, accumulated: int, audited: float) -> None:
    """Ignores these settings."""


def forget_entries() -> None:
    """Does nothing: this stand-in has no entries."""


def clear_kernel_cache() -> None:
    """Does nothing: this stand-in has no kernel cache."""


def install() -> types.ModuleType:
    """Installs this module as ``dynamlir._native``."""
    module = sys.modules[__name__]
    sys.modules["dynamlir._native"] = module
    from dynamlir import native

    native.forget()
    return module
