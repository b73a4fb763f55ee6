"""The extension module: the compiler and its executables."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from .recording import TensorMeta

Location: TypeAlias = list[tuple[str, int, str]]

class NativeError(Exception):
    """Anything the native side reports."""

class Unsupported(NativeError):
    """The graph cannot be compiled; plain eager runs instead."""

    reason_id: str
    message: str
    location: Location | None

class RunError(NativeError):
    """A call failed before anything of the caller's was written."""

class Misaligned(RunError):
    """Inputs do not lie in memory as the code for a GPU counts on."""

class WrittenError(RuntimeError):
    """A call failed after something of the caller's was written."""

class TraceBuilder:
    """Receives a recorded graph and writes it at stage aten."""

    def __init__(self, name: str) -> None: ...
    def device(self, device: str) -> None: ...
    def input(self, value: int, name: str, meta: TensorMeta, storage: int) -> None: ...
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
        location: Location,
    ) -> None: ...
    def output(self, kind: Literal["value", "none", "const"], *payload: Any) -> None: ...
    def text(self) -> str: ...

class Executable:
    """Machine code for one graph."""

    def __call__(self, *tensors: Any) -> list[Any]: ...
    def report(self) -> dict[str, Any]: ...

def problems(trace: TraceBuilder) -> list[dict[str, Any]]: ...
def processor() -> tuple[str, str]: ...
def compile_trace(trace: TraceBuilder, options: dict[str, Any]) -> Executable: ...
def load(path: str, stage: str | None = None, options: dict[str, Any] | None = None) -> Executable: ...
def rust_ops() -> set[str]: ...
def keep_ops() -> set[str]: ...
def stages() -> list[tuple[str, str | None]]: ...
def clear_kernel_cache() -> None: ...
def interpret(callable: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any: ...
def interpreter_counts(*, reset: bool = False) -> dict[str, Any]: ...
