"""Changes everything that a call can reach, one leaf at a time, and compares compiled with plain Python.

A subject creates a call: a function and its arguments, equal each time. The harness lists everything stored beneath
them, in cells, defaults, attributes, slots, items and the module's globals, and also the places that the guards of an
entry name. Each such leaf is given other values in three worlds (plain Python, compiled, and compiled with
``dynamic=False``) and is then restored. Where the worlds differ, the report says whether any guard named the leaf: a
difference at a leaf that no guard names is a missing guard.

Shared objects (classes, modules and torch's state) are changed in a forked child.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import os
import re
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import change_values
import dynamlir
import torch
from guard_fuzz import run
from reading import kernels

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Subject:
    """Creates a call, equal each time."""

    name: str
    make: Callable[[], Call]
    leaves: int = 60
    """The largest number of leaves to change."""
    kinds: tuple[type, ...] = (object,)
    """The types of the leaves to change."""


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A place whose value can be changed. ``steps`` lead to it from a root of its world."""

    path: str
    steps: tuple[Any, ...]


class World:
    """One of the calls that a subject creates, and the way in which it is called."""

    def __init__(self, subject: Subject, compile_: Callable[[Any], Any]) -> None:
        self.function, args, kwargs = subject.make()
        self.args, self.kwargs = list(args), kwargs
        self.call = compile_(self.function)

    def roots(self) -> Iterator[tuple[str, Any, Any]]:
        """The arguments, what the function keeps, and the globals that it names, spelled as guards spell them."""
        plain = _function(self.function)
        names = plain.__code__.co_varnames
        bound = [self.function.__self__] if isinstance(self.function, types.MethodType) else []
        called = isinstance(self.function, torch.nn.Module)
        bound = [self.function] if called else bound
        for index, value in enumerate([*bound, *self.args]):
            # The frame of a module's call is that of `_call_impl(self, *args, **kwargs)`.
            past = (called and index > 0) or index >= plain.__code__.co_argcount
            path = f"L['args'][{index - len(bound)}]" if past else f"L['{names[index]}']"
            yield path, ("given", index - len(bound)), value
        for name, value in self.kwargs.items():
            yield f"L['kwargs']['{name}']" if called else f"L['{name}']", ("named", name), value
        for index, cell in enumerate(plain.__closure__ or ()):
            yield f"C['{plain.__code__.co_freevars[index]}']", ("cell", index), cell.cell_contents
        for name in sorted(_named(plain.__code__)):
            if name in plain.__globals__ and not _is_shared(plain.__globals__[name]):
                yield f"G['{name}']", ("global", name), plain.__globals__[name]

    def outcome(self) -> Any:
        """The outcome of a call, with its warnings."""
        torch.manual_seed(0)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                result = run.shown(self.call(*self.args, **self.kwargs), {})
            except Exception as error:
                result = "raised", type(error).__name__, run.ADDRESS.sub("", str(error))
        ours = (dynamlir.PlainRunWarning,)
        said = [(each.category.__name__, str(each.message)) for each in heard if not issubclass(each.category, ours)]
        return result, said, [run.shown(value, {}) for value in (*self.args, *self.kwargs.values())]


def _function(function: Any) -> types.FunctionType:
    if isinstance(function, torch.nn.Module):
        function = function.forward
    return getattr(function, "__func__", function)


def _named(code: types.CodeType) -> set[str]:
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return set(code.co_names).union(*map(_named, inner))


def _is_shared(value: Any) -> bool:
    return isinstance(value, (types.ModuleType, type, types.BuiltinFunctionType)) or (
        isinstance(value, types.FunctionType) and value.__module__ in sys.stdlib_module_names | {"torch"}
    )


def leaves(world: World, deepest: int = 6) -> list[tuple[Leaf, Any]]:
    """Everything stored beneath a world's roots, each object once."""
    found: list[tuple[Leaf, Any]] = []
    seen: dict[int, Any] = {}
    level = [(Leaf(path, (step,)), value) for path, step, value in world.roots()]
    for _ in range(deepest):
        following = []
        for leaf, value in level:
            found.append((leaf, value))
            atom = value is None or isinstance(value, (int, float, str, bytes, complex, types.BuiltinFunctionType))
            if atom or id(value) in seen or _is_shared(value):
                continue
            seen[id(value)] = value
            for spelled, step, item in change_values.beneath(value):
                following.append((Leaf(leaf.path + spelled, (*leaf.steps, step or ("go", spelled))), item))
        level = following
    return found


