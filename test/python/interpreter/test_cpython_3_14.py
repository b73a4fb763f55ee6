"""Novelties of CPython 3.14: annotations that are computed lazily, template strings, partials that bind and have
placeholders, stacks that are known by address.
"""

from __future__ import annotations

import functools
import itertools
import operator
import os
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

import dynamlir
import forked
import pytest
import torch

pytestmark = [
    pytest.mark.skipif(sys.version_info < (3, 14), reason="CPython 3.14 and later have it"),
]

PROGRAMS = """
def undefined(x):
    def inner(y: Undefined = 3) -> Nowhere:
        return y + 1
    return inner(x), inner

def asked(x):
    def inner(y: int) -> str:
        return y
    return x * len(inner.__annotations__), inner

def renamed(x):
    def inner(y: int): ...
    inner.__annotations__["z"] = str
    return x + 1, inner

def replaced(x):
    def inner(y: int): ...
    inner.__annotations__ = {"z": str}
    return x + 1, inner

def taken(x):
    def inner(y: int): ...
    inner.__annotate__ = lambda format: {"z": format}
    return x + 1, inner

def of_a_class(x):
    class Inner:
        y: int = 2
        z: Undefined
    return x * Inner.y

def template(x):
    name = "w"
    text = t"a {x.shape[0]!r:>5} b {name=} c"
    return x * len(text.interpolations), text.values, text.strings, text.interpolations[0].format_spec

def contexts(x, manager):
    for step in (1, 2):
        with manager as found:
            x = x * found
            if step == 2:
                raise ValueError(step)
    return x, any(step > 1 for step in (0, 2)), all(step for step in (1, 2))

def between(x):
    try:
        with manager() as found:
            print(end="")
            x = x * found
            raise KeyError("left")
    except* KeyError as group:
        print(end="")
        x = x + len(group.exceptions)
    finally:
        print(end="")
        x = x - 1
    return x

def generic(x):
    def inner[T: int = bool](y: T, z: list[T] = [1]) -> T:
        return y
    return x + inner(1), inner

class manager:
    def __enter__(self):
        return 3

    def __exit__(self, kind, error, trace):
        return kind is ValueError
"""


def named(name: str) -> Callable[..., Any]:
    """A function of the programs above, without `from __future__ import annotations`, and in syntax that 3.11 lacks."""
    module = types.ModuleType("programs")
    exec(compile(PROGRAMS, "programs.py", "exec", dont_inherit=True), module.__dict__)
    return getattr(module, name)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.arange(3.0)


def test_annotations_are_not_computed(x: torch.Tensor) -> None:
    function = named("undefined")
    value, made = dynamlir.compile(function, fullgraph=True)(x)
    expected, plain = function(x)
    assert torch.equal(value, expected) and made(2) == 3
    assert made.__annotate__.__qualname__ == plain.__annotate__.__qualname__
    with pytest.raises(NameError, match="Undefined"):
        _ = made.__annotations__


def test_annotations_that_the_program_asks_for(x: torch.Tensor) -> None:
    value, made = dynamlir.compile(named("asked"))(x)
    assert torch.equal(value, x * 2) and made.__annotations__ == {"y": int, "return": str}
    assert made.__annotate__(1) == made.__annotations__
    for kind in ("renamed", "replaced", "taken"):
        _, made = dynamlir.compile(named(kind))(x)
        _, plain = named(kind)(x)
        assert (made.__annotate__ is None) == (plain.__annotate__ is None), kind
        assert repr(made.__annotations__) == repr(plain.__annotations__), kind
    assert torch.equal(dynamlir.compile(named("of_a_class"))(x), x * 2)


