"""Everything that decides a capture is guarded, or ends it: programs run plain and compiled, something changes, both
run again.

A case gives the function to compile, and steps; each step changes something and gives the arguments of the next call.
The causes: iterators, order of sets, addresses, imports, attributes and descriptors that come later, caches, defaults,
shared memory. `test_settings_read.py` and `test_patched_torch.py` cover settings and a patched torch.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch

X = torch.ones(2)
Step = Callable[[], tuple[Any, ...]]
Made = tuple[Callable[..., Any], list[Step]]
CASES: dict[str, tuple[Callable[[], Any], bool]] = {}


def case(make: Callable[[], Any]) -> Callable[[], Any]:
    """A program whose calls are all captured."""
    CASES[make.__name__] = (make, True)
    return make


def plain(make: Callable[[], Any]) -> Callable[[], Any]:
    """A program that may run as plain Python."""
    CASES[make.__name__] = (make, False)
    return make


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The outcome of a call."""
    try:
        result = function(*args)
    except Exception as error:
        return type(error).__name__, str(error)
    return result.tolist() if isinstance(result, torch.Tensor) else result


# Iterators: each call exhausts them.


def spread(function: Callable[..., Any]) -> Made:
    def fresh(*sizes: int) -> Step:
        return lambda: (torch.ones(1, 1), iter(sizes))

    return function, [fresh(2, 3), fresh(4, 5), fresh(1, 1)]


@plain
def an_iterator_spread_into_a_call() -> Made:
    return spread(lambda x, it: (x.expand(*it), list(it)))


@plain
def an_iterator_given_to_list() -> Made:
    return spread(lambda x, it: (x.expand(list(it)), list(it)))


@plain
def an_iterator_unpacked() -> Made:
    def function(x: torch.Tensor, it: Iterator[int]) -> Any:
        a, b = it
        return x.expand(a, b), list(it)

    return spread(function)


@plain
def an_iterator_searched() -> Made:
    return spread(lambda x, it: (x * (3 in it), list(it)))


@plain
def an_iterator_zipped() -> Made:
    return spread(lambda x, it: (x * sum(a * b for a, b in zip(it, (1, 2), strict=False)), list(it)))


@plain
def a_generator_spread_into_a_call() -> Made:
    made = lambda *sizes: lambda: (torch.ones(1, 1), (size for size in sizes))  # noqa: E731
    return (lambda x, it: (x.expand(*it), list(it))), [made(2, 3), made(4, 5)]


# Equal sets that yield their elements in different orders.


@case
def equal_sets_in_another_order() -> Made:
    function = lambda x, s: torch.cat([x * i for i in s])  # noqa: E731
    return function, [lambda: (X, {0, 8}), lambda: (X, {8, 0}), lambda: (X, {0, 8})]


@case
def equal_frozen_sets_in_another_order() -> Made:
    function = lambda x, s: torch.cat([x * i for i in s])  # noqa: E731
    return function, [lambda: (X, frozenset([0, 8])), lambda: (X, frozenset([8, 0]))]


@case
def a_set_in_a_list_in_another_order() -> Made:
    function = lambda x, s: torch.cat([x * i for i in s[0]])  # noqa: E731
    return function, [lambda: (X, [{0, 8}]), lambda: (X, [{8, 0}])]


# Addresses.


@plain
def the_addresses_of_lists() -> Made:
    a, b = [1], [1]
    return (lambda x, a, b: x * (2 if id(a) == id(b) else 3)), [lambda: (X, a, b), lambda: (X, a, a), lambda: (X, b, a)]


@plain
def the_addresses_of_tensors() -> Made:
    y = X + 0
    function = lambda x, y: x * (2 if id(x) == id(y) else 3)  # noqa: E731
    return function, [lambda: (X, y), lambda: (X, X), lambda: (y, X)]


@case
def an_address_that_was_stored() -> Made:
    y, other = torch.ones(2), torch.ones(2)
    known = {id(y): 5}
    function = lambda x, y: x * known.get(id(y), 1) + (hash(y) == hash(other))  # noqa: E731
    return function, [lambda: (X, y), lambda: (X, other), lambda: (X, y)]


@plain
def the_address_of_a_tensor_that_the_function_makes() -> Made:
    def function(x: torch.Tensor) -> Any:
        y = x + 1
        return y * {id(y): 5}.get(id(y), 7), {y: 3}[y]

    return function, [lambda: (X,), lambda: (X,)]


