"""The objects that guards hold, the death of guards, and interrupted checks."""

from __future__ import annotations

import gc
import math
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from guard_world import Block, Config, World
from torch import nn

native = pytest.importorskip("dynamlir._native")


def identity(x: Any) -> Any:
    """A function without globals or closure variables."""
    return x


def built(describe: Callable[[Any], None]) -> Any:
    builder = native.GuardBuilder()
    describe(builder)
    return builder.build()


def equals(value: Any) -> Any:
    """Guards on the one parameter being this constant."""
    return built(lambda b: b.equals(b.local(0, "x"), value))


CONSTANTS: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    2**70,
    -(2**70),
    0.0,
    -0.0,
    1.0,
    math.nan,
    math.inf,
    0j,
    complex(0.0, -0.0),
    complex(math.nan, 1),
    "",
    "1",
    "\ud800",
    b"",
    b"1",
    (),
    (1,),
    (True,),
    (1.0,),
    ((1,), "a"),
    torch.Size(()),
    torch.Size((1,)),
    frozenset(),
    frozenset({1}),
    frozenset({True}),
    slice(1),
    slice(1.0),
    slice(None, 1, 1),
    range(1),
    ...,
    torch.float32,
    torch.float64,
    torch.strided,
    torch.channels_last,
    torch.device("cpu"),
    torch.device("cpu", 0),
]


@pytest.mark.parametrize("at", range(len(CONSTANTS)), ids=[repr(value) for value in CONSTANTS])
def test_a_constant_equals_itself_alone(at: int) -> None:
    value = CONSTANTS[at]
    guards = equals(value)
    for other in range(len(CONSTANTS)):
        assert guards.check(identity, [CONSTANTS[other]]) == (other == at), CONSTANTS[other]


def test_equal_constants_need_not_be_one_object() -> None:
    for make in (lambda: float("2.5"), lambda: int("1" * 30), lambda: "".join(["a", "b"]), lambda: (1, float("nan"))):
        first, second = make(), make()
        assert first is not second
        assert equals(first).check(identity, [second])


def test_subclasses_of_constants_are_no_constants() -> None:
    class Number(int):
        pass

    assert not equals(1).check(identity, [Number(1)])
    with pytest.raises(TypeError):
        equals(Number(1))


def test_what_guards_hold_dies() -> None:
    world = World()
    world.settle()
    model, parameter = weakref.ref(world.model), weakref.ref(world.model.fc.weight)
    config, function = weakref.ref(world.cfg), weakref.ref(world.function)
    guards = world.guards
    del world
    gc.collect()
    assert [model(), parameter(), config(), function()] == [None] * 4
    assert guards.valid, "nothing of this world was guarded by identity"


def test_a_dead_identity_makes_guards_invalid() -> None:
    model = Block()
    builder = native.GuardBuilder()
    builder.identity(builder.local(0, "x"), model)
    guards = builder.build()
    assert guards.check(identity, [model]) and guards.valid
    del model
    gc.collect()
    assert not guards.valid
    assert not guards.check(identity, [Block()])
    assert guards.explain(identity, [Block()])[1] == "___guarded_code.valid"


def test_a_class_dies_although_it_was_guarded() -> None:
    def make() -> tuple[Any, Any]:
        class Local:
            @property
            def value(self) -> int:
                return 1

            def method(self) -> int:
                return 2

        def describe(b: Any) -> None:
            source = b.local(0, "x")
            b.type_match(source, Local())
            for name in ("value", "method"):
                b.identity(b.type_attr(b.type_of(source), name), Local.__dict__[name])

        guards = built(describe)
        for _ in range(4):
            assert guards.check(identity, [Local()])
        return weakref.ref(Local), guards

    reference, guards = make()
    gc.collect()
    assert reference() is None and not guards.valid


def test_what_takes_no_weak_references_is_refused() -> None:
    class Closed:
        __slots__ = ()

    for value in ([], {}, Closed(), object()):
        builder = native.GuardBuilder()
        with pytest.raises(RuntimeError, match="no weak references"):
            builder.identity(builder.local(0, "x"), value)


@pytest.mark.parametrize(
    "fetch",
    [
        lambda: torch.relu,
        lambda: torch.Tensor.add,
        lambda: torch.Tensor.__dict__["__len__"],
        lambda: vars(type)["__name__"],
        lambda: nn.Module.__dict__["named_parameters"],
        lambda: vars(Config)["double"],
        lambda: staticmethod(identity),
        lambda: World.passes,
        lambda: torch._C._nn.gelu,
        lambda: torch.ops.aten.add.Tensor,
        lambda: torch.nn.functional,
        lambda: identity.__code__,
        lambda: dict.fromkeys,
        lambda: int,
    ],
)
def test_identity_of_all_sorts(fetch: Callable[[], Any]) -> None:
    """Also of objects that each access creates anew, whose identity is that of their parts."""
    guards = built(lambda b: b.identity(b.local(0, "x"), fetch()))
    gc.collect()
    for _ in range(4):
        assert guards.check(identity, [fetch()])
    assert not guards.check(identity, [identity])
    assert not guards.check(identity, [property(lambda self: 0)])


def test_bound_methods_are_one_if_function_and_self_are() -> None:
    one, two = Config(), Config()
    guards = built(lambda b: b.identity(b.local(0, "x"), one.method))
    assert guards.check(identity, [one.method])
    assert not guards.check(identity, [two.method])


