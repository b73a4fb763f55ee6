"""Finds the function that the user names as ``module:function`` or ``file.py:function``, and its arguments."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import inspect
import os
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .failures import Failure, of_program


@dataclasses.dataclass
class Found:
    """A function or module, and the arguments of its calls."""

    name: str
    function: Callable[..., Any]
    arguments: Sequence[Any] = ()
    named: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the arguments of calls."""
    parser.add_argument(
        "--inputs",
        metavar="ARGUMENTS",
        help="the arguments of the call, in Python: 'torch.randn(8, 64), scale=2.0'",
    )


def with_inputs_after(rest: Sequence[str], inputs: str | None) -> str | None:
    """Returns the inputs, which may also follow the function's name."""
    words = list(rest)
    if words[:1] == ["--inputs"] and len(words) == 2:
        return words[1]
    if len(words) == 1 and words[0].startswith("--inputs="):
        return words[0].removeprefix("--inputs=")
    if words:
        raise Failure(f"unexpected after the function: {' '.join(words)}")
    return inputs


def find(name: str, inputs: str | None) -> Found:
    """Returns what is called; raises `Failure` if there is no such function, or it needs other arguments.

    The code's own errors end the process with their tracebacks.
    """
    place, _, attribute = name.rpartition(":") if ":" in name else (name, "", "")
    module = _module(place)
    if not attribute:
        if not hasattr(module, "make"):
            raise Failure(f"{place} has no function `make`: write it, or name a function, as in {place}:function")
        return _made(place, _users(module.make), inputs)
    function: Any = module
    for part in attribute.split("."):
        try:
            function = getattr(function, part)
        except AttributeError:
            names = [one for one in vars(function) if not one.startswith("_")] if function is module else []
            hint = f"; it has {', '.join(names[:8])}" if names else ""
            raise Failure(f"{place} has no {attribute}{hint}") from None
    if attribute == "make":
        return _made(place, _users(function), inputs)
    if isinstance(function, type):
        if _required(function):
            raise Failure(
                f"{attribute} needs arguments to be created: write a function `make` that returns (model, inputs)"
            )
        function = _users(function)
    if not callable(function):
        raise Failure(f"{name} is not callable")
    function = getattr(function, "_torchdynamo_orig_callable", function)
    arguments, named = _inputs(inputs, module)
    if inputs is None and (missing := _required(function)):
        raise Failure(f"{attribute} needs {', '.join(missing)}: give --inputs, such as --inputs 'torch.randn(8, 64)'")
    return Found(name, function, arguments, named)


def _made(place: str, made: Any, inputs: str | None) -> Found:
    """Returns what a function ``make`` has returned: a callable, its arguments, and its named arguments."""
    if inputs is not None:
        raise Failure("`make` returns the inputs too: leave out --inputs")
    parts = made if isinstance(made, tuple) else (made,)
    function, arguments, named = [*parts, (), {}][:3] if len(parts) == 1 else [*parts, {}][:3]
    if not callable(function) or len(parts) > 3 or not isinstance(named, Mapping):
        raise Failure(f"`make` of {place} has to return a callable, or (callable, arguments), or these and a dict")
    if not isinstance(arguments, (tuple, list)):
        arguments = (arguments,)
    return Found(f"make of {place}", function, tuple(arguments), dict(named))


def _module(place: str) -> types.ModuleType:
    """Imports a module or a file."""
    if not place.endswith(".py"):
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        try:
            if importlib.util.find_spec(place) is None:
                raise Failure(f"there is no module {place}; a file is named with its .py")
        except (ImportError, ValueError):
            raise Failure(f"there is no module {place}; a file is named with its .py") from None
        return _users(lambda: importlib.import_module(place))
    if not os.path.exists(place):
        raise Failure(f"there is no file {place}")
    path = os.path.abspath(place)
    sys.path.insert(0, os.path.dirname(path))
    name = os.path.basename(path).removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Failure(f"{place} cannot be imported")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    _users(lambda: spec.loader.exec_module(module))  # type: ignore[union-attr]
    return module


def _users(call: Callable[[], Any]) -> Any:
    """Calls the user's code; its error ends the process with a traceback without our frames."""
    try:
        return call()
    except Exception as error:
        print(of_program(error), file=sys.stderr)
        raise SystemExit(1) from None


def _inputs(text: str | None, module: types.ModuleType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Evaluates the arguments in the namespace of the function's module, with torch."""
    import torch  # named in the text

    def take(*arguments: Any, **named: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return arguments, named

    if text is None:
        return (), {}
    try:
        taken: Any = eval(f"_take_({text}\n)", {"torch": torch, **vars(module), "_take_": take})
    except Exception as error:
        raise Failure(f"--inputs: {type(error).__name__}: {error}") from error
    return taken if isinstance(taken, tuple) else ((), {})


def _required(function: Any) -> list[str]:
    """Returns the names of the arguments without which a callable cannot be called."""
    if not isinstance(function, type):
        function = getattr(function, "forward", function)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in parameters if one.default is one.empty and one.kind not in open_ended]
