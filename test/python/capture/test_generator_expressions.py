"""The iterable of a generator expression is inspected and guarded wherever CPython asks for its iterator: before the
generator is created up to 3.14, in the generator's own code from 3.15 on.
"""

from __future__ import annotations

from typing import Any

import dynamlir
import pytest
import torch
from dynamlir import native

X = torch.ones(2)


class Numbers:
    """Iterates over the items of a list that may change."""

    def __init__(self, items: list[int]) -> None:
        self.items = items

    def __iter__(self) -> Any:
        return iter(self.items)


class World:
    """The objects that the programs read."""

    def __init__(self) -> None:
        self.items = [1, 2]
        self.table = {1: 1, 2: 2}
        self.text = "ab"
        self.numbers = Numbers(self.items)

    def change(self) -> None:
        """Adds an item to each container and changes the existing ones."""
        self.items[0] += 3
        self.items.append(5)
        self.table[7] = len(self.table)
        self.text += "c"


PROGRAMS = {
    "list": lambda x, w: x * sum(k for k in w.items),
    "dict": lambda x, w: x * sum(k for k in w.table),
    "items": lambda x, w: x * sum(a * b for a, b in w.table.items()),
    "text": lambda x, w: x * len(list(c for c in w.text)),
    "python": lambda x, w: x * sum(k for k in w.numbers),
    "set": lambda x, w: x * max(k for k in set(w.items)),
    "range": lambda x, w: x * sum(k for k in range(w.items[0])),
    "within": lambda x, w: x * sum(k + 1 for k in (j * 2 for j in w.items)),
    "two": lambda x, w: x * sum(a * b for a in w.items for b in w.table),
    "tuple": lambda x, w: x * sum(k for k in (w.items[0], 2)),
    "filtered": lambda x, w: x * sum(k for k in w.items if k > 2),
    "found": lambda x, w: x * (2 if 5 in (k for k in w.items) else 3),
    "tensors": lambda x, w: sum(t * 2 for t in [x, x + 1]),
    "kept": lambda x, w: kept(x, w),
    "not_iterable": lambda x, w: refused(x, w),
    "breaks": lambda x, w: breaks(x, w),
}


def kept(x: torch.Tensor, w: World) -> Any:
    made = (k * x for k in w.items)
    first = next(made)
    return first, list(made)


def refused(x: torch.Tensor, w: World) -> Any:
    try:
        return sum(k for k in w.change)  # type: ignore[attr-defined]
    except TypeError as error:
        return x + 1, str(error)


def breaks(x: torch.Tensor, w: World) -> Any:
    made = (k * x for k in w.items)
    print(end="")
    first = next(made)
    print(end="")
    return first, list(made), sum(k for k in w.items)


@pytest.mark.parametrize("name", PROGRAMS)
def test_changes_of_what_it_goes_through_are_seen(name: str) -> None:
    program, world, other = PROGRAMS[name], World(), World()
    compiled = dynamlir.compile(program)
    with dynamlir.config.patch(on_plain="ignore"):
        for _ in range(4):
            assert repr(compiled(X, world)) == repr(program(X, other))
            world.change()
            other.change()


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ("breaks", "not_iterable")])
def test_it_is_one_graph(name: str) -> None:
    program = PROGRAMS[name]
    assert repr(dynamlir.compile(program, fullgraph=True)(X, World())) == repr(program(X, World()))


def test_one_that_was_begun_before_goes_on() -> None:
    def program(x: torch.Tensor, generator: Any) -> torch.Tensor:
        return x * next(generator)

    world = World()
    found, expected = (k for k in world.items), (k for k in world.items)
    next(found), next(expected)
    compiled = dynamlir.compile(program)
    with dynamlir.config.patch(on_plain="ignore"):
        assert torch.equal(compiled(X, found), program(X, expected))
        world.items.append(9)
        assert torch.equal(compiled(X, found), program(X, expected))
    assert list(found) == list(expected) == []


def test_an_error_before_the_generator_is_made_shows_the_frames_that_plain_python_shows() -> None:
    """Frames whose code has not reached its beginning are not shown."""

    def program(x: torch.Tensor, given: Any) -> Any:
        return x * sum(k for k in given)

    def shown(function: Any) -> list[str]:
        with pytest.raises(TypeError) as raised:
            function(X, 3)
        names = [entry.name for entry in raised.traceback]
        return names[names.index("program") :]

    assert shown(dynamlir.compile(program)) == shown(program)


def test_what_is_thrown_into_a_generator_that_has_not_begun_shows_its_frame() -> None:
    def generator() -> Any:
        yield 1

    def thrown(function: Any) -> list[str]:
        with pytest.raises(ValueError) as raised:
            function()
        names = [entry.name for entry in raised.traceback]
        return names[names.index("program") :]

    def program() -> None:
        generator().throw(ValueError())

    assert thrown(lambda: native.module().interpret(program)) == thrown(program) == ["program", "generator"]
