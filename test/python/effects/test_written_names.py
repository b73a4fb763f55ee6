"""Global names and variables of enclosing functions: a call that sets them leaves them as plain Python would."""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
from worlds import X, alike
from written import entries, same

# A module for these tests: functions that set its names, and some that read them.
SOURCE = """
import torch

COUNT = 0
LATEST = None
SCALE = 1.0
MODE = "slow"

def count(x):
    global COUNT
    COUNT += 1
    return x + 1

def keep(x):
    global LATEST, NEW
    LATEST = x * 2
    NEW = [LATEST, MODE]
    return LATEST + 1

def read(x):
    return x * COUNT

def set_and_read(x):
    global COUNT
    COUNT = COUNT + 3
    return read(x) + (lambda: COUNT)()

def set_back(x):
    global MODE
    former, MODE = MODE, "fast"
    y = x * (2 if MODE == "fast" else 3)
    MODE = former
    return y

def hides(x):
    global len
    len = lambda value: 5
    y = x * len([1])
    del len
    return y

def shortens(x):
    global COUNT
    COUNT = COUNT - 1
    return -x if COUNT < 3 else x

def forgets(x):
    global COUNT
    del COUNT
    return x + 1

def dunder(x):
    global __name__
    __name__ = "other"
    return x

def in_class(x):
    global COUNT
    COUNT = 7
    class Body:
        value = COUNT
    return x * Body.value

def whole(x):
    global COUNT
    COUNT = 8
    return x * globals()["COUNT"]

def twice(x):
    count(x)
    return count(x)
"""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    with torch.no_grad():
        yield


def module(name: str = "written_module") -> Any:
    made = types.ModuleType(name)
    sys.modules[name] = made
    exec(SOURCE, vars(made))
    return made


@pytest.fixture
def home() -> Iterator[Any]:
    yield module()
    del sys.modules["written_module"]


def told(home: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(home).items() if name.isupper()}


def follow(home: Any, name: str, calls: int = 12) -> int:
    """The number of entries that several calls need of a function that sets names of its module."""
    plain = module("plain_module")
    compiled = dynamlir.compile(getattr(home, name))
    for at in range(calls):
        same(compiled(X + at), getattr(plain, name)(X + at))
        ours, theirs = told(home), told(plain)
        assert list(ours) == list(theirs)
        same(list(ours.values()), list(theirs.values()))
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
    return entries(compiled)


@pytest.mark.parametrize(
    ("name", "most"),
    [("count", 1), ("keep", 1), ("set_back", 1), ("twice", 1), ("shortens", 3), ("in_class", 1), ("set_and_read", 2)],
)
def test_globals(home: Any, name: str, most: int) -> None:
    """A counter needs one entry in all; one that decides needs one for its first value and one for each outcome.

    One that is computed with needs one for its first value and one for all others.
    """
    assert follow(home, name) <= most


def test_a_name_that_hides_a_builtin_for_a_while(home: Any) -> None:
    compiled = dynamlir.compile(home.hides)
    assert [compiled(X).tolist() for _ in range(2)] == [[5, 5]] * 2
    assert not hasattr(home, "len")


def test_a_name_that_goes(home: Any) -> None:
    compiled = dynamlir.compile(home.forgets)
    for _ in range(2):
        home.COUNT = "text"
        assert torch.equal(compiled(X), X + 1) and not hasattr(home, "COUNT")
    assert not dynamlir.counters()["fallbacks"]
    with pytest.raises(NameError, match="COUNT"):
        compiled(X)


@pytest.mark.parametrize("name", ["dunder", "whole"])
def test_globals_that_run_plain(name: str) -> None:
    """Names that Python itself reads from the globals, or that C code reads from the dict."""

    def world(compile_: Any) -> Any:
        home = module()
        compiled = compile_(getattr(home, name))
        try:
            return compiled(X), compiled(X + 1), told(home), home.__name__
        finally:
            del sys.modules["written_module"]

    alike(world, "side-effect", "unguardable")


def test_globals_of_code_without_a_module_run_plain() -> None:
    def world(compile_: Any) -> Any:
        names: dict[str, Any] = {}
        exec(SOURCE, names)
        compiled = compile_(names["count"])
        return compiled(X), compiled(X), names["COUNT"]

    alike(world, "side-effect")


def test_attributes_of_a_module_are_the_globals_of_its_functions(home: Any) -> None:
    def function(x: torch.Tensor) -> Any:
        home.COUNT = 4
        y = home.read(x)
        home.count(x)
        home.EXTRA = y
        return y, home.COUNT, hasattr(home, "EXTRA"), home.EXTRA is y

    compiled = dynamlir.compile(function)
    for count in (0, 2, 9):
        home.COUNT = count
        same(compiled(X), (X * 4, 5, True, True))
        assert home.COUNT == 5 and torch.equal(home.EXTRA, X * 4)
    assert not dynamlir.counters()["fallbacks"]
    assert entries(compiled) == 1


