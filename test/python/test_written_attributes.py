"""Attributes that a function writes to what existed before: the call leaves them as plain Python would have."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from torch import nn
from worlds import X, alike, observed

pytestmark = pytest.mark.native

CALLS = 24


@pytest.fixture(autouse=True)
def fresh() -> Any:
    with torch.no_grad():
        yield


class Thing:
    """Anything with attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def entries(function: Any) -> int:
    return len(function._cache)


def same(ours: Any, theirs: Any) -> None:
    """Attributes in their order, tensors by their values, the rest by type and value."""
    assert type(ours) is type(theirs)
    if isinstance(ours, torch.Tensor):
        torch.testing.assert_close(ours, theirs)
    elif isinstance(ours, Thing):
        assert list(vars(ours)) == list(vars(theirs))
        for name in vars(ours):
            same(vars(ours)[name], vars(theirs)[name])
    elif isinstance(ours, (list, tuple)):
        assert len(ours) == len(theirs)
        for pair in zip(ours, theirs):
            same(*pair)
    else:
        assert ours == theirs


def follow(function: Callable[..., Any], make: Callable[[], Thing], calls: int = CALLS) -> int:
    """How many entries several calls need that write to an object; each leaves it as a plain call does."""
    ours, theirs = make(), make()
    compiled = dynamlir.compile(function)
    for at in range(calls):
        x = X + at
        same(compiled(x, ours), function(x, theirs))
        same(ours, theirs)
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
    return entries(compiled)


def either(world: Callable[[Any], Any]) -> None:
    """Runs a world both ways, captured or not: both must see the same."""
    expected = observed(world, lambda function: function)
    assert observed(world, dynamlir.compile) == expected
    refused = {event.reason for event in dynamlir.fallbacks()}
    assert refused <= {"side-effect", "c-function", "unguardable", "output", "raised"}, dynamlir.explain_last()


# -- counters


def test_a_counter_that_is_only_written_back_never_recompiles() -> None:
    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        thing.steps += 1
        thing.scale = thing.scale * 0.5 + 1.0
        thing.mask = (thing.mask << 0) if False else (thing.mask ^ 5) & 255
        return x + 1

    assert follow(function, lambda: Thing(steps=0, scale=1.0, mask=3)) == 1


def test_what_a_counter_decides_is_guarded_and_not_the_counter() -> None:
    """The first entry is for its first value; then one for each outcome."""

    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        thing.steps += 1
        if thing.steps % 10 == 0:
            x = x * 2
        return x if thing.steps < 15 else -x

    assert follow(function, lambda: Thing(steps=0), 40) <= 6


def test_whether_a_counter_is_true_is_guarded() -> None:
    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        thing.left = thing.left - 1
        return x if thing.left else -x

    assert follow(function, lambda: Thing(left=9), 9) <= 3


def test_a_counter_through_calls_and_keywords() -> None:
    def advance(thing: Any, by: int, *, name: str = "steps", **more: int) -> None:
        setattr(thing, name, by)

    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        advance(thing, thing.steps + 1)
        advance(thing, by=thing.others + 2, name="others")
        return x * 2

    assert follow(function, lambda: Thing(steps=0, others=7)) == 1


def test_a_number_that_goes_elsewhere_is_what_it_was() -> None:
    """Into a shape, into text, into a container, to C code: each value has an entry of its own."""

    def function(x: torch.Tensor, thing: Any) -> Any:
        thing.steps = thing.steps + 1
        return x.repeat(thing.steps), f"{thing.steps + 1}", [thing.steps - 1], min(thing.steps, 2)

    assert follow(function, lambda: Thing(steps=0), 4) == 4


