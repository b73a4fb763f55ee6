"""Entries of a compiled function as Python code: `entry.code`, `entry.globals`, `entry.function`, `entry.check_fn`."""

from __future__ import annotations

import collections
import dataclasses
import dis
import enum
import gc
import logging
import re
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import dynamlir
import forked
import pytest
import torch

WEIGHT = torch.linspace(0.0, 1.0, 4)
SETTINGS = {"scale": torch.full((4,), 2.0), "deep": [torch.ones(4)]}


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass(frozen=True)
class Box:
    content: Any
    label: str


class Named(tuple):
    pass


class Remembers(dict):
    pass


class Colour(enum.Enum):
    RED = 1


class Layer(torch.nn.Module):
    unit = torch.ones(4)

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("mean", torch.full((4,), 0.5))
        self.table = {"a": torch.ones(4), "b": [torch.zeros(4)]}

    def forward(self, x: torch.Tensor, *, factor: float = 2.0) -> dict[str, Any]:
        return {"y": self.linear(x) * factor + self.mean, "x": x, "table": self.table["b"], "unit": self.unit}


def arguments(x, y=3, *rest, z=None, **others):
    return x * y + rest[0], rest, z, others["w"], y


def nested(x):
    y = x + 1
    return {"tuple": (y, [x, {"y": y}]), "again": y}, (), [], {}, ((x,),)


def shared(x):
    row = [x + 1, x]
    return row, (row, row), {"row": row}


def objects(x):
    box = Box((x + 1, x), "one")
    return box, [box], Pair(x, box), Named([x, 2]), torch.Size([1, 2])


def dicts(x):
    ordered = collections.OrderedDict(b=x, a=x + 1)
    ordered.move_to_end("b")
    mine = Remembers(k=x)
    mine.extra = [x]
    return ordered, mine, types.SimpleNamespace(x=x, y=x + 1)


def constants(x):
    return (
        x + 1,
        1,
        -2.5,
        -0.0,
        1e300,
        "text",
        b"bytes",
        None,
        ...,
        True,
        (1, ("a",)),
        2j,
        float("nan"),
        torch.float32,
        int,
    )


def sets(x):
    return x + 1, {5, 3}, frozenset((1, 2)), set(), {1}


def looks_up(x):
    return x * SETTINGS["scale"] + SETTINGS["deep"][0], WEIGHT, SETTINGS["deep"], Box, Colour.RED


def views(x):
    y = x + 1
    return x, x.view(2, 2), y, y.view(2, 2), y[1:]


def writes(x, y):
    x.add_(y)
    return x, y * 2


def passes_through(x):
    return x


def same(own: Any, wanted: Any) -> bool:
    """Returns true if both have equal types, values and NaNs, through all containers."""
    if type(own) is not type(wanted):
        return False
    if isinstance(own, torch.Tensor):
        return own.shape == wanted.shape and own.stride() == wanted.stride() and torch.allclose(own, wanted)
    if isinstance(own, dict):
        pairs = zip(own.items(), wanted.items(), strict=True)
        return len(own) == len(wanted) and all(a == b and same(v, w) for (a, v), (b, w) in pairs)
    if isinstance(own, (list, tuple)):
        return len(own) == len(wanted) and all(map(same, own, wanted))
    if hasattr(own, "__dict__") and not isinstance(own, (type, enum.Enum)):
        return same(vars(own), vars(wanted))
    return repr(own) == repr(wanted)


def shape(value: Any, known: dict[int, int]) -> Any:
    """Describes which objects within a value are identical and which ones were given."""
    if not isinstance(value, (torch.Tensor, list, dict, Box, types.SimpleNamespace)) and type(value) is not tuple:
        return None
    parts: list[Any] = []
    if isinstance(value, (list, tuple)):
        parts = list(value)
    elif isinstance(value, dict):
        parts = list(value.values())
    elif not isinstance(value, torch.Tensor):
        parts = list(vars(value).values())
    number = None if value == () else known.setdefault(id(value), len(known))
    return number, [shape(part, known) for part in parts]


def of_objects(value: Any, given: tuple[Any, ...]) -> Any:
    return shape([*given, value], {})


def x() -> torch.Tensor:
    return torch.tensor([0.5, -1.0, 2.0, 3.5])