def test_two_models_take_turns() -> None:
    world = World()
    first, second = world.model, Block().eval()
    for _ in range(6):
        for model in (first, second):
            world.model = model
            assert world.passes()
            assert world.guards.inputs(world.function, world.locals())[2] is model.fc.weight
    second.norm.train()
    for _ in range(3):
        world.model = first
        assert world.passes()
        world.model = second
        assert not world.passes()


def test_inputs_are_those_of_the_call() -> None:
    world = World()
    for _ in range(4):
        world.x, world.y = torch.randn(3, 4), torch.randn(3, 4)
        world.model.fc.bias = nn.Parameter(torch.randn(4))
        given = world.guards.inputs(world.function, world.locals())
        steps = [module.weight for module in world.model.steps]
        expected = [world.x, world.y, world.model.fc.weight, world.model.fc.bias, world.model.norm.running_mean, *steps]
        assert len(given) == len(expected)
        assert all(mine is theirs for mine, theirs in zip(given, expected))


def test_an_exception_is_neither_pass_nor_fail() -> None:
    class Moody:
        def __init__(self) -> None:
            self.calls = 0

        def __getattr__(self, name: str) -> Any:
            raise ZeroDivisionError(name)

    value = Moody()
    guards = built(lambda b: b.equals(b.getattr_(b.local(0, "x"), "other"), 1))
    with pytest.raises(ZeroDivisionError):
        guards.check(identity, [value])
    value.other = 1
    assert guards.check(identity, [value])


def test_a_check_within_a_check() -> None:
    """Python code that a guard runs may call the function that the same guards protect."""

    class Nested:
        depth = 0

        @property
        def value(self) -> int:
            Nested.depth += 1
            if Nested.depth < 5:
                assert guards.check(identity, [self])
            Nested.depth -= 1
            return 7

    def describe(b: Any) -> None:
        source = b.local(0, "x")
        b.type_match(source, Nested())
        b.equals(b.getattr_(source, "value"), 7)
        b.absent(b.attr(source, "other"))

    guards = built(describe)
    value = Nested()
    for _ in range(4):
        assert guards.check(identity, [value])


def test_code_that_a_guard_runs_may_change_what_is_guarded() -> None:
    class Sly:
        def __init__(self) -> None:
            self.table = {"a": [1, 2, 3]}

        @property
        def value(self) -> int:
            self.table = {"a": [1, 2, 3]}
            return 7

    def describe(b: Any) -> None:
        source = b.local(0, "x")
        b.equals(b.getattr_(source, "value"), 7)
        items = b.item(b.attr(source, "table"), "a")
        b.length(items, 3)
        b.equals(b.index(items, 0), 1)
        b.equals(b.getattr_(source, "value"), 7)

    guards = built(describe)
    value = Sly()
    for _ in range(20):
        assert guards.check(identity, [value])
        gc.collect(0)


def test_threads_share_guards() -> None:
    world = World()
    failed: list[Any] = []

    def work(change: bool) -> None:
        mine = [world.model, torch.randn(3, 4), torch.randn(3, 4), 2, Config(), world.slotted]
        for turn in range(300):
            if not world.guards.check(world.function, mine):
                failed.append(turn)
            if change:
                mine[4] = Config()
                world.model.counter = turn

    threads = [threading.Thread(target=work, args=(change,)) for change in (True, False, True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_the_state_of_another_thread_is_its_own() -> None:
    world = World()
    world.settle()
    seen: list[bool] = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(world.passes()))
        thread.start()
        thread.join()
        assert seen == [True] and not world.passes()


def test_a_size_may_vary() -> None:
    guards = built(lambda b: b.tensor(b.local(0, "x"), torch.randn(3, 4), [0]))
    assert guards.check(identity, [torch.randn(3, 4)]) and guards.check(identity, [torch.randn(9, 4)])
    assert not guards.check(identity, [torch.randn(3, 5)])


def test_many_dimensions() -> None:
    """Torch stores the sizes of tensors with more than five dimensions elsewhere."""
    tensor = torch.randn(1, 2, 1, 2, 1, 2, 3)
    guards = built(lambda b: b.tensor(b.local(0, "x"), tensor))
    assert guards.check(identity, [tensor.clone()])
    assert not guards.check(identity, [tensor.transpose(5, 6)])
    assert not guards.check(identity, [torch.randn(1, 2, 1, 2, 1, 3, 2)])


def test_overlapping_memory() -> None:
    base = torch.randn(20)

    def describe(b: Any) -> None:
        x, y = b.local(0, "x"), b.local(1, "y")
        for source in (x, y):
            b.tensor(source, base[0:5])
        b.storages([(x, 0, 0), (y, 0, 5)])

    guards = built(describe)
    assert guards.check(identity, [base[0:5], base[5:10]])
    assert guards.check(identity, [base[3:8], base[8:13]]), "only the distance counts"
    assert not guards.check(identity, [base[0:5], base[4:9]])
    assert not guards.check(identity, [torch.randn(5), torch.randn(5)])


def test_repeated_building_leaks_nothing() -> None:
    def blocks() -> int:
        gc.collect()
        return len(gc.get_objects())

    world = World()
    for _ in range(3):
        world.build()
    before = blocks()
    for _ in range(20):
        guards = world.build()
        for _ in range(3):
            assert guards.check(world.function, world.locals())
        del guards
    assert blocks() - before < 20