@pytest.mark.filterwarnings("ignore")
def test_type_parameters_are_those_of_each_call(x: torch.Tensor) -> None:
    """Python runs the code in the middle that creates the function, and later calls continue like the first."""
    function = named("generic")
    compiled = dynamlir.compile(function)
    kept = [compiled(x)[1] for _ in range(3)]
    assert torch.equal(compiled(x)[0], function(x)[0]) and len({id(made) for made in kept}) == 3
    for made in kept:
        (parameter,) = made.__type_params__
        assert (parameter.__name__, parameter.__bound__, parameter.__default__) == ("T", int, bool)
        assert made.__annotations__ == {"y": parameter, "z": list[parameter], "return": parameter}
        assert made.__defaults__ == ([1],)


def test_template_strings(x: torch.Tensor) -> None:
    function = named("template")
    seen, expected = dynamlir.compile(function, fullgraph=True)(x), function(x)
    assert torch.equal(seen[0], expected[0]) and seen[1:] == expected[1:]


def test_contexts(x: torch.Tensor) -> None:
    function, manager = named("contexts"), named("manager")
    seen, expected = dynamlir.compile(function)(x, manager()), function(x, manager())
    assert torch.equal(seen[0], expected[0]) and seen[1:] == expected[1:]


@pytest.mark.filterwarnings("ignore")
def test_handlers_go_on_in_plain_python_and_back(x: torch.Tensor) -> None:
    function = named("between")
    compiled = dynamlir.compile(function)
    for _ in range(2):
        assert torch.equal(compiled(x), function(x))


def shown(*given: object, **named: object) -> tuple[object, ...]:
    """The place at which each argument arrived."""
    return (*given, sorted(named.items()))


class Holder:
    """Partials as attributes of a class."""

    scale = 2

    plain = functools.partial(lambda factor, self, x: x * factor * self.scale, 3)
    text = functools.partial(shown, "first", named=1)
    __len__ = functools.partial(lambda count, self: count + self.scale, 1)
    __add__ = functools.partial(lambda factor, self, x: x * factor + self.scale, 3)
    __enter__ = functools.partial(lambda factor, self: factor * self.scale, 5)
    __exit__ = functools.partial(lambda kept, self, kind, error, trace: kept, True)


def entered(x: torch.Tensor, held: Holder) -> torch.Tensor:
    with held as factor:
        x = x * factor
        raise ValueError
    return x


