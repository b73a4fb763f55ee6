"""The extension module: the compiler and its executables."""

from collections.abc import Callable, Sequence
from types import CellType, CodeType
from typing import Any, Literal, TypeAlias, final

from torch import Tensor

from .capture.fx import GraphNode
from .capture.session import Session
from .reasons import Location
from .recording import TensorMeta

_Step: TypeAlias = tuple[str, str | None, int | None, list[str], int, float]

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

@final
class TraceBuilder:
    """Receives a recorded graph and writes it at stage aten."""

    def __new__(cls, name: str) -> TraceBuilder: ...
    def device(self, device: str) -> None: ...
    def libraries(self, folders: Sequence[str]) -> None: ...
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

@final
class Executable:
    """Machine code for one graph."""

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        """The outputs. Mutations of inputs are done when it returns."""

    def report(self) -> dict[str, Any]:
        """What compiling did."""

    def times(self, name: str | None = None) -> Times:
        """What its steps have been measured at. Profiles call the graph by the first name that is given here."""

@final
class Times:
    """What a graph's steps have been measured at so far; it does not keep the graph alive."""

    def steps(self) -> list[_Step]:
        """Kernels, then extern calls in their order: name, route, bytes of a call, lines, calls, seconds."""

@final
class Profile:
    """An open profile: see `dynamlir.profile`."""

    def __new__(cls) -> Profile: ...
    def close(self) -> None: ...
    def graphs(self) -> list[tuple[str | None, int, float, list[_Step]]]:
        """Name, calls, seconds and steps of each graph."""

@final
class NativeGraph:
    """An executable with what is to be done before and after: see `dynamlir.runtime.Variant.native`."""

    def __new__(
        cls,
        executable: Executable,
        constants: Sequence[Tensor],
        *,
        no_grad: bool = False,
        random: bool = False,
        bumps: Sequence[tuple[int, int]] = ...,
        bases: Sequence[tuple[int, str, int]] = ...,
        copies: Sequence[tuple[int, int]] = ...,
        versions: Sequence[tuple[int, int]] = ...,
    ) -> NativeGraph: ...
    def __call__(self, *tensors: Tensor) -> list[Any]: ...

@final
class CapturedFrame:
    """A frame that was captured whole."""

    @property
    def text(self) -> str: ...
    @property
    def table(self) -> str: ...
    @property
    def inputs(self) -> list[Tensor]: ...
    @property
    def sources(self) -> list[str]: ...
    @property
    def session(self) -> Session: ...
    @property
    def code_parts(self) -> list[str]: ...
    def nodes(self) -> list[GraphNode]: ...
    def stores(self) -> list[tuple[int, int, str]]: ...
    def python_source(self) -> tuple[str, dict[str, Any]]: ...

@final
class CompiledFunction:
    """What `dynamlir.compile` returns for a function. `dynamlir.Compiled` is its type, with parameters and result."""

    @property
    def __wrapped__(self) -> Any: ...
    @property
    def __code__(self) -> CodeType: ...
    @property
    def __globals__(self) -> dict[str, Any]: ...
    @property
    def __closure__(self) -> tuple[CellType, ...] | None: ...
    @property
    def __defaults__(self) -> tuple[Any, ...] | None: ...
    @property
    def __kwdefaults__(self) -> dict[str, Any] | None: ...
    @property
    def _cache(self) -> Sequence[Any]: ...
    @property
    def reset(self) -> Callable[[], None]: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, instance: Any, owner: type | None = None, /) -> Any: ...

@final
class GuardBuilder:
    """Makes guards one by one, as the capture does: for tests. Sources are numbers."""

    def __new__(cls) -> GuardBuilder: ...
    def __getattr__(self, name: str) -> Callable[..., Any]: ...
    def build(self) -> GuardSet: ...

@final
class GuardSet:
    """Guards that are built: for tests. ``locals`` are the values of a frame's parameters."""

    @property
    def code_parts(self) -> list[str]: ...
    @property
    def valid(self) -> bool: ...
    def check(self, function: Callable[..., Any], locals: Sequence[Any]) -> bool: ...
    def inputs(self, function: Callable[..., Any], locals: Sequence[Any]) -> list[Any] | None: ...
    def explain(self, function: Callable[..., Any], locals: Sequence[Any]) -> tuple[str, str, str, str] | None: ...
    def failures(self, function: Callable[..., Any], locals: Sequence[Any]) -> list[tuple[str, str, str, str]]: ...
    def repeat(self, function: Callable[..., Any], locals: Sequence[Any], times: int) -> None: ...

def problems(trace: TraceBuilder) -> list[dict[str, Any]]: ...
def processor() -> tuple[str, str]: ...
def compile_trace(trace: TraceBuilder, options: dict[str, Any]) -> Executable: ...
def load(path: str, stage: str | None = None, options: dict[str, Any] | None = None) -> Executable: ...
def rust_ops() -> set[str]: ...
def keep_ops() -> set[str]: ...
def stages() -> list[tuple[str, str | None]]: ...
def opt_main(args: list[str]) -> int: ...
def clear_kernel_cache() -> None: ...
def forget_entries() -> None: ...
def disturbance() -> str | None: ...
def configure(refuses_plain: bool, entries: int, accumulated: int) -> None: ...
def capture(
    function: Callable[..., Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    steps: Callable[..., None] | None = None,
) -> CapturedFrame | tuple[str, str, Location]: ...

@final
class Share:
    """The entries of a function's code that all callables have in common which are made with it."""

    def __new__(cls, function: Callable[..., Any]) -> Share: ...

def compiled_function(
    function: Callable[..., Any],
    bound: list[Any],
    plain: Callable[..., Any],
    compiler: Any,
    share: Share | None = None,
    skip_first: bool = False,
) -> CompiledFunction: ...
def effect_claims() -> list[tuple[str, str, str, str, str, list[str], bool, str]]: ...
def decompile(function: Callable[..., Any] | CodeType) -> str: ...
def disassemble(function: Callable[..., Any] | CodeType) -> str: ...
def interpret(callable: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any: ...
def interpreter_counts(*, reset: bool = False) -> dict[str, Any]: ...
def refusal() -> str | None: ...
