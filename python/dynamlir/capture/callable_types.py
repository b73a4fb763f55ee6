"""The types that checkers see for what `compile` returns: called like the original, with a `reset` method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

import torch

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S", contravariant=True)
R_co = TypeVar("R_co", covariant=True)
Module = TypeVar("Module", bound=torch.nn.Module)


class Compiled(Protocol[P, R_co]):
    """A compiled function. For a module, `compile` returns a module of the same class, with ``reset`` added."""

    __name__: str
    __qualname__: str

    @property
    def __wrapped__(self) -> Callable[P, R_co]:
        """The original function or module."""
        ...

    @property
    def _cache(self) -> Sequence[Any]:
        """The entries: pairs of guards and compiled graph."""
        ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Calls the original, faster."""
        ...

    def reset(self) -> None:
        """Discards the entries: the next call compiles anew."""
        ...

    @overload
    def __get__(self, instance: None, owner: type[Any], /) -> Compiled[P, R_co]: ...
    @overload
    def __get__(
        self: Compiled[Concatenate[S, Q], R], instance: S, owner: type[Any] | None = None, /
    ) -> Callable[Q, R]: ...
    def __get__(self, instance: Any, owner: Any = None, /) -> Any:
        """Binds it as a method."""
        ...


class Decorator(Protocol):
    """``dynamlir.compile(…)`` without a function: compiles the function or module that it is called with."""

    @overload
    def __call__(self, model: Module, /) -> Module: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, model: Callable[P, R], /) -> Compiled[P, R]: ...
    def __call__(self, model: Any, /) -> Any:
        """Compiles a function or module."""
        ...