def value_at(world: World, steps: tuple[Any, ...]) -> Any:
    """The current value of a leaf."""
    kind = steps[-1][0]
    if len(steps) == 1:
        return next(value for _, step, value in world.roots() if step == steps[0])
    owner = value_at(world, steps[:-1])
    if kind == "go":
        return getattr(owner, steps[-1][1][1:])
    return next(item for _, step, item in change_values.beneath(owner) if step == steps[-1])


NOT_THERE = (LookupError, StopIteration, TypeError, AttributeError, ValueError)
"""The exceptions raised where a place cannot have a value, or where the program itself removed it."""


def put(world: World, steps: tuple[Any, ...], value: Any) -> Callable[[], Any] | None:
    """Gives a leaf another value and returns the function that undoes this. A tuple is rebuilt, and so is each tuple
    that holds it, up to an owner that can be written.
    """
    step = steps[-1]
    if len(steps) == 1:
        return _put_root(world, step, value)
    if step[0] == "go":
        return None
    try:
        owner = value_at(world, steps[:-1])
        if step[0] != "item":
            return change_values.write(owner, step, value)
        items = list(tuple.__iter__(owner))
        items[step[1]] = value
        made = change_values.rebuilt(owner, items)
    except NOT_THERE:
        return None
    return put(world, steps[:-1], made)


def _put_root(world: World, step: tuple[Any, ...], value: Any) -> Callable[[], Any] | None:
    if step[0] == "given" and step[1] >= 0:
        before = world.args[step[1]]
        world.args[step[1]] = value
        return lambda: world.args.__setitem__(step[1], before)
    if step[0] == "named":
        before = world.kwargs[step[1]]
        world.kwargs[step[1]] = value
        return lambda: world.kwargs.__setitem__(step[1], before)
    if step[0] == "cell":
        return change_values.write(_function(world.function), step, value)
    if step[0] == "global":
        table = _function(world.function).__globals__
        before = table[step[1]]
        table[step[1]] = value
        return lambda: table.__setitem__(step[1], before)
    return None


def guarded(world: World) -> set[str]:
    """The places that the guards of a compiled world's entries name, and those that lead to them."""
    found: set[str] = set()
    cache = getattr(world.call, "_cache", None) or getattr(getattr(world.call, "forward", None), "_cache", ())
    for at in range(len(cache)):
        for part in cache[at].guards.code_parts:
            try:
                tree = ast.parse(re.sub(r"  # .*$", "", part), mode="eval")
            except SyntaxError:
                continue
            nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Attribute, ast.Subscript))]
            # Guards spell a module's parts by the table that holds them, or by their names.
            found.update(re.sub(r"\._modules\['(\w+)'\]", r".\1", ast.unparse(node)) for node in nodes)
    return found


def worlds(subject: Subject) -> list[World]:
    """Plain, compiled, and compiled with constant numbers."""
    return [
        World(subject, lambda function: function),
        World(subject, dynamlir.compile),
        World(subject, lambda function: dynamlir.compile(function, backend="eager", dynamic=False)),
    ]


def state(world: World) -> Any:
    """All leaves with their values."""
    return [(leaf.path, id(value)) for leaf, value in leaves(world)]


def changes(subject: Subject, leaf: Leaf) -> list[Any]:
    """The other values that a leaf may be given."""
    return change_values.others(value_at(World(subject, lambda function: function), leaf.steps))


def check_leaf(subject: Subject, leaf: Leaf) -> list[str]:
    """The differences while one leaf has other values; the original value returns between values of other kinds."""
    dynamlir.reset()
    with kernels.shared(), dynamlir.config.patch(recompile_limit=100, on_plain="ignore"):
        every = worlds(subject)
        history = ["as it was"]
        # Each world has its own objects, though they may share globals.
        options = [changes(subject, leaf) for _ in every]
        found = _compare(subject, leaf, every, history)
        for number, values in enumerate(zip(*options)):
            if found:
                break
            undo = [put(world, leaf.steps, each) for world, each in zip(every, values)]
            if None not in undo:
                history.append(run.ADDRESS.sub("", repr(values[0]))[:60])
                found = _compare(subject, leaf, every, history)
            _undo(undo)
            if number >= 2 and not found:
                history.append("as it was")
                found = _compare(subject, leaf, every, history)
        return found or _deleted(subject, leaf, every, history)