def test_divisions_by_what_may_be_zero_and_large_numbers() -> None:
    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        thing.half = thing.steps // 2
        thing.big = thing.big * thing.big
        thing.part = 12 // thing.divisor
        thing.steps += 3
        return x

    assert follow(function, lambda: Thing(steps=1, half=0, big=3, divisor=5, part=0), 6) <= 2
    compiled = dynamlir.compile(function)
    thing = Thing(steps=1, half=0, big=3, divisor=5, part=0)
    compiled(X, thing)
    thing.divisor = 0
    with pytest.raises(ZeroDivisionError):
        compiled(X, thing)


def test_types_of_numbers_are_guarded() -> None:
    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        thing.n = thing.n + thing.m
        return x

    compiled = dynamlir.compile(function)
    for n, m in [(1, 2), (1.5, 2.5), (True, 1), (1, 2.5), ("a", "b"), ([1], [2]), (torch.ones(1), 2)]:
        ours, theirs = Thing(n=n, m=m), Thing(n=n, m=m)
        for _ in range(2):
            compiled(X, ours)
            function(X, theirs)
            same(ours, theirs)


# -- values and their identity


def test_tensors_containers_and_objects_are_stored() -> None:
    def function(x: torch.Tensor, thing: Any) -> Any:
        made = [x + 1, thing.first]
        thing.tensor = x * 2
        thing.again = thing.tensor
        thing.made, thing.alias = made, made
        made.append(3)
        thing.x = x
        return made, thing.again

    def check(thing: Any, result: Any, x: torch.Tensor) -> None:
        assert thing.made is thing.alias is result[0] and thing.again is thing.tensor is result[1]
        assert thing.x is x and thing.made[1] is thing.first

    first = object()
    compiled = dynamlir.compile(function)
    for call in (compiled, compiled, function):
        thing = Thing(first=first)
        check(thing, call(X, thing), X)
    assert not dynamlir.counters()["fallbacks"]


def test_what_is_read_after_a_write_is_what_was_written() -> None:
    def function(x: torch.Tensor, thing: Any) -> Any:
        before = thing.a
        thing.a = x + 1
        y = thing.a * 2
        thing.a = [before, thing.a]
        thing.b = thing.a[1] is not before
        return y, thing.a[1], hasattr(thing, "c"), vars(thing)["b"], "b" in thing.__dict__

    assert follow(function, lambda: Thing(a=1), 1) == 1


def test_two_objects_that_are_one_at_another_call() -> None:
    def function(x: torch.Tensor, one: Any, other: Any) -> torch.Tensor:
        one.n = 1
        other.n = 2
        return x * one.n

    compiled = dynamlir.compile(function)
    one, other = Thing(), Thing()
    assert torch.equal(compiled(X, one, other), X) and torch.equal(compiled(X, one, one), X * 2)
    assert torch.equal(compiled(X, other, one), X) and torch.equal(compiled(X, other, other), X * 2)


def test_an_object_that_is_read_may_be_the_one_that_was_written() -> None:
    def function(x: torch.Tensor, one: Any, other: Any) -> torch.Tensor:
        one.n = 5
        return x * other.n

    compiled = dynamlir.compile(function)
    one, other = Thing(n=1), Thing(n=2)
    assert torch.equal(compiled(X, one, other), X * 2) and torch.equal(compiled(X, one, one), X * 5)


def test_new_attributes_come_in_order_and_old_ones_keep_their_place() -> None:
    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        thing.z = 1
        thing.a = 2
        thing.m = x
        del thing.b
        thing.z = 3
        thing.b = 4
        return x

    follow(function, lambda: Thing(a=0, b=1, c=2), 3)