def steps(code: types.CodeType) -> list[tuple[str, Any]]:
    """The instructions, with CPython 3.13's fused ones split; borrowing loads count as loads."""
    found: list[tuple[str, Any]] = []
    for each in dis.get_instructions(code):
        if isinstance(each.argval, tuple) and each.opname.count("_FAST") == 2:
            first, second = re.findall("LOAD_FAST|STORE_FAST", each.opname)
            found += [(first, each.argval[0]), (second, each.argval[1])]
        else:
            found.append((each.opname.removesuffix("_BORROW"), each.argval))
    return found


def exact(code: types.CodeType) -> None:
    """Checks that the decompiled code compiles to the same instructions, and before 3.13 to the same bytes."""
    source = dynamlir.decompile(code)
    dynamlir.disassemble(code)
    list(dis.get_instructions(code))
    if code.co_freevars:
        names = ", ".join(code.co_freevars)
        source = f"def outer({names}):\n" + "".join(f"    {line}\n" for line in source.splitlines())
    made = compile(source, code.co_filename, "exec")
    while made.co_name != code.co_name:
        made = next(value for value in made.co_consts if isinstance(value, types.CodeType))
    assert steps(made) == steps(code), source
    assert sys.version_info >= (3, 13) or made.co_code == code.co_code, source
    assert made.co_consts == code.co_consts
    assert (made.co_names, made.co_varnames, made.co_freevars) == (code.co_names, code.co_varnames, code.co_freevars)
    assert made.co_stacksize <= code.co_stacksize