def test_attributes_of_a_module_of_torchs_run_plain() -> None:
    def world(compile_: Any) -> Any:
        def function(x: torch.Tensor) -> torch.Tensor:
            torch.overrides.written = 0  # type: ignore[attr-defined]
            return x + 1

        result = compile_(function)(X)
        del torch.overrides.written  # type: ignore[attr-defined]
        return result

    alike(world, "side-effect")


def test_the_same_code_in_two_modules(home: Any) -> None:
    """Names of the other module are not written."""
    other = module("other_module")
    count = types.FunctionType(home.count.__code__, vars(other), "count")
    ours, theirs = dynamlir.compile(home.count), dynamlir.compile(count)
    for _ in range(3):
        ours(X)
    theirs(X)
    assert (home.COUNT, other.COUNT) == (3, 1)


def changes_builtins(x: torch.Tensor, home: Any) -> Any:
    former = builtins.min
    builtins.min = max  # type: ignore[assignment]
    y = x * min(1, 5)
    builtins.min = former
    return y * min(1, 5)


def changes_their_dict(x: torch.Tensor, home: Any) -> Any:
    table = vars(builtins)
    former, table["min"] = table["min"], max
    y = x * min(1, 5)
    table["min"] = former
    return y


def changes_what_is_imported(x: torch.Tensor, home: Any) -> Any:
    former = sys.modules["written_module"]
    sys.modules["written_module"] = types.SimpleNamespace(SCALE=3.0)  # type: ignore[assignment]
    import written_module  # type: ignore[import-not-found]

    sys.modules["written_module"] = former
    return x * written_module.SCALE


def changes_a_lookup(x: torch.Tensor, home: Any) -> Any:
    home.__getattr__ = lambda name: 8
    return x * home.missing


def sets_what_is_read_only(x: torch.Tensor, home: Any) -> Any:
    try:
        home.__dict__ = {}
    except AttributeError as error:
        return x, str(error)
    return x


@pytest.mark.parametrize(
    "function",
    [
        changes_builtins,
        changes_their_dict,
        changes_what_is_imported,
        changes_a_lookup,
        sets_what_is_read_only,
    ],
)
def test_what_python_itself_looks_up_is_not_written_late(function: Callable[..., Any]) -> None:
    def world(compile_: Any) -> Any:
        home = module()
        try:
            return compile_(function)(X, home)
        finally:
            del sys.modules["written_module"]

    alike(world, "side-effect", "unguardable")


def test_builtins_in_the_body_of_a_class_are_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        class Body:
            value = max(3, 4)

        return x * Body.value

    compiled = dynamlir.compile(function)
    assert torch.equal(compiled(X), X * 4)
    monkeypatch.setitem(globals(), "max", min)
    assert torch.equal(compiled(X), X * 3)


# -- variables of enclosing functions


def counter(start: Any) -> tuple[Callable[..., Any], Callable[..., Any], Callable[[], Any]]:
    total, latest = start, None

    def function(x: torch.Tensor) -> torch.Tensor:
        nonlocal total, latest
        total += 1
        latest = x * 2
        return latest + 1

    def add(x: torch.Tensor) -> Any:
        nonlocal total
        total = total + 2
        return x * 2, (lambda: latest is x)()

    return function, add, lambda: (total, latest)


def test_a_variable_of_an_enclosing_function() -> None:
    """Functions created from the same code share an entry, each with its own cells."""
    compiled = []
    for start in (0, 10, 2.5, 30):
        ours, theirs = counter(start), counter(start)
        call = dynamlir.compile(ours[0])
        compiled.append(call)
        for at in range(5):
            same(call(X + at), theirs[0](X + at))
            same(ours[2](), theirs[2]())
            assert ours[2]()[1] is not theirs[2]()[1]
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
    assert entries(compiled[0]) <= 2


def test_two_functions_with_one_variable() -> None:
    ours, theirs = counter(0), counter(0)
    calls = [dynamlir.compile(function) for function in ours[:2]]
    for at in range(4):
        for call, plain in zip(calls, theirs):
            same(call(X + at), plain(X + at))
            same(ours[2](), theirs[2]())
    assert not dynamlir.counters()["fallbacks"]


def test_a_helper_that_sets_a_variable() -> None:
    steps = 0

    def bump(by: int = 1) -> int:
        nonlocal steps
        steps += by
        return 0

    def function(x: torch.Tensor) -> torch.Tensor:
        bump()
        bump(by=2)
        return x + bump(3)

    compiled = dynamlir.compile(function)
    for _ in range(5):
        assert torch.equal(compiled(X), X)
    assert steps == 30 and entries(compiled) == 1
    assert not dynamlir.counters()["fallbacks"]


