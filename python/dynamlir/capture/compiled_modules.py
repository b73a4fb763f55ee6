"""The result of `dynamlir.compile` for a module: a view of it, with all of its attributes, whose calls are compiled.

Python looks up a call in the class, so the view has its own class, derived from the module's. The user's code does not
notice. Its hooks (``__init_subclass__``, metaclasses, ``__set_name__``) do not run for that class, creating another
instance gives one of the module's class, and a name is ours only if the user's class has no use for it.
"""

from __future__ import annotations

import abc
import contextlib
import dis
import functools
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch


class Made:
    """The module and call behind a view."""

    def __init__(self, module: torch.nn.Module, again: tuple[Any, ...]) -> None:
        self.module = module
        self.kind: Any = type(module)
        self.again = again
        """The arguments for creating such a view of a copied or unpickled module."""
        self.view: Callable[[], Any] = lambda: None
        self.run: Any = None
        """The compiled call, which has the entries."""

    def settle(self, other: Any) -> None:
        """Turns another instance of a view's class, created with ``type(view)``, into one of the module's class."""
        if type(other) is type(self.view()):
            # A class derived from one in C may have a different layout.
            with contextlib.suppress(TypeError):
                object.__setattr__(other, "__class__", self.kind)


def made_of(module: Any) -> Made | None:
    """Returns the `Made` of a view; None for anything else."""
    made = type(module).__dict__.get("_dynamlir_made")
    return made if isinstance(made, Made) and made.view() is module else None


def original(module: Any) -> Any:
    """Returns the module behind a view, or behind the result of ``torch.compile``; any other module itself."""
    if (made := made_of(module)) is not None:
        return made.module
    torchs: Any = sys.modules.get("torch._dynamo.eval_frame")
    if torchs is not None and isinstance(module, torchs.OptimizedModule):
        return module._orig_mod
    return module


class _Offered:
    """An attribute of views, if neither the user's class nor the module has a use for its name."""

    def __init__(self, get: Callable[[Made], Any]) -> None:
        self._get = get

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, view: Any, kind: Any = None) -> Any:
        made = None if view is None else made_of(view)
        # If a user class has the name, this lookup comes from `super()`. Python then tries `__getattr__`.
        if made is None or _has(made.kind, self._name) or _mentions(made.kind, self._name):
            raise AttributeError(self._name)
        try:
            return made.kind.__getattr__(view, self._name)
        except AttributeError:
            return self._get(made)


def _has(kind: type, name: str) -> bool:
    return any(name in vars(base) for base in kind.__mro__ if base is not View)


def _mentions(kind: type, name: str) -> bool:
    """Returns true if the methods of a class look up an attribute: it is the class's even before it is set."""
    own = (base for base in kind.__mro__ if base not in torch.nn.Module.__mro__ and base is not View)
    return any(_looks_for(code, name) for base in own for member in vars(base).values() for code in _codes(member))


def _codes(member: Any) -> Iterator[types.CodeType]:
    """Yields the code objects of a method or property."""
    parts = [member.fget, member.fset, member.fdel] if isinstance(member, property) else [member]
    for part in parts:
        for name in ("__func__", "func", "__wrapped__"):  # class methods, cached properties, decorated functions
            inner = getattr(part, name, None)
            if isinstance(inner, types.FunctionType):
                yield inner.__code__
        if isinstance(part, types.FunctionType):
            yield part.__code__


def _looks_for(code: types.CodeType, name: str) -> bool:
    """Returns true if code accesses an attribute of its first argument, or has the name as a string (`hasattr`)."""
    if name in code.co_consts:
        return True
    this = code.co_varnames[:1]
    before: Any = None
    for instruction in dis.get_instructions(code) if name in code.co_names else ():
        # An instruction may load several variables; the attribute is looked up on the last one.
        if instruction.argval == name and (before[-1:] if isinstance(before, tuple) else (before,)) == this:
            return True
        before = instruction.argval
    return any(_looks_for(inner, name) for inner in code.co_consts if isinstance(inner, types.CodeType))


class View:
    """The last base of each view's class before `object`: its attributes are found if no other class has that name."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if "_dynamlir_made" not in vars(cls):
            super().__init_subclass__(**kwargs)

    _cache = _Offered(lambda made: made.run._cache)
    reset = _Offered(lambda made: made.run.reset)
    _orig_mod = _Offered(lambda made: made.module)
    # torch.compiler.disable and torch.compile find the original of a wrapper by this.
    _torchdynamo_orig_callable = _Offered(lambda made: made.module)
    _torchdynamo_wrapper_id = _Offered(lambda made: id(made.view()))


def view_of(made: Made) -> Any:
    """Returns a view of a module, whose calls are the module's own until `replace` changes them."""
    kind = made.kind

    def again(self: Any, protocol: Any = None) -> Any:
        if made.view() is self:
            return made.again
        made.settle(self)
        return kind.__reduce_ex__(self, protocol)

    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        if made.view() is not self:
            made.settle(self)
        kind.__init__(self, *args, **kwargs)

    members: dict[str, Any] = {
        "__init__": functools.wraps(kind.__init__)(begin),
        "__reduce_ex__": again,
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "_dynamlir_made": made,
    }
    if isinstance(kind, abc.ABCMeta):
        # An abstract base class keeps its knowledge of subclasses here; otherwise the user's class's would be found.
        members["_abc_impl"] = abc.ABCMeta("Abstract", (), {}).__dict__["_abc_impl"]
    # Bypasses the metaclass's `__call__`, `__new__` and `__init__`, and the `__init_subclass__` of its bases.
    made_class: Any = type.__new__(type(kind), kind.__name__, (View, kind), members)
    _BASES.__set__(made_class, (kind, View))
    view = object.__new__(made_class)
    object.__setattr__(view, "__dict__", made.module.__dict__)
    made.view = weakref.ref(view)
    return view


_BASES: Any = type.__dict__["__bases__"]


def otherwise(made: Made, name: str) -> Callable[..., Any]:
    """Returns a method of the user's class, for instances of a view's class that are not the view."""
    made_class = type(made.view())

    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        made.settle(self)
        method = getattr(super(made_class, self), name) if isinstance(self, made_class) else getattr(self, name)
        return method(*args, **kwargs)

    return call


def replace(made: Made, name: str, method: Any) -> None:
    """Gives a view its own method."""
    type.__setattr__(type(made.view()), name, method)