@pytest.mark.parametrize(
    "function",
    [
        lambda x, held: held.plain(x),
        lambda x, held: Holder.plain(held, x),
        lambda x, held: Holder().plain(x),
        lambda x, held: (str(held.text(1, other=2)), held.text.__self__ is held, held.text.__func__ is Holder.text),
        lambda x, held: x * len(held),
        lambda x, held: x * (held + 1),
        entered,
    ],
)
def test_partials_bind(function: Callable[..., Any], x: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, held = dynamlir.compile(function, fullgraph=True), Holder()
    for scale in (2, 2, 7):
        held.scale = scale
        seen, expected = compiled(x, held), function(x, held)
        assert str(seen) == str(expected)
    for name in ("plain", "text", "__len__", "__add__", "__enter__"):
        monkeypatch.setattr(Holder, name, functools.partial(lambda *given, **named: len(given) + 1, None))
    assert str(compiled(x, held)) == str(function(x, held))


@pytest.mark.parametrize("first", range(4))
def test_places_that_partials_leave(first: int, x: torch.Tensor) -> None:
    left = functools.Placeholder
    partials = [
        functools.partial(shown, None, 1, 2),
        functools.partial(shown, None, left, 2),
        functools.partial(shown, left, left, 2, named=3),
        functools.partial(shown, torch.ones(1), left, 2),
    ]
    partials = partials[first:] + partials[:first]

    def function(x: torch.Tensor, partial: Callable[..., Any]) -> object:
        return x + 1, partial(3, x, 4)[3:], partial(5, 6, 7)

    def made(x: torch.Tensor, partial: Callable[..., Any]) -> object:
        return functools.partial(partial, left, 8)(x, 9)

    for each in (function, made):
        compiled = dynamlir.compile(each, fullgraph=each is function)
        for partial in partials * 2:
            assert str(compiled(x, partial)) == str(each(x, partial))

    def too_few(x: torch.Tensor) -> object:
        try:
            return functools.partial(shown, left, left, 2)(x)
        except TypeError as error:
            return str(error)

    assert dynamlir.compile(too_few)(x) == too_few(x)


def mapped(x: torch.Tensor) -> object:
    made = map(operator.mul, [x, 2], [3], strict=True)
    first = next(made)
    try:
        next(made)
    except ValueError as error:
        return first, str(error), list(map(operator.add, [1], [x], strict=True))


@pytest.mark.parametrize(
    "function",
    [
        mapped,
        lambda x: functools.reduce(operator.add, [x, x], initial=x * 3),
        lambda x: (operator.is_none(x), operator.is_not_none(x), operator.is_none(None), x + 1),
        lambda x: [sum(part) * x for part in itertools.batched([x, 2, 3], 2)],
        lambda x: (float.from_number(2) * x, (int | str) == (str | int), isinstance(2, int | None)),
        lambda x: (x * any(i > 1 for i in (1, 2)), all(i for i in (0, 2)), tuple(x * i for i in (1, 2))),
        lambda x: list(map(functools.partial(torch.sub, functools.Placeholder, 1), [x, x + 1])),
    ],
)
def test_builtins_and_their_new_arguments(function: Callable[..., Any], x: torch.Tensor) -> None:
    compiled = dynamlir.compile(function, fullgraph=True)
    for argument in (x, x, x + 1):
        assert str(compiled(argument)) == str(function(argument))


DEEP = """
import sys, gc
from dynamlir import _native
sys.setrecursionlimit(60_000)
gone = []

class Dies:
    def __del__(self):
        gone.append(len(gone))

def nested(depth):
    made = []
    for _ in range(depth):
        made = [made]
    return made

SHALLOW, DEEP = nested(500), nested(400_000)

def deep(n):
    if n:
        dies = Dies()
        before = len(gone)
        del dies
        assert len(gone) == before + 1
        return deep(n - 1)
    assert repr(SHALLOW).count("[") == 501
    try:
        repr(DEEP)
    except RecursionError:
        return "raised"

assert _native.interpret(deep, 20_000) == "raised"
assert len(gone) == 20_000

def through_c(n):
    return n if not n else next(map(through_c, (n - 1,)))

assert _native.interpret(through_c, 1_000) == 0
try:
    _native.interpret(through_c, 50_000)
except RecursionError:
    print("done")
"""


# As CPython 3.14.0 is: the function has another name in the table of those that can be looked up.
WITHOUT = """
import ctypes, mmap, re

name = b"PyUnstable_ThreadState_SetStackProtection"
assert hasattr(ctypes.pythonapi, name.decode())
for line in open("/proc/self/maps"):
    if re.search(r"r--p .*python[^/]*$", line):
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        at = ctypes.string_at(start, end - start).find(b"\\0" + name + b"\\0")
        if at >= 0:
            page, size = start + at & ~(mmap.PAGESIZE - 1), 2 * mmap.PAGESIZE
            assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), size, mmap.PROT_READ | mmap.PROT_WRITE) == 0
            ctypes.memmove(start + at + 1, b"Q", 1)
assert not hasattr(ctypes.PyDLL(None), name.decode())
"""
UNTOLD = """
import sys
import dynamlir, torch
from dynamlir import _native
sys.setrecursionlimit(60_000)

def deep(n):
    return deep(n - 1) if n else "ended"

def adds(x, n):
    if n:
        print(end="")
        return adds(x, n - 1)
    return x + 1

def ended(function, *given):
    try:
        return function(*given)
    except RecursionError:
        return "raised"

adds, x = dynamlir.compile(adds), torch.ones(2)
for depth in (100, 500):
    assert _native.interpret(deep, depth) == "ended" and ended(adds, x, depth).tolist() == [2.0] * 2
for depth in (20_000, 20_000):
    assert ended(_native.interpret, deep, depth) == "raised" == ended(adds, x, depth)
assert _native.interpreter_counts()["left"].keys() == {"deep recursion"}
print("done")
"""


@pytest.mark.parametrize("program", [DEEP, WITHOUT + UNTOLD], ids=["told", "untold"])
def test_deep_recursion_goes_on_on_stacks_that_the_thread_knows(program: str) -> None:
    """Where the thread cannot be notified about them, CPython runs deep frames, up to the end of its stack."""
    finished = forked.python(program)
    assert finished.returncode == 0, finished.stderr[-2000:]
    assert finished.stdout == "done\n"


COMPILED_BY_CPYTHON = """
import sys
import dynamlir, torch
if not (hasattr(sys, "_jit") and sys._jit.is_enabled()):
    print("off")
    raise SystemExit

def hot(items, x):
    total = 0
    for item in items:
        total += item if item % 3 else 1
    return x * total

def within(x):
    made = [hot(part, x) for part in ([1, 2, 3], (4, 5))]
    print(end="")
    return sum(made) + hot(range(3), x)

x, many = torch.ones(2), list(range(5_000))
compiled, sometimes = dynamlir.compile(within), dynamlir.compile(hot)
dynamlir.config.on_plain = "ignore"
for step in range(6):
    # CPython has compiled the loop before a hook is there, after it has gone, and while there is one.
    for _ in range(10):
        expected = hot(many, x)
    assert torch.equal(compiled(x), within(x))
    assert torch.equal(sometimes([step, 2], x), hot([step, 2], x))
    assert torch.equal(expected, hot(many, x))
print("on")
"""


def test_cpython_may_compile_loops_itself() -> None:
    """A frame hook drops the code that CPython has compiled; frames that it had begun continue."""
    environment = {**os.environ, "PYTHON_JIT": "1"}
    finished = subprocess.run(
        [sys.executable, "-c", COMPILED_BY_CPYTHON], env=environment, capture_output=True, text=True, timeout=300
    )
    assert finished.returncode == 0, finished.stderr
    if finished.stdout.strip() == "off":
        pytest.skip("this CPython cannot compile")


@pytest.mark.parametrize(
    "function",
    [
        lambda x, d: (x + 1, list(d.items())),
        lambda x, d: (x + 1, [pair for pair in d.items()]),
        lambda x, d: (x + 1, {"k": list(d.items()), (len(d), 2): 1}),
        lambda x, d: (x + 1, [(len(d), 2)], {(len(d), 3)}),
        lambda x, d: (x + 1, list(zip([1, 2], d, strict=True)), list(enumerate(d))),
    ],
)
def test_tuples_of_plain_values_are_made_at_each_call(function: Callable[..., Any], x: torch.Tensor) -> None:
    """The garbage collector does not track them; an object created in one call is a different one in the next."""
    compiled, items = dynamlir.compile(function, fullgraph=True), {"a": 1, "b": 2}
    first, second = compiled(x, items), compiled(x, items)
    assert str(first) == str(second) == str(function(x, items))

    def within(value: Any) -> set[int]:
        if isinstance(value, dict):
            return within(list(value)) | within(list(value.values()))
        inner = set().union(*map(within, value)) if isinstance(value, (list, tuple, set)) else set()
        return inner | ({id(value)} if isinstance(value, (list, tuple, set)) else set())

    assert not within(first[1:]) & within(second[1:])


def test_tuples_that_exist_stay_the_same(x: torch.Tensor) -> None:
    def function(x: torch.Tensor, items: list[Any]) -> Any:
        return x + 1, list(items), items[0], (1, 2, "constant")

    compiled, items = dynamlir.compile(function, fullgraph=True), [tuple([5, 6]), tuple([7])]
    results = [compiled(x, items) for _ in range(2)]
    for result in results:
        assert all(
            found is expected for found, expected in zip([*result[1], result[2]], [*items, items[0]], strict=True)
        )
    assert results[0][3] is results[1][3] is function(x, items)[3]