def test_cells_that_are_one_at_another_call() -> None:
    """A function may be created with any cells, even the same one twice."""

    def outer() -> Any:
        one, other = 1, 2

        def function(x: torch.Tensor) -> torch.Tensor:
            nonlocal one
            one = 5
            return x * other

        return function

    made = outer()
    first, second = made.__closure__
    compiled = dynamlir.compile(made)
    assert torch.equal(compiled(X), X * 2)
    assert [cell.cell_contents for cell in (first, second)] == [5, 2]
    for cell in (first, second):
        shared = types.FunctionType(made.__code__, globals(), "function", None, (cell, cell))
        assert torch.equal(dynamlir.compile(shared)(X), X * 5)
        assert cell.cell_contents == 5


def test_cells_that_are_handed_to_functions_of_the_frame() -> None:
    def outer() -> Any:
        one, other = 1, 2

        def function(x: torch.Tensor) -> torch.Tensor:
            nonlocal one
            one = 5
            return x * (lambda: other)()

        return function

    made = outer()
    second = made.__closure__[1]
    compiled = dynamlir.compile(made)
    assert torch.equal(compiled(X), X * 2)
    shared = types.FunctionType(made.__code__, globals(), "function", None, (second, second))
    assert torch.equal(dynamlir.compile(shared)(X), X * 5)
    assert not dynamlir.counters()["fallbacks"]


def test_a_cell_as_an_object() -> None:
    def outer() -> Any:
        total = 1

        def function(x: torch.Tensor) -> Any:
            nonlocal total
            total = 4
            return x * cell.cell_contents, total

        cell = function.__closure__[1]  # type: ignore[index]
        assert cell.cell_contents == 1
        return function

    compiled = dynamlir.compile(outer())
    for _ in range(2):
        same(compiled(X), (X * 4, 4))


def test_a_variable_that_was_empty_and_one_that_goes() -> None:
    def world(compile_: Any) -> Any:
        def function(x: torch.Tensor) -> torch.Tensor:
            nonlocal empty
            empty = x + 1
            return empty * 2

        def forgets(x: torch.Tensor) -> torch.Tensor:
            nonlocal empty
            del empty
            return x

        compiled, result = compile_(function), None
        if compiled is None:
            empty = None
        for _ in range(2):
            result = compiled(X), empty
        compile_(forgets)(X)
        try:
            return result, empty
        except NameError:
            return result

    alike(world)


def test_a_variable_that_goes_is_gone_for_all_who_read_it() -> None:
    def world(compile_: Any) -> Any:
        kept = 1.0

        def read() -> Any:
            try:
                return kept
            except NameError as error:
                return str(error)

        def function(x: torch.Tensor, again: bool) -> Any:
            nonlocal kept
            y = x + kept
            del kept
            within = read()
            if again:
                kept = 7.0  # noqa: F841 (it is not local)
            return y, within

        compiled, seen = compile_(function), []
        for again in (True, True, False, False, True):
            try:
                seen.append((compiled(X, again), read()))
            except NameError as error:
                seen.append(str(error))
        return seen

    alike(world, "raised")


def test_what_reads_later_sees_what_was_set() -> None:
    """C code that calls back, generators, comprehensions, methods of classes that the function creates."""

    def outer() -> Any:
        n = 0

        def get() -> int:
            return n

        def function(x: torch.Tensor) -> Any:
            nonlocal n
            n = 3

            class Local:
                def method(self) -> int:
                    return n

            def generate() -> Iterator[int]:
                yield n
                yield n + 1

            by = max([1, 2], key=lambda value: value * (1 if n == 3 else -1))
            return (
                x * by,
                get(),
                [n for _ in range(2)],
                list(generate()),
                Local().method(),
                list(map(lambda y: y + n, [1])),
            )

        return function

    compiled = dynamlir.compile(outer())
    for _ in range(2):
        same(compiled(X), (X * 2, 3, [3, 3], [3, 4], 3, [4]))
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()


def test_nothing_is_set_before_the_guards_pass_and_nothing_twice() -> None:
    """A call that fails leaves the same state as a plain one."""
    calls = 0

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return x + y

    compiled = dynamlir.compile(function)
    for _ in range(3):
        compiled(X, X)
    with pytest.raises(RuntimeError):
        compiled(X, torch.ones(7))
    assert calls == 4
    compiled(X, X)
    assert calls == 5


def test_an_entry_as_python(home: Any) -> None:
    """The names are set in the module, not in the copy of its names that the entry's function has."""
    compiled = dynamlir.compile(home.keep)
    compiled(X)
    entry = compiled._cache[0]
    assert "__globals['LATEST'] = " in dynamlir.decompile(entry.code)
    home.MODE = "slow"
    result = entry.function(X + 1)
    same((result, home.LATEST, home.NEW[1]), ((X + 1) * 2 + 1, (X + 1) * 2, "slow"))
    counted = dynamlir.compile(home.count)
    counted(X)
    function = counted._cache[0].function
    for _ in range(3):
        function(X)
    assert home.COUNT == 4
