"""Lazy imports of CPython 3.15: imports happen where plain Python's do, in one graph; guards keep no placeholders."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch

pytestmark = [
    pytest.mark.skipif(sys.version_info < (3, 15), reason="CPython 3.15 and later have it"),
]

MODULES = {
    "lazily_scale": "import lazily_log\nlazily_log.seen.append(__name__)\nSCALE = 3.0\nscaled = lambda x: x * SCALE\n",
    "lazily_offset": "import lazily_log\nlazily_log.seen.append(__name__)\nOFFSET = 1.0\n",
    "lazily_raising": "raise RuntimeError('it does not load')\n",
    "lazily_log": "seen = []\n",
    "lazily_counting": "import lazily_log\nSEEN = len(lazily_log.seen)\n",
    "lazily_program": """
import lazily_log
lazy import lazily_counting
lazy import lazily_scale
lazy import lazily_scale as other_name
lazy from lazily_offset import OFFSET
lazy import lazily_raising
lazy import lazily_nowhere
lazy from lazily_offset import MISSING

def both(x):
    return lazily_scale.scaled(x) + OFFSET

def callee(x):
    return x + OFFSET

def caller(x):
    return callee(x) * 2

def twice(x):
    return x * lazily_scale.SCALE + other_name.SCALE

def raising(x):
    return lazily_raising.function(x)

def nowhere(x):
    return lazily_nowhere.function(x)

def missing(x):
    return x + MISSING

def caught(x):
    try:
        return lazily_nowhere.function(x)
    except ImportError as error:
        return x + len(error.name)

def branch(x, wants):
    return x + OFFSET if wants else x

def after_a_write(x):
    lazily_log.seen.append(__name__)
    return x + lazily_counting.SEEN

def read_as_an_object(x):
    return x + 1, type(globals()["OFFSET"]).__name__
""",
}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], types.ModuleType]]:
    """Returns a function that imports the program anew, with all of its imports still pending."""
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))

    def fresh() -> types.ModuleType:
        for name in MODULES:
            sys.modules.pop(name, None)
        return __import__("lazily_program")

    yield fresh
    for name in MODULES:
        sys.modules.pop(name, None)


def kinds(module: types.ModuleType) -> dict[str, str]:
    """The types of the objects under the program's names: reading its dict imports nothing."""
    names = ("lazily_scale", "other_name", "OFFSET", "lazily_raising", "lazily_nowhere", "MISSING")
    return {name: type(vars(module)[name]).__name__ for name in names}


def outcome(call: Callable[[], Any]) -> Any:
    """The result of a call, or the class and message of its exception."""
    try:
        return call()
    except Exception as error:
        return type(error), str(error)


def alike(found: Any, expected: Any) -> bool:
    """Returns true if both are equal tensors, or the same otherwise."""
    if isinstance(expected, tuple):
        return isinstance(found, tuple) and all(map(alike, found, expected))
    return torch.equal(found, expected) if isinstance(expected, torch.Tensor) else found == expected


@pytest.mark.parametrize(
    "name",
    ["both", "caller", "twice", "raising", "nowhere", "missing", "caught", "after_a_write", "read_as_an_object"],
)
def test_what_a_function_imports_is_what_plain_python_imports(program: Any, name: str) -> None:
    x = torch.arange(4.0)
    plain = program()
    expected = [outcome(lambda: getattr(plain, name)(x)) for _ in range(2)]
    left, seen = kinds(plain), getattr(sys.modules.get("lazily_log"), "seen", [])
    module = program()
    compiled = dynamlir.compile(getattr(module, name))
    assert alike(tuple(outcome(lambda: compiled(x)) for _ in range(2)), tuple(expected))
    assert kinds(module) == left
    assert getattr(sys.modules.get("lazily_log"), "seen", []) == seen


@pytest.mark.parametrize("name", ["both", "caller", "twice"])
def test_it_is_one_graph_and_its_guards_hold_at_the_next_call(program: Any, name: str) -> None:
    x = torch.arange(4.0)
    function = getattr(program(), name)
    compiled = dynamlir.compile(function, fullgraph=True)
    found = [compiled(x) for _ in range(3)]
    assert all(torch.equal(value, function(x)) for value in found)
    (entry,) = compiled._cache
    assert not any("lazy_import" in part for part in entry.guards.code_parts)


def test_a_name_that_is_bound_anew_is_seen(program: Any) -> None:
    x = torch.arange(4.0)
    module = program()
    compiled = dynamlir.compile(module.both)
    assert torch.equal(compiled(x), x * 3 + 1)
    module.OFFSET = 5.0
    assert torch.equal(compiled(x), x * 3 + 5)
    vars(module)["OFFSET"] = vars(program())["OFFSET"]
    assert torch.equal(compiled(x), x * 3 + 1)


def test_a_branch_that_is_not_taken_imports_nothing(program: Any) -> None:
    x = torch.arange(4.0)
    module = program()
    compiled = dynamlir.compile(module.branch)
    assert torch.equal(compiled(x, False), x)
    assert kinds(module)["OFFSET"] == "lazy_import"
    assert torch.equal(compiled(x, True), x + 1)
    assert kinds(module)["OFFSET"] == "float"
    assert torch.equal(compiled(x, False), x)
