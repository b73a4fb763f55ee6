"""Attributes whose writes run code (properties, slots, attributes of modules), and code that reads written attributes
by other ways: all see the same values as in plain Python.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import dynamlir
import pytest
import torch
from torch import nn
from worlds import X, alike
from written import CALLS, Thing, either, entries, follow, same


@pytest.fixture(autouse=True)
def fresh() -> Any:
    with torch.no_grad():
        yield


# -- code that decides the effect of a write


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
    """A dataclass, whose comparison and repr are generated Python code."""

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


# -- attempts to break it


def test_what_is_deleted_twice_is_not_deleted_while_capturing() -> None:
    def function(x: torch.Tensor, thing: Any) -> Any:
        del thing.b
        try:
            del thing.b
        except AttributeError as error:
            thing.q = str(error)
        return x, vars(thing)

    either(lambda compile_: [compile_(function)(X, Thing(b=1)) for _ in range(2)])


def test_what_the_frame_alone_had_set_is_deleted() -> None:
    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        thing.scratch = x + 1
        y = thing.scratch * 2
        del thing.scratch
        return y

    assert follow(function, Thing) == 1


class Doubles(torch.autograd.Function):
    """Writes in its forward, and in its backward, which runs later."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, thing: Any) -> torch.Tensor:
        ctx.thing = thing
        thing.forwards += 1
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        ctx.thing.backwards += 1
        return gradient * 2 * ctx.thing.scale, None


class Reads(Doubles):
    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient * 2 * ctx.thing.scale, None


@pytest.mark.parametrize("kind", [Doubles, Reads])
def test_what_a_backward_writes_and_reads(kind: Any) -> None:
    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        y = kind.apply(x, thing).sum()
        thing.scale = 5.0
        return y

    def world(compile_: Any) -> Any:
        seen, compiled = [], compile_(function)
        with torch.enable_grad():
            for _ in range(3):
                x, thing = X.clone().requires_grad_(), Thing(forwards=0, backwards=0, scale=1.0)
                y = compiled(x, thing)
                seen.append((thing.forwards, thing.backwards))
                y.backward()
                seen.append((thing.forwards, thing.backwards, x.grad))
        return seen

    either(world)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_what_is_checkpointed_writes_twice(use_reentrant: bool) -> None:
    def body(x: torch.Tensor, thing: Any) -> torch.Tensor:
        thing.n += 1
        return (x * 2).exp()

    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        return torch.utils.checkpoint.checkpoint(body, x, thing, use_reentrant=use_reentrant).sum()

    def world(compile_: Any) -> Any:
        with torch.enable_grad():
            x, thing = X.clone().requires_grad_(), Thing(n=0)
            compile_(function)(x, thing).backward()
        return thing.n, x.grad

    either(world)


def test_a_dict_that_is_an_objects_own() -> None:
    def function(x: torch.Tensor, thing: Any, table: Any) -> Any:
        thing.n = 7
        return x * table["n"], len(table), "m" in table

    def world(compile_: Any, shared: list[bool]) -> Any:
        compiled, seen = compile_(function), []
        for is_shared in shared:
            thing = Thing(n=1)
            seen.append(compiled(X, thing, vars(thing) if is_shared else {"n": 1}))
        return seen

    for shared in ([False, True, False], [True, False, True]):
        either(lambda compile_, shared=shared: world(compile_, shared))  # type: ignore[misc]


