"""Operations that raised when a call was captured, and were caught, need not raise at the next call: names defined
later, longer lists, classes that gain a method, modules that have become importable.

Like `test_absence_guarded.py`, for exceptions that the frame has handled.
"""

from __future__ import annotations

import builtins
import sys
import textwrap
import types
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch

X = torch.ones(2)

# The initial state, the expression that raises, the change; `args` are passed to the function after `x`.
CASES: dict[str, tuple[str, str, str]] = {
    "list": ("items = []", "items[0]", "items.append(5)"),
    "list, from its end": ("items = [1]", "items[-2]", "items.append(5)"),
    "list given": ("args = ([1],)", "args[0][1]", "args = ([1, 2],)"),
    "tuple given": ("args = ((1,),)", "args[0][1]", "args = ((1, 2),)"),
    "more arguments": ("args = (1,)", "args[1]", "args = (1, 2)"),
    "sequence": (
        "class Items:\n    def __getitem__(self, at): return inner[at]\ninner, o = [1], Items()",
        "o[1]",
        "inner.append(4)",
    ),
    "global": ("", "late_name", "late_name = 4"),
    "builtin": ("import builtins", "late_builtin", "builtins.late_builtin = 4"),
    "function": ("def g(): pass", "g.late", "g.late = 5"),
    "mapping": (
        "class O: pass\no = O()",
        "dict(**o)",
        "O.keys = lambda self: ['a']\nO.__getitem__ = lambda self, key: 2",
    ),
    "method": ("class O:\n    def g(self): pass\no = O()", "o.g.late", "O.g.late = 5"),
    "len": ("class O: pass\no = O()", "len(o)", "O.__len__ = lambda self: 4"),
    "item": ("class O: pass\no = O()", "o[0]", "O.__getitem__ = lambda self, key: 4"),
    "item of what is made": ("class O: pass", "O()[0]", "O.__getitem__ = lambda self, key: 4"),
    "key of what is made": ("class D(dict): pass", "D()[0]", "D.__missing__ = lambda self, key: 4"),
    "extend": (
        "class O: pass\no = O()\ndef extended():\n    items = [0]\n    items.extend(o)\n    return items",
        "extended()",
        "O.__iter__ = lambda self: iter([1])",
    ),
    "a function of it": (
        "import functools\nclass O: pass\no = O()",
        "functools.partial(o)()",
        "O.__call__ = lambda self: 4",
    ),
    "keys": ("class O: pass\no = O()", "len(dict.fromkeys(o))", "O.__iter__ = lambda self: iter([1])"),
    "loop": ("class O: pass\no = O()", "[i for i in o]", "O.__iter__ = lambda self: iter([1])"),
    "loop by item": ("class O: pass\no = O()", "[i for i in o]", "O.__getitem__ = lambda self, at: [1][at]"),
    "star": ("class O: pass\no = O()", "[*o]", "O.__iter__ = lambda self: iter([1])"),
    "set": ("class O: pass\no = O()", "len({*o})", "O.__iter__ = lambda self: iter([1])"),
    "unpacking": ("class O: pass\no = O()", "(lambda a, b: a)(*o)", "O.__iter__ = lambda self: iter([1, 2])"),
    "sum": ("class O: pass\no = O()", "sum(o)", "O.__iter__ = lambda self: iter([1, 2])"),
    "next": ("class O: pass\no = O()", "next(o)", "O.__next__ = lambda self: 3"),
    "super": (
        "class B: pass\nclass O(B):\n    def g(self): return super().late\no = O()",
        "o.g()",
        "B.late = 6",
    ),
    "module": ("import types\nm = types.ModuleType('m')", "m.late", "m.late = 3"),
}


def outcome(function: Callable[..., Any], space: dict[str, Any]) -> tuple[list[float], Any]:
    tensor, value = function(X, *space.get("args", ()))
    return tensor.tolist(), value


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
def test_what_raised_may_not_raise(name: str) -> None:
    before, expression, change = CASES[name]
    space: dict[str, Any] = {"__name__": "m"}
    exec(before, space)
    tried = f"try:\n    found = {expression}\nexcept Exception as error:\n    found = type(error).__name__\n"
    exec(f"def function(x, *args):\n{textwrap.indent(tried, '    ')}    return x + 1, found", space)
    function, compiled = space["function"], dynamlir.compile(space["function"])
    try:
        for _ in range(2):
            assert outcome(compiled, space) == outcome(function, space)
        exec(change, space)
        expected = outcome(function, space)
        assert not str(expected[1]).endswith("Error")
        assert outcome(compiled, space) == expected
    finally:
        vars(builtins).pop("late_builtin", None)


