"""Frozen dicts of CPython 3.15: inspected like dicts, guarded item by item, created and returned."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch

pytestmark = [
    pytest.mark.skipif(sys.version_info < (3, 15), reason="CPython 3.15 and later have it"),
]

PROGRAMS = """
def item(x, d): return x * d["a"] + d["b"]
def get(x, d): return x * d.get("missing", 7) + d.get("a")
def contains(x, d): return x * (3 if "a" in d else 4) + ("missing" in d)
def walked(x, d): return [key for key in d], {k: v * x for k, v in d.items() if k != "c"}, list(d.values())
def measured(x, d): return x * len(d) + len(d.keys()), bool(d), not d
def merged(x, d): return d | {"z": x + 1}, {"z": x + 1} | d, {**d, "y": x}
def merged_in_place(x, d):
    other = d
    other |= {"q": x + 1}
    return other, d, other is d
def passed(x, d): return taken(x, **d)
def taken(x, a=0, b=None, c=None): return x * a + b
def as_key(x, d): return x * {frozendict(a=1): 5}[frozendict(a=d["a"] - 1)]
def compared(x, d): return x + 1, d == {"a": 2}, d == frozendict(d), frozendict(d) is d, d.copy() is d
def returned(x, d): return x + 1, d, [d]
def made(x, d): return frozendict(a=x + 1, b=[d["a"]]), frozendict({"k": x * 2})["k"] + 1, frozendict.fromkeys("ab", x)
def made_within(x, d): return [frozendict(a=frozendict(b=x + 1))]
def written(x, d):
    try:
        d["a"] = 3
    except TypeError as error:
        return x + 1, str(error)
def matched(x, d):
    match d:
        case {"a": found, **rest}:
            return x * found, rest
def missing(x, d): return x * d["missing"]
def printed(x, d): return x + 1, str(d["c"]), repr(d | {"z": 1})
def views(x, d): return x + 1, d.keys(), d.items()
"""

SUBCLASS = """
class Named(frozendict):
    def total(self): return self["a"] * 10
"""

X = torch.arange(4.0)


def namespace() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(PROGRAMS + SUBCLASS, names)
    return names


NAMES = [line.split("(")[0].removeprefix("def ") for line in PROGRAMS.splitlines() if line.startswith("def ")]


def frozen(**items: Any) -> Any:
    """Returns a `frozendict`, which older versions do not have."""
    import builtins

    return builtins.frozendict(**items)  # type: ignore[attr-defined]


def outcome(call: Callable[..., Any], *args: Any) -> str:
    """The result of a call, classes included, or its exception."""
    try:
        return repr(call(*args))
    except Exception as error:
        return f"{type(error)} {error}"


def alike(compiled: Callable[..., Any], plain: Callable[..., Any], *args: Any) -> bool:
    """Returns true if a compiled function does what the plain one does."""
    return outcome(compiled, *args) == outcome(plain, *args)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "taken"])
def test_programs_agree_with_plain_python(name: str) -> None:
    function = namespace()[name]
    given = frozen(a=2, b=torch.ones(4), c=(1, 2))
    compiled = dynamlir.compile(function)
    for _ in range(2):
        assert alike(compiled, function, X, given)


@pytest.mark.parametrize("name", ["item", "get", "contains", "walked", "measured", "merged", "passed", "made"])
def test_these_are_one_graph(name: str) -> None:
    function = namespace()[name]
    given = frozen(a=2, b=torch.ones(4), c=(1, 2))
    assert alike(dynamlir.compile(function, fullgraph=True), function, X, given)


def test_one_that_differs_by_an_item_is_seen() -> None:
    names = namespace()
    for name in ("item", "walked", "merged"):
        compiled = dynamlir.compile(names[name])
        for items in (
            {"a": 2, "b": torch.ones(4), "c": 1},
            {"a": 3, "b": torch.ones(4), "c": 1},
            {"a": 3, "b": torch.zeros(4), "c": 1},
            {"b": torch.ones(4), "a": 3, "c": 1},
            {"a": 3, "b": torch.ones(4), "c": 1, "d": 2},
            {"a": 3.5, "b": torch.ones(4), "c": "other"},
        ):
            assert alike(compiled, names[name], X, frozen(**items)), items


def test_what_one_holds_may_change() -> None:
    held = [1.0]
    within = frozen(l=held, n=frozen(k=2))

    def function(x: torch.Tensor, d: Any) -> torch.Tensor:
        return x * d["n"]["k"] + d["l"][0]

    compiled = dynamlir.compile(function)
    for value in (1.0, 5.0, 5.0, 2):
        held[0] = value
        assert torch.equal(compiled(X, within), function(X, within))


def test_a_subclass_is_itself() -> None:
    named = namespace()["Named"]

    def function(x: torch.Tensor, d: Any) -> Any:
        return x * d["a"] + d.total(), type(d).__name__

    compiled = dynamlir.compile(function)
    for value in (1, 2, 2):
        assert alike(compiled, function, X, named(a=value))


def test_gradients_reach_what_one_holds() -> None:
    weight = torch.full((4,), 2.0, requires_grad=True)
    dynamlir.compile(lambda x, d: (x * d["w"]).sum())(X, frozen(w=weight)).backward()
    assert weight.grad is not None and torch.equal(weight.grad, X)