def run(entry: Any, compiled: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs an entry as a reader of its code would, without `entry.function`."""
    function = types.FunctionType(entry.code, entry.globals, "f", compiled.__defaults__, compiled.__closure__)
    function.__kwdefaults__ = compiled.__kwdefaults__
    return function(*args, **kwargs)


@pytest.mark.parametrize("function", [nested, shared, objects, dicts, constants, sets, looks_up, views, passes_through])
def test_it_gives_what_the_call_gives(function: Callable[..., Any]) -> None:
    compiled = dynamlir.compile(function, fullgraph=True)
    given = x()
    wanted, called = function(given), compiled(given)
    entry = compiled._cache[0]
    for own in (run(entry, compiled, given), entry.function(given)):
        assert same(own, wanted) and same(called, wanted), dynamlir.decompile(entry.code)
        assert of_objects(own, (given,)) == of_objects(wanted, (given,)) == of_objects(called, (given,))
    if function is not constants:  # one of its NaNs is a global
        exact(entry.code)


def test_arguments_of_all_kinds() -> None:
    compiled = dynamlir.compile(arguments, fullgraph=True)
    given = x()
    calls = [((given, 3, given), {"z": given, "w": 1}), ((given, 2, given, 5), {"w": given})]
    for number, (args, kwargs) in enumerate(calls):
        wanted = arguments(*args, **kwargs)
        compiled(*args, **kwargs)
        entry = compiled._cache[number]
        assert same(run(entry, compiled, *args, **kwargs), wanted)
        exact(entry.code)
    code, original = entry.code, arguments.__code__
    for name in ("co_name", "co_filename", "co_firstlineno", "co_argcount", "co_kwonlyargcount", "co_flags"):
        assert getattr(code, name) == getattr(original, name)
    assert code.co_varnames[:5] == original.co_varnames[:5]


def test_defaults() -> None:
    def scaled(x, by=2, *, offset=WEIGHT):
        return x * by + offset, offset

    compiled = dynamlir.compile(scaled, fullgraph=True)
    given = x()
    compiled(given)
    result = compiled._cache[0].function(given)
    assert same(result, scaled(given)) and result[1] is WEIGHT


def test_closures() -> None:
    held, count = torch.ones(4), 3

    def outer(x):
        inside = x * 2

        def inner():
            return inside + held

        return inner() * count, held

    compiled = dynamlir.compile(outer, fullgraph=True)
    given = x()
    compiled(given)
    entry = compiled._cache[0]
    result = run(entry, compiled, given)
    assert same(result, outer(given)) and result[1] is held
    assert entry.code.co_freevars == outer.__code__.co_freevars
    # A parameter that is a cell variable of the function itself is not one here: the code defines no functions.
    assert entry.code.co_cellvars == ()


def test_modules_and_methods() -> None:
    layer = Layer().eval()
    given = x()
    with torch.no_grad():
        wanted = layer(given)
        compiled = dynamlir.compile(layer)
        compiled(given)
        entry = compiled._cache[0]
        result = entry.function(layer, given)
        assert same(result, wanted)
        assert result["x"] is given and result["table"] is layer.table["b"] and result["unit"] is Layer.unit
        exact(entry.code)
        assert "self._modules['linear']._parameters['weight']" in dynamlir.decompile(entry.code)
        method = dynamlir.compile(layer.forward, fullgraph=True)
        method(given)
        assert same(method._cache[0].function(layer, given), wanted)


def test_writes_to_arguments() -> None:
    compiled = dynamlir.compile(writes, fullgraph=True)
    compiled(x(), WEIGHT)
    entry = compiled._cache[0]
    own, plain = x(), x()
    result = entry.function(own, WEIGHT)
    assert same(result, writes(plain, WEIGHT)) and result[0] is own and torch.equal(own, plain)


def test_each_entry_has_its_own_code() -> None:
    compiled = dynamlir.compile(lambda x, by: (x * by, by), fullgraph=True)
    for by in (2, 3.0, True):
        compiled(x(), by)
    codes = [entry.code for entry in compiled._cache]
    assert len({code.co_names for code in codes}) == 3, "a graph each"
    for entry, by in zip(compiled._cache, (2, 3.0, True), strict=True):
        assert same(entry.function(x(), by), (x() * by, by))
    assert compiled._cache[0].code is codes[0], "made once"
    guards, graph = compiled._cache[0]
    assert guards.code_parts and callable(graph)


def test_globals_are_left_alone() -> None:
    before = dict(globals())
    compiled = dynamlir.compile(looks_up, fullgraph=True)
    compiled(x())
    entry = compiled._cache[0]
    mine = entry.globals
    added = mine.keys() - before.keys()
    assert any(name.startswith("__compiled_graph_") for name in added)
    assert globals().keys() == before.keys()


def test_names_that_are_taken() -> None:
    source = """
def f(x, graph_out, type):
    made, names = helper(x)
    return made + graph_out, type, names
def helper(y):
    return y * x, {5, 3}
"""
    home: dict[str, Any] = {"x": torch.ones(4), "globals": len, "set": len, "made": 1}
    exec(source, home)
    compiled = dynamlir.compile(home["f"], fullgraph=True)
    compiled(x(), WEIGHT, 1)
    entry = compiled._cache[0]
    assert same(entry.function(x(), WEIGHT, 1), home["f"](x(), WEIGHT, 1))
    exact(entry.code)


def test_what_is_stored_beneath_a_property() -> None:
    class Odd:
        def __init__(self) -> None:
            self.__dict__["x"] = torch.ones(4)
            self.__dict__["not a name"] = torch.ones(4)

        @property
        def x(self):
            return self.__dict__["x"] + self.__dict__["not a name"]

    def f(odd, y):
        return odd.x + y, odd.__dict__["x"]

    compiled, odd = dynamlir.compile(f), Odd()
    wanted = compiled(odd, x())
    entry = compiled._cache[0]
    assert entry.compiled is not None
    assert same(entry.function(odd, x()), wanted) and wanted[1] is odd.__dict__["x"]


class Evasive:
    """An object whose attributes are looked up by Python code."""

    def __init__(self) -> None:
        self.stored = torch.ones(4)

    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, name)


def test_what_cannot_be_written_says_so() -> None:
    compiled, evasive = dynamlir.compile(lambda box, x: box.stored + x), Evasive()
    compiled(evasive, x())
    entry = compiled._cache[0]
    assert entry.compiled is not None
    with pytest.raises(NotImplementedError, match="the attributes of a Evasive, whose class looks them up"):
        _ = entry.code


@pytest.mark.whole
@pytest.mark.filterwarnings("ignore::dynamlir.PlainRunWarning")
def test_an_entry_that_is_plain_python_has_the_functions_own_code() -> None:
    def f(x):
        return x.sum().item()

    compiled = dynamlir.compile(f)
    compiled(x())
    entry = compiled._cache[0]
    assert entry.compiled is None and entry.code is f.__code__
    assert entry.function(x()) == f(x())


def test_check_fn() -> None:
    compiled = dynamlir.compile(arguments, fullgraph=True)
    compiled(x(), 3, x(), z=None, w=1)
    check = compiled._cache[0].check_fn
    fits = {"x": x(), "y": 3, "rest": (x(),), "z": None, "others": {"w": 1}}
    assert check(fits, globals()) is True and check(fits) is True
    for name, other in [("x", x().double()), ("y", 4), ("rest", ()), ("others", {"w": 2})]:
        assert check({**fits, name: other}, globals()) is False
    assert check({}, globals()) is False
    assert check.code_parts


def test_an_entry_is_a_pair_and_takes_any_mapping() -> None:
    compiled = dynamlir.compile(lambda x: x + 1)
    compiled(x())
    entry = compiled._cache[0]
    assert entry[-2] is entry[0] is entry.guards and entry[-1] is entry[1]
    with pytest.raises(IndexError):
        entry[-3]
    assert entry.check_fn(types.MappingProxyType({"x": x()}))
    assert not entry.check_fn(types.MappingProxyType({}))


def test_check_fn_looks_at_the_globals_it_is_given() -> None:
    compiled = dynamlir.compile(looks_up, fullgraph=True)
    compiled(x())
    check = compiled._cache[0].check_fn
    assert check({"x": x()}, globals()) is True
    assert check({"x": x()}, dict(globals())) is True
    assert check({"x": x()}, {**globals(), "WEIGHT": WEIGHT.double()}) is False
    assert check({"x": x()}, {}) is False


def test_entries_outlive_what_was_compiled() -> None:
    layer = Layer().eval()
    with torch.no_grad():
        compiled = dynamlir.compile(layer)
        wanted = compiled(x())
        entry = compiled._cache[0]
        del compiled
        gc.collect()
        assert same(entry.function(layer, x()), wanted)
        dynamlir.reset()
        assert same(entry.function(layer, x()), wanted)
    exact(entry.code)


def test_what_has_died_is_said() -> None:
    def make() -> Callable[..., Any]:
        weight = torch.ones(4)

        class Own:
            held = weight

        return lambda box, x: box.held + x, Own()  # type: ignore[return-value]

    function, box = make()  # type: ignore[misc]
    compiled = dynamlir.compile(function)
    compiled(box, x())
    entry = compiled._cache[0]
    assert entry.compiled is not None
    del function, box
    gc.collect()
    assert not entry.guards.valid and entry.check_fn({"box": None, "x": x()}) is False


def test_depyf_reads_it() -> None:
    depyf = pytest.importorskip("depyf")
    try:
        depyf.decompile(nested.__code__)
    except depyf.decompiler.DecompilationError:
        pytest.skip("depyf does not read the bytecode of this CPython")
    compiled = dynamlir.compile(nested, fullgraph=True)
    compiled(x())
    entry = compiled._cache[0]
    home = entry.globals
    exec(depyf.decompile(entry.code), home)
    assert same(home["nested"](x()), nested(x()))


def test_the_log_shows_it(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("dynamlir.bytecode")
    log.addHandler(caplog.handler)
    log.setLevel(logging.DEBUG)
    try:
        dynamlir.compile(shared, fullgraph=True)(x())
        dynamlir.compile(lambda box, x: box.stored + x)(Evasive(), x())
    finally:
        log.setLevel(logging.WARNING)
        log.removeHandler(caplog.handler)
    assert "shared as source:" in caplog.text and "shared: the entry as source:" in caplog.text
    assert "graph_out = __compiled_graph_" in caplog.text
    assert "this entry has no bytecode" in caplog.text


def test_nothing_is_written_unasked() -> None:
    script = """
import torch, dynamlir
f = dynamlir.compile(lambda x: x + 1)
f(torch.ones(4)), f(torch.ones(5))
entry = f._cache[1]
print(*[name for name in entry.code.co_names if name.startswith("__compiled_graph_")])
"""
    done = forked.python(script)
    assert done.stdout.split() == ["__compiled_graph_0"], "the first one that was asked for"