def test_what_was_set_back_is_not_written() -> None:
    class Watched(Thing):
        def __setattr__(self, name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        former, thing.mode = thing.mode, "fast"
        y = x * (2 if thing.mode == "fast" else 3)
        thing.mode = former
        return y

    assert follow(function, lambda: Watched(mode="slow")) == 1
    compiled = dynamlir.compile(function)
    for mode in ("slow", ["any"], None):
        thing = Thing(mode=mode)
        assert torch.equal(compiled(X, thing), X * 2) and thing.mode is mode


# -- who decides what a write does


def test_modules_properties_slots_and_cached_properties() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.calls, self.last = nn.Linear(2, 3), 0, None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            self.last = self.linear(x)
            return self.last * 2

    ours, theirs = Model(), Model()
    theirs.load_state_dict(ours.state_dict())
    compiled = dynamlir.compile(ours)
    for at in range(CALLS):
        same(compiled(X[None] + at), theirs(X[None] + at))
        same((ours.calls, ours.last), (theirs.calls, theirs.last))
    assert entries(compiled) <= 2 and not dynamlir.counters()["fallbacks"]

    class Slotted:
        __slots__ = ("n", "t")

    class Propertied:
        @property
        def size(self) -> Any:
            return self._size

        @size.setter
        def size(self, value: Any) -> None:
            self._size = value
            self.sets = getattr(self, "sets", 0) + 1

        @functools.cached_property
        def late(self) -> Any:
            return self._size

    def write(x: torch.Tensor, slotted: Any, propertied: Any) -> Any:
        slotted.n = slotted.n + 1
        slotted.t = x + slotted.t
        propertied.size = x * 2
        propertied.size = [propertied.size]
        return propertied.late[0] + slotted.t

    compiled = dynamlir.compile(write)
    worlds = [(Slotted(), Propertied()) for _ in range(2)]
    for slotted, _ in worlds:
        slotted.n, slotted.t = 0, torch.zeros(X.shape)
    for _ in range(5):
        for _, propertied in worlds:
            vars(propertied).pop("late", None)
        same(compiled(X, *worlds[0]), write(X, *worlds[1]))
        same([worlds[0][0].n, worlds[0][0].t], [worlds[1][0].n, worlds[1][0].t])
        assert list(vars(worlds[0][1])) == list(vars(worlds[1][1]))
        same(list(vars(worlds[0][1]).values()), list(vars(worlds[1][1]).values()))


@dataclasses.dataclass
class Data:
    """Compared and shown by Python code that `dataclasses` writes."""

    n: int = 0
    note: str = ""


def test_python_code_that_reads_all_of_an_object_sees_what_was_written() -> None:
    def function(x: torch.Tensor, data: Any) -> Any:
        data.n = 4
        return data == Data(4), data != Data(1), dataclasses.replace(data, note="b").n, x * data.n

    either(lambda compile_: [compile_(function)(X, Data(at)) for at in range(3)])


READS: dict[str, Callable[[Any], Any]] = {
    "items": lambda thing: list(vars(thing).items()),
    "sorted": lambda thing: sorted(thing.__dict__),
    "len": lambda thing: len(vars(thing)),
    "any": lambda thing: any(vars(thing).values()),
    "copied": lambda thing: dict(thing.__dict__, more=1),
    "spread": lambda thing: {**vars(thing)},
    "dir": lambda thing: [name for name in dir(thing) if not name.startswith("_")],
    "copy": lambda thing: vars(__import__("copy").copy(thing)),
    "deepcopy": lambda thing: vars(__import__("copy").deepcopy(thing)),
    "attrgetter": lambda thing: __import__("operator").attrgetter("a")(thing),
    "methodcaller": lambda thing: __import__("operator").methodcaller("__getattribute__", "a")(thing),
    "map": lambda thing: list(map(lambda each: each.a, [thing])),
    "key": lambda thing: max([thing], key=lambda each: each.a).a,
    "format": lambda thing: f"{thing.a} {{0.a}}".format(thing),
    "getattr_static": lambda thing: __import__("inspect").getattr_static(thing, "a"),
}


def matched(thing: Any) -> Any:
    match thing:
        case Thing(a=5):
            return "five"
        case Thing(a=found):
            return found


READS["pattern"] = matched


@pytest.mark.parametrize("name", READS)
def test_whoever_reads_sees_what_was_written(name: str) -> None:
    read = READS[name]

    def function(x: torch.Tensor, thing: Any) -> Any:
        thing.a = 5
        thing.c = 6
        return read(thing), x + 1

    either(lambda compile_: [compile_(function)(X, Thing(a=1, b=2)) for _ in range(2)])


def test_a_namespace_is_compared_with_what_was_written() -> None:
    import types

    def function(x: torch.Tensor, thing: Any, other: Any) -> Any:
        first = thing == other
        thing.a = 5
        return first, thing == other, repr(thing), x

    def world(compile_: Any) -> Any:
        made = types.SimpleNamespace
        return [compile_(function)(X, made(a=1), made(a=5)) for _ in range(2)]

    either(world)


def test_what_is_iterated_over_while_it_is_written() -> None:
    def function(x: torch.Tensor, thing: Any) -> Any:
        found = []
        for name, value in vars(thing).items():
            found.append((name, value))
            thing.b = 7
        return found, x

    either(lambda compile_: [compile_(function)(X, Thing(a=1, b=2)) for _ in range(2)])


def test_what_was_written_before_an_exception_stays_written() -> None:
    def function(x: torch.Tensor, thing: Any) -> Any:
        thing.a = 1
        try:
            thing.b = 2
            raise KeyError(thing.a)
        except KeyError:
            thing.c = x + 1
        if thing.fails:
            raise ValueError("after writing")
        return x

    def world(compile_: Any) -> Any:
        compiled, seen = compile_(function), []
        for fails in (False, True, False):
            thing = Thing(fails=fails)
            try:
                compiled(X, thing)
            except ValueError as error:
                seen.append(str(error))
            seen.append(list(vars(thing)))
        return seen

    either(world)


def test_a_write_to_a_class_a_function_or_a_module_is_seen_by_all() -> None:
    import types

    class Kind:
        n = 1

    def helper() -> int:
        return Kind.n

    module = types.ModuleType("settings")
    module.n = 1

    def function(x: torch.Tensor, owner: Any) -> Any:
        owner.n = owner.n + 1
        return x * helper() * module.n

    helper.n = 1

    def world(compile_: Any) -> Any:
        Kind.n, module.n, helper.n = 1, 1, 1
        return [compile_(function)(X, owner) for owner in (Kind, module, helper, Kind, module)]

    alike(world, "side-effect")


def test_a_property_that_is_added_to_the_class_later_has_its_say() -> None:
    class Later(Thing):
        pass

    def function(x: torch.Tensor, thing: Any) -> Any:
        thing.n = 3
        return x

    compiled = dynamlir.compile(function)
    thing = Later()
    compiled(X, thing)
    seen: list[Any] = []
    Later.n = property(lambda self: 0, lambda self, value: seen.append(value))  # type: ignore[attr-defined]
    compiled(X, thing)
    assert seen == [3]
    del Later.n  # type: ignore[attr-defined]
    Later.__setattr__ = lambda self, name, value: seen.append(name)  # type: ignore[assignment, method-assign]
    compiled(X, thing)
    assert seen == [3, "n"]


def test_gradients_go_through_what_is_stored() -> None:
    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        thing.hidden = (x * thing.weight).tanh()
        thing.steps += 1
        return thing.hidden.sum()

    with torch.enable_grad():
        weights = [torch.ones(X.shape, requires_grad=True) for _ in range(2)]
        things = [Thing(weight=weight, hidden=None, steps=0) for weight in weights]
        compiled = dynamlir.compile(function)
        for _ in range(3):
            for call, thing in zip((compiled, function), things):
                call(X, thing).backward()
        same(weights[0].grad, weights[1].grad)
    assert not dynamlir.counters()["fallbacks"]


def test_a_stored_tensor_is_taken_up_at_the_next_call() -> None:
    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        thing.state = x if thing.state is None else torch.cat([thing.state, x])[-3:]
        return thing.state.sum()

    assert follow(function, lambda: Thing(state=None)) <= 3