@torch.no_grad()
def test_an_attribute_of_a_method_is_guarded() -> None:
    class Layer:
        def scale(self) -> None: ...

    Layer.scale.by = 2  # type: ignore[attr-defined]
    layer = Layer()
    compiled = dynamlir.compile(lambda x: x * layer.scale.by)  # type: ignore[attr-defined]
    assert compiled(X).tolist() == [2, 2]
    Layer.scale.by = 3  # type: ignore[attr-defined]
    assert compiled(X).tolist() == [3, 3]


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
def test_it_is_captured_all_the_same(name: str) -> None:
    before, expression, _ = CASES[name]
    space: dict[str, Any] = {"__name__": "m"}
    exec(before, space)
    exec(f"def function(x, *args):\n    try:\n        {expression}\n    except Exception:\n        return x + 1", space)
    assert dynamlir.compile(space["function"], fullgraph=True)(X, *space.get("args", ())).tolist() == [2, 2]


@torch.no_grad()
def test_a_name_that_a_module_lacks_is_captured() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        try:
            from math import late_name  # type: ignore[attr-defined]
        except ImportError:
            return x + 1
        return x * late_name

    assert dynamlir.compile(function, fullgraph=True)(X).tolist() == [2, 2]


@torch.no_grad()
def test_layers_until_there_are_no_more() -> None:
    layers: list[Callable[[torch.Tensor], torch.Tensor]] = [torch.sin]

    def function(x: torch.Tensor) -> torch.Tensor:
        at = 0
        try:
            while True:
                x, at = layers[at](x), at + 1
        except IndexError:
            return x

    compiled = dynamlir.compile(function)
    for _ in range(3):
        torch.testing.assert_close(compiled(X), function(X))
        layers.append(torch.cos)


@torch.no_grad()
def test_a_variable_that_is_empty_yet() -> None:
    def outer() -> tuple[Callable[..., torch.Tensor], Callable[[], None]]:
        def function(x: torch.Tensor) -> torch.Tensor:
            try:
                return x + scale
            except NameError:
                return x

        def fill() -> None:
            nonlocal scale
            scale = 3

        if False:
            scale = 0
        return function, fill

    function, fill = outer()
    compiled = dynamlir.compile(function)
    assert compiled(X).tolist() == compiled(X).tolist() == [1, 1]
    fill()
    assert compiled(X).tolist() == [4, 4]


def imports(x: torch.Tensor) -> torch.Tensor:
    try:
        import late_module  # type: ignore[import-not-found]
    except ImportError:
        return x
    return x * late_module.SCALE


def imports_from(x: torch.Tensor) -> torch.Tensor:
    try:
        from late_package import late_module  # type: ignore[import-not-found]
    except ImportError:
        return x
    return x * late_module.SCALE


@torch.no_grad()
@pytest.mark.parametrize("function", [imports, imports_from])
def test_a_module_that_can_be_imported_by_then(
    function: Callable[..., torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "late_package", types.ModuleType("late_package"))
    compiled = dynamlir.compile(function)
    assert compiled(X).tolist() == compiled(X).tolist() == [1, 1]
    made: Any = types.ModuleType("late_module")
    made.SCALE = 7
    monkeypatch.setitem(sys.modules, "late_module", made)
    monkeypatch.setitem(sys.modules, "late_package.late_module", made)
    assert compiled(X).tolist() == function(X).tolist() == [7, 7]


@torch.no_grad()
def test_a_class_that_becomes_abstract() -> None:
    import abc

    class Made(abc.ABC):  # noqa: B024
        scale = 2

    def function(x: torch.Tensor) -> torch.Tensor:
        try:
            return x * Made().scale
        except TypeError:
            return x

    compiled = dynamlir.compile(function)
    assert compiled(X).tolist() == [2, 2]
    Made.late = abc.abstractmethod(lambda self: None)  # type: ignore[attr-defined]
    abc.update_abstractmethods(Made)
    assert compiled(X).tolist() == function(X).tolist() == [1, 1]


# -- tensors that are, or are not, the same


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))


TIED = Tied()
KNOWN = torch.ones(2)


def same_arguments(x: torch.Tensor, y: torch.Tensor) -> Any:
    return (x + 1 if x is y else x - 1), x is not y


def same_as_global(x: torch.Tensor, y: torch.Tensor) -> Any:
    return (x + 1 if y is KNOWN else x - 1), None


def same_in_list(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x + 1, any(item is y for item in [x, x * 2])


def tied(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x + 1, TIED.first is TIED.second


@torch.no_grad()
@pytest.mark.parametrize("function", [same_arguments, same_as_global, same_in_list, tied])
@pytest.mark.parametrize("turned", [False, True])
def test_whether_tensors_are_the_same_is_guarded(function: Callable[..., Any], turned: bool) -> None:
    """Also if the first call has answered no."""
    compiled, other, apart = dynamlir.compile(function), torch.ones(2), TIED.second
    calls = [(X, other), (X, KNOWN if function is same_as_global else X)]
    try:
        for index, args in enumerate([*calls[:: -1 if turned else 1], *calls]):
            if function is tied:
                TIED.second = TIED.first if (index + turned) % 2 else apart
            (seen, said), (expected, right) = compiled(*args), function(*args)
            assert (seen.tolist(), said) == (expected.tolist(), right)
        assert not dynamlir.counters()["fallbacks"]
    finally:
        TIED.second = apart