def _undo(steps: list[Callable[[], Any] | None]) -> None:
    for back in filter(None, reversed(steps)):
        with contextlib.suppress(*NOT_THERE):
            back()


def _deleted(subject: Subject, leaf: Leaf, every: list[World], history: list[str]) -> list[str]:
    if len(leaf.steps) < 2 or leaf.steps[-1][0] == "go":
        return []
    try:
        owners = [value_at(world, leaf.steps[:-1]) for world in every]
    except NOT_THERE:
        return []
    undo = [change_values.delete(owner, leaf.steps[-1]) for owner in owners]
    if None in undo:
        return []
    history.append("deleted")
    found = _compare(subject, leaf, every, history)
    _undo(undo)
    return found or _compare(subject, leaf, every, [*history, "as it was"])


def _compare(subject: Subject, leaf: Leaf, every: list[World], history: list[str]) -> list[str]:
    expected, *seen = (world.outcome() for world in every)
    found = []
    for name, outcome in zip(("compiled", "dynamic=False"), seen):
        if not run.same(expected, outcome):
            found.append(f"plain {expected}\n{name} {outcome}"[:1500])
    if not found:
        return []
    names = guarded(every[1])
    said = "a guard names it" if leaf.path in names else "no guard names it"
    return [f"{subject.name}: {leaf.path} ({said}): {', '.join(history)}", *found]


def check_undo(subject: Subject, leaf: Leaf) -> str | None:
    """Returns a message if a change is not undone: a walk before it and one after it must find the same objects."""
    world = World(subject, lambda function: function)
    before = state(world)
    for value in changes(subject, leaf):
        undo = put(world, leaf.steps, value)
        if undo is None:
            continue
        undo()
        # Owners that were rebuilt on the way are restored too.
        if state(world) != before:
            return f"{subject.name}: {leaf.path} is not put back"
    return None


def chosen(subject: Subject) -> list[Leaf]:
    """The leaves of a subject that can be given other values, at most the subject's number of them."""
    world = World(subject, dynamlir.compile)
    every = [leaf for leaf, value in leaves(world) if isinstance(value, subject.kinds) and change_values.others(value)]
    stride = max(1, -(-len(every) // subject.leaves))
    return every[::stride]


def only_guarded(subject: Subject) -> list[str]:
    """The places that guards name and that the walk does not find."""
    dynamlir.reset()
    with dynamlir.config.patch(on_plain="ignore"):
        world = World(subject, dynamlir.compile)
        world.outcome()
        known = {leaf.path for leaf, _ in leaves(world, 8)}
        return sorted(guarded(world) - known)


def check(subject: Subject) -> list[str]:
    """Changes each leaf of a subject and returns the differences."""
    found: list[str] = []
    for leaf in chosen(subject):
        lost = check_undo(subject, leaf)
        found += [lost] if lost else ["\n".join(lines) for lines in [check_leaf(subject, leaf)] if lines]
    return found


def shared_changes(subject: Subject, changes_: dict[str, Callable[[], Any]]) -> list[str]:
    """Changes shared objects (a class, a module or a setting), each in a child process, and returns the differences."""
    found: list[str] = []
    for name, change in changes_.items():
        found += [f"{subject.name}: {name}\n{line}" for line in in_child(lambda change=change: _once(subject, change))]
    return found


def _once(subject: Subject, change: Callable[[], Any]) -> list[str]:
    dynamlir.reset()
    with dynamlir.config.patch(on_plain="ignore"):
        every = worlds(subject)
        for turn in range(3):
            expected, *seen = (world.outcome() for world in every)
            for outcome in seen:
                if not run.same(expected, outcome):
                    return [f"turn {turn}: plain {expected}\nours {outcome}"[:1500]]
            if turn == 0:
                change()
    return []


def in_child(work: Callable[[], list[str]]) -> list[str]:
    """The result of some work in a forked child, whose changes end with it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            try:
                said = "\0".join(work())
            except BaseException:
                said = traceback.format_exc()
            with os.fdopen(writing, "w") as file:
                file.write(said)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said.split("\0") if said else []