@case
def copies_tell_objects_apart() -> Made:
    def function(x: torch.Tensor, a: list[int], b: list[int]) -> Any:
        made = copy.deepcopy([a, b])
        return x * (2 if made[0] is made[1] else 3)

    a, b = [1], [1]
    return function, [lambda: (X, a, b), lambda: (X, a, a), lambda: (X, b, a)]


# Imports.


@case
def a_module_in_the_place_of_another() -> Made:
    kept = [types.ModuleType("held_module") for _ in range(2)]
    for at, module in enumerate(kept):
        module.k = at + 2

    def function(x: torch.Tensor) -> Any:
        import held_module

        return x * held_module.k

    def put(at: int) -> Step:
        return lambda: (sys.modules.__setitem__("held_module", kept[at]), (X,))[1]

    return function, [put(0), put(1), put(0)]


@case
def a_name_imported_from_a_module_in_the_place_of_another() -> Made:
    kept = [types.ModuleType("held_module") for _ in range(2)]
    for at, module in enumerate(kept):
        module.k = at + 2

    def function(x: torch.Tensor) -> Any:
        from held_module import k

        return x * k

    def put(at: int) -> Step:
        return lambda: (sys.modules.__setitem__("held_module", kept[at]), (X,))[1]

    return function, [put(0), put(1)]


# Attributes that are added later, or removed.


def attributes(owner: Any, *changes: Callable[[Any], Any], function: Callable[..., Any] | None = None) -> Made:
    """Steps that change an object which is an argument."""
    use = function or (lambda x, o: x * o.k)
    return use, [lambda: (X, owner), *[lambda change=change: (change(owner), (X, owner))[1] for change in changes]]


@case
def a_getattribute_that_comes_later() -> Made:
    kind = type("A", (), {"k": 2})
    return attributes(kind(), lambda o: setattr(kind, "__getattribute__", lambda self, name: 5))


@case
def an_attribute_of_a_class_whose_metaclass_answered() -> Made:
    meta = type("Meta", (type,), {"__getattr__": lambda cls, name: 2})
    kind = meta("B", (), {})
    return attributes(kind, lambda o: setattr(o, "k", 5), lambda o: delattr(o, "k"))


@case
def a_data_descriptor_of_a_metaclass_that_comes_later() -> Made:
    meta = type("Meta", (type,), {})
    kind = meta("B", (), {"k": 2})
    return attributes(kind, lambda o: setattr(meta, "k", property(lambda cls: 7)))


@case
def a_slot_that_was_empty() -> Made:
    kind = type("S", (), {"__slots__": ("k",)})
    use = lambda x, o: x * (o.k if hasattr(o, "k") else 2)  # noqa: E731
    return attributes(kind(), lambda o: setattr(o, "k", 5), lambda o: delattr(o, "k"), function=use)


@case
def an_empty_slot_and_a_getattr() -> Made:
    kind = type("S", (), {"__slots__": ("k",), "__getattr__": lambda self, name: 2})
    return attributes(
        kind(), lambda o: setattr(kind, "__getattr__", lambda self, name: 3), lambda o: setattr(o, "k", 5)
    )


@case
def a_getattr_that_comes_later() -> Made:
    kind = type("A", (), {})
    use = lambda x, o: x * getattr(o, "k", 2)  # noqa: E731
    return attributes(kind(), lambda o: setattr(kind, "__getattr__", lambda self, name: 5), function=use)


@case
def a_property_that_comes_later() -> Made:
    kind = type("A", (), {})
    owner = kind()
    owner.k = 2
    return attributes(owner, lambda o: setattr(kind, "k", property(lambda self: 7)), lambda o: delattr(kind, "k"))


@case
def a_descriptor_that_becomes_one_of_data() -> Made:
    class Descriptor:
        def __get__(self, owner: Any, kind: Any = None) -> int:
            return 7

    kind = type("A", (), {"k": Descriptor()})
    owner = kind()
    owner.__dict__["k"] = 2
    return attributes(owner, lambda o: setattr(Descriptor, "__set__", lambda self, owner, value: None))


@case
def a_class_attribute_that_becomes_a_descriptor() -> Made:
    value = type("Value", (), {"__rmul__": lambda self, x: x * 2})()
    kind = type("A", (), {"k": value})
    return attributes(kind(), lambda o: setattr(type(value), "__get__", lambda self, owner, kind=None: 5))