def test_objects_that_share_what_they_store() -> None:
    class Shares:
        stored: ClassVar[dict[str, Any]] = {"n": 1}

        def __init__(self) -> None:
            self.__dict__ = Shares.stored

    def apart(x: torch.Tensor, one: Any, other: Any) -> Any:
        one.n = one.n + 1
        return x * other.n

    def made(x: torch.Tensor, one: Any, other: Any) -> Any:
        one.n = one.n + 1
        return x * Shares().n

    def world(compile_: Any, function: Any) -> Any:
        Shares.stored = {"n": 1}
        compiled, seen = compile_(function), []
        for one, other in [
            (Thing(n=1), Thing(n=2)),
            (Shares(), Shares()),
            (Thing(n=1), Thing(n=2)),
            (Shares(), Shares()),
        ]:
            seen.append((compiled(X, one, other), one.n, other.n))
        return seen

    for function in (apart, made):
        either(lambda compile_, function=function: world(compile_, function))  # type: ignore[misc]


def test_the_class_of_the_owner_is_not_asked_twice() -> None:
    class Decides:
        log = 0

        @property
        def v(self) -> Any:
            return self.__dict__["w"]

        @v.setter
        def v(self, value: Any) -> None:
            self.__dict__["w"] = value

        def __setattr__(self, name: str, value: Any) -> None:
            self.__dict__["log"] = self.log + 1
            if self.log % 2:
                object.__setattr__(self, name, value)

    class Model(nn.Module):
        _size = 1

        @property
        def size(self) -> Any:
            return self._size

        @size.setter
        def size(self, value: Any) -> None:
            self._size = value

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.size = 3
            return x * self.size

    def function(x: torch.Tensor, decides: Any) -> Any:
        object.__setattr__(decides, "v", 5)
        first = decides.v
        decides.v = 6
        return x, first, decides.v, decides.log

    def world(compile_: Any) -> Any:
        decides, model = Decides(), Model()
        compiled = compile_(function)
        return [compiled(X, decides)[1:] for _ in range(3)], decides.log, compile_(model)(X), vars(model)["_size"]

    either(world)
    dynamlir.reset()
    compiled = dynamlir.compile(Model())
    compiled(X)
    assert not dynamlir.counters()["fallbacks"] and entries(compiled) == 1


def test_what_dies_when_it_is_overwritten_is_noticed() -> None:
    class Token:
        live = 0

        def __init__(self) -> None:
            Token.live += 1

        def __del__(self) -> None:
            Token.live -= 1

    def finalized(x: torch.Tensor, thing: Any) -> Any:
        thing.token = None
        return x * Token.live

    def referred(x: torch.Tensor, thing: Any) -> Any:
        thing.other = None
        return x, thing.reference() is None

    def world(compile_: Any) -> Any:
        other = Thing()
        thing = Thing(token=Token(), other=other, reference=weakref.ref(other))
        del other
        return compile_(finalized)(X, thing), compile_(referred)(X, thing)

    either(world)


def test_one_number_stored_twice_is_one_object() -> None:
    def function(x: torch.Tensor, thing: Any) -> Any:
        made = thing.n + 10**6
        thing.one = thing.other = made
        return x, thing

    for call in (function, dynamlir.compile(function)):
        thing = Thing(n=10**6)
        call(X, thing)
        assert thing.one is thing.other


def test_a_counter_whose_value_python_needs_is_not_compiled_for_each_value() -> None:
    def function(x: torch.Tensor, thing: Any) -> Any:
        thing.n += 1
        return x + 1, thing.n

    compiled = dynamlir.compile(function)
    thing = Thing(n=0)
    for at in range(12):
        assert compiled(X, thing)[1] == at + 1
    assert dynamlir.counters()["graphs_compiled"] <= 2


@torch.library.custom_op("dynamlir_written::scaled", mutates_args=())
def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * STATE.n


@scaled.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


STATE = Thing(n=0)


@pytest.mark.parametrize(
    "operator", [scaled, torch.ops.dynamlir_written.scaled, torch.ops.dynamlir_written.scaled.default]
)
def test_an_operator_of_the_users_reads_what_was_written_before_it(operator: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        STATE.n += 1
        return operator(x)

    def world(compile_: Any) -> Any:
        STATE.n = 0
        compiled = compile_(function)
        return [compiled(X) for _ in range(3)]

    either(world)