@case
def the_code_of_a_descriptor() -> Made:
    class Descriptor:
        def __get__(self, owner: Any, kind: Any = None) -> int:
            return 2

    kind = type("A", (), {"k": Descriptor()})
    return attributes(kind(), lambda o: setattr(Descriptor, "__get__", lambda self, owner, kind=None: 5))


@case
def what_the_class_of_a_new_object_has() -> Made:
    class Made:
        k = 2

        def scaled(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        def __init__(self) -> None:
            self.own = 1

    def function(x: torch.Tensor) -> torch.Tensor:
        made = Made()
        return made.scaled(x) * made.k + made.own + (1 if made else 0)

    changes = [
        lambda: setattr(Made, "k", 5),
        lambda: setattr(Made, "scaled", lambda self, x: x * 7),
        lambda: setattr(Made, "__init__", lambda self: setattr(self, "own", 9)),
        lambda: setattr(Made, "__bool__", lambda self: False),
        lambda: setattr(Made, "own", property(lambda self: 4, lambda self, value: None)),
    ]
    return function, [lambda: (X,), *[lambda change=change: (change(), (X,))[1] for change in changes]]


@case
def the_bases_of_a_class() -> Made:
    a = type("A", (), {"k": 2, "f": lambda self, x: x * 2})
    b = type("B", (), {"k": 5, "f": lambda self, x: x * 5})
    kind = type("C", (a,), {"f": lambda self, x: super(kind, self).f(x)})
    use = lambda x, o: o.f(x) * o.k + isinstance(o, a)  # noqa: E731
    return attributes(kind(), lambda o: setattr(kind, "__bases__", (b,)), function=use)


@case
def the_name_of_a_class() -> Made:
    kind = type("A", (), {})
    return attributes(kind, lambda o: setattr(o, "__name__", "Longer"), function=lambda x, o: x * len(o.__name__))


@plain
def the_dictionary_of_a_class() -> Made:
    kind = type("A", (), {"k": 2})
    return attributes(kind, lambda o: setattr(o, "k", 5), function=lambda x, o: x * o.__dict__["k"])


@plain
def the_subclasses_of_a_class() -> Made:
    kind = type("A", (), {})
    kept: list[Any] = []
    add = lambda o: kept.append(type("B", (o,), {}))  # noqa: E731
    return attributes(kind, add, add, function=lambda x, o: x * len(o.__subclasses__()))


@case
def an_attribute_of_an_object_of_pybind() -> Made:
    info = torch._C._dynamo.guards.GuardDebugInfo
    function = lambda x, o: x * (2 if o.result else 3)  # noqa: E731
    return function, [lambda: (X, info(True, ["a"], 0)), lambda: (X, info(False, ["a"], 0))]


# Modules.


@case
def a_module_getattr_that_is_exchanged() -> Made:
    module = types.ModuleType("m")
    module.__getattr__ = lambda name: 2

    class Lazy(types.ModuleType):
        k = property(lambda self: 7)

    return attributes(
        module,
        lambda o: setattr(o, "__getattr__", lambda name: 5),
        lambda o: o.__dict__.__setitem__("k", 3),
        lambda o: setattr(o, "__class__", Lazy),
    )


@case
def a_module_getattr_that_comes_later() -> Made:
    use = lambda x, o: x * getattr(o, "k", 2)  # noqa: E731
    return attributes(types.ModuleType("m"), lambda o: setattr(o, "__getattr__", lambda name: 5), function=use)


# Functions.


@case
def shorter_defaults() -> Made:
    def target(x: torch.Tensor, b: int = 1, c: int = 2) -> torch.Tensor:
        return x + b + c

    def put(defaults: Any) -> Step:
        return lambda: (setattr(target, "__defaults__", defaults), (X,))[1]

    first = [lambda: (X,), put((5, 7)), put((1, 2, 3))]
    return (lambda x: target(x, c=3)), first


def test_defaults_that_are_too_few() -> None:
    def target(x: torch.Tensor, b: int = 1, c: int = 2, *, d: int = 3) -> torch.Tensor:
        return x + b + c + d

    function = lambda x: target(x, c=3)  # noqa: E731
    compiled = dynamlir.compile(function)
    assert torch.equal(compiled(X), function(X))
    for name, value in (
        ("__defaults__", (1,)),
        ("__defaults__", None),
        ("__kwdefaults__", None),
        ("__kwdefaults__", {}),
    ):
        before = getattr(target, name)
        setattr(target, name, value)
        assert outcome(compiled, (X,)) == outcome(function, (X,))
        assert outcome(compiled, (X,))[0] == "TypeError"
        setattr(target, name, before)
    target.__kwdefaults__["d"] = 9
    assert torch.equal(compiled(X), function(X))


@case
def the_code_of_a_function() -> Made:
    def target(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def other(x: torch.Tensor) -> torch.Tensor:
        return x * 9

    return (lambda x: target(x)), [lambda: (X,), lambda: (setattr(target, "__code__", other.__code__), (X,))[1]]


@case
def the_signature_of_a_function() -> Made:
    def target(a: int, b: int = 2) -> None: ...

    def shorter(a: int) -> None: ...

    function = lambda x: x * len(inspect.signature(target).parameters)  # noqa: E731
    return function, [lambda: (X,), lambda: (setattr(target, "__wrapped__", shorter), (X,))[1]]


@plain
def a_cache_that_is_cleared() -> Made:
    state = [2]

    @functools.lru_cache(None)
    def known(k: int) -> int:
        return state[0]

    known(1)

    def put(value: int, clear: bool) -> Step:
        def step() -> tuple[Any, ...]:
            state[0] = value
            if clear:
                known.cache_clear()
            return (X,)

        return step

    return (lambda x: x * known(1)), [put(2, False), put(5, False), put(5, True), put(7, False)]


@case
def what_a_partial_holds() -> Made:
    def scale(x: torch.Tensor, *more: int, k: int = 1, j: int = 0) -> torch.Tensor:
        return x * k + j + sum(more)

    def other(x: torch.Tensor, *more: int, **named: int) -> torch.Tensor:
        return x * 100

    p = functools.partial(scale, k=2)
    changes = [
        lambda: p.keywords.__setitem__("j", 3),
        lambda: p.keywords.__setitem__("k", 7),
        lambda: p.__setstate__((scale, (), {"k": 4}, {})),
        lambda: p.__setstate__((other, (), {"k": 4}, {})),
        lambda: p.keywords.clear(),
    ]
    return (lambda x, p: p(x)), [lambda: (X, p), *[lambda change=change: (change(), (X, p))[1] for change in changes]]


# Memory that two tensors may share.


@plain
def whether_two_views_are_the_same_memory() -> Made:
    function = lambda x, y: x * (2 if x.is_set_to(y) else 3)  # noqa: E731
    return function, [lambda: (X, X.view(2)), lambda: (X, X + 0), lambda: (X, X.view(2))]


@plain
def where_memory_lies() -> Made:
    function = lambda x, y: x * (2 if x.data_ptr() == y.data_ptr() else 3)  # noqa: E731
    return function, [lambda: (X, X.view(2)), lambda: (X, X + 0)]


@case
def where_a_tensor_begins_in_its_storage() -> Made:
    base = torch.ones(4)
    function = lambda x: x * x.storage_offset()  # noqa: E731
    return function, [lambda: (base[:2],), lambda: (base[2:],), lambda: (base[1:3],)]


@plain
def inputs_that_come_to_share_memory() -> Made:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        x.add_(1)
        return (x * 2 + y).sum()

    def shared() -> tuple[Any, ...]:
        base = torch.ones(3)
        return base[:2], base[1:]

    return function, [lambda: (torch.ones(2), torch.ones(2)), shared, lambda: (torch.ones(2), torch.ones(2))]


@torch.no_grad()
def check(make: Callable[[], Made], captured: bool) -> None:
    """Asserts that each call has the same outcome as in plain Python."""
    # Each in a world of its own: one call must not see the changes of the other.
    (function, steps), (other, other_steps) = make(), make()
    compiled = dynamlir.compile(function)
    dynamlir.reset()
    for step, other_step in zip(steps, other_steps, strict=True):
        seen = outcome(compiled, step())
        expected = outcome(other, other_step())
        assert str(seen) == str(expected)
    others = [event for event in dynamlir.fallbacks() if event.reason != "raised"]
    assert not captured or not others, others


@pytest.mark.parametrize("name", CASES)
def test_everything_guarded(name: str) -> None:
    check(*CASES[name])
