"""The places a capture reads from: cells, the globals of other modules, and objects that are copied."""

from __future__ import annotations

import collections
import concurrent.futures
import contextvars
import copy
import enum
import functools
import threading
import types
import weakref

import dynamlir
import numpy as np
import pytest
import torch
from follows import Follows, Settings, X


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()
    with torch.no_grad():
        yield


# -- functions that the frame creates: before CPython 3.12, comprehensions are separate functions


def test_a_comprehension_reads_a_cell_of_the_function_around_it():
    def outer():
        factor = 2
        return lambda x: x + sum([factor * i for i in range(3)])

    function = outer()
    follows = Follows(function)
    assert follows.entries() == 1
    function.__closure__[0].cell_contents = 5
    assert follows.entries() == 2


def test_a_lambda_in_a_lambda_reads_a_cell_of_an_inlined_function():
    def outer():
        factor = 2
        return lambda x: (lambda y: (lambda: y * factor)())(x)

    inner = outer()
    follows = Follows(lambda x: inner(x) + 1)
    assert follows.entries() == 1
    inner.__closure__[0].cell_contents = 5
    assert follows.entries() == 2


def test_a_comprehension_of_another_module_reads_that_modules_globals():
    module = types.ModuleType("elsewhere")
    exec("SCALE = 1\ndef scaled(x): return [x * SCALE for _ in range(2)][1]", module.__dict__)
    follows = Follows(lambda x: module.scaled(x))
    assert follows.entries() == 1
    module.SCALE = 7
    assert follows.entries() == 2


def test_a_property_reads_a_cell():
    scale = 2

    class Holder:
        factor = property(lambda self: scale)

    holder = Holder()
    follows = Follows(lambda x: x * holder.factor)
    assert follows.entries() == 1
    scale = 3
    assert follows.entries() == 2


# -- objects that `copy` takes apart


def test_a_deep_copy_is_guarded_by_all_that_it_copies():
    settings = Settings()

    def function(x):
        copied = copy.deepcopy(settings)
        copied.names["kinds"].append("sliding")
        copied.layers += 1
        return x * copied.layers + len(copied.names["kinds"])

    follows = Follows(function)
    assert follows.entries() == 1
    assert settings.names == {"kinds": ["full", "full"]} and settings.layers == 2
    settings.names["kinds"].append("full")
    assert follows.entries() == 2
    settings.layers = 5
    assert follows.entries() == 3
    settings.other = 1
    assert follows.entries() == 4


def test_a_shallow_copy_shares_what_it_holds():
    settings = Settings()

    def function(x):
        copied = copy.copy(settings)
        copied.layers = 7
        return x * copied.layers * (copied.names is settings.names)

    assert Follows(function).entries() == 1
    assert settings.layers == 2


def test_a_copy_goes_by_the_classs_own_protocol():
    class Counted(Settings):
        def __getstate__(self):
            return {"layers": self.layers * 10}

    settings = Counted()
    follows = Follows(lambda x: x * copy.deepcopy(settings).layers)
    assert follows.entries() == 1
    settings.layers = 3
    assert follows.entries() == 2


def test_instances_with_slots_are_not_copied_while_capturing():
    class Slotted:
        __slots__ = ("layers",)

    settings = Slotted()
    settings.layers = 2
    compiled = dynamlir.compile(lambda x: x * copy.copy(settings).layers)
    torch.testing.assert_close(compiled(X), X * 2)
    assert [event.reason for event in dynamlir.fallbacks()] == ["unguardable"]


def test_a_written_object_is_not_copied():
    settings = Settings()

    def function(x):
        settings.layers = 5
        copied = copy.copy(settings)
        settings.layers = 2
        return x * copied.layers

    compiled = dynamlir.compile(function)
    torch.testing.assert_close(compiled(X), X * 5)
    assert len(dynamlir.fallbacks()) == 1


# -- in-place operators on types that do not define them


def test_a_number_plus_a_tensor_in_place():
    def function(x):
        total = 0
        total += x
        total *= 2
        rows = [total]
        rows += x
        return rows[1] + total

    assert Follows(function).entries() == 1
    torch.testing.assert_close(dynamlir.compile(function, backend="eager")(X), function(X))


# -- values that are reached through an object


def test_a_context_variable_is_guarded_by_its_value():
    variable = contextvars.ContextVar("variable")
    follows = Follows(lambda x: x * variable.get(2))
    assert follows.entries() == 1
    token = variable.set(3)
    assert follows.entries() == 2
    variable.reset(token)
    assert follows.entries() == 2


@pytest.mark.parametrize("read", [lambda variable: variable.get(), lambda variable: variable.get(5)])
def test_a_context_variable_has_a_default_of_its_own(read):
    """A default given in the call takes precedence."""
    variable = contextvars.ContextVar("variable", default=3)
    follows = Follows(lambda x: x * read(variable))
    assert follows.entries() == 1
    token = variable.set(4)
    assert follows.entries() == 2
    variable.set(7)
    assert follows.entries() == 3
    variable.reset(token)
    assert follows.entries() == 3
    # A variable set to its default value counts as set.
    variable.set(3)
    torch.testing.assert_close(follows.compiled(X), follows.function(X))


def test_a_context_variable_holds_an_object():
    variable = contextvars.ContextVar("variable", default=None)
    follows = Follows(lambda x: x if variable.get() is None else x * variable.get().layers)
    assert follows.entries() == 1
    settings = Settings()
    token = variable.set(settings)
    assert follows.entries() == 2
    settings.layers = 4
    assert follows.entries() == 3
    variable.reset(token)
    assert follows.entries() == 3


def test_a_context_variable_that_is_not_set_raises():
    variable = contextvars.ContextVar("variable")

    def function(x):
        try:
            return x * variable.get()
        except LookupError:
            return x * 9

    follows = Follows(function)
    assert follows.entries() == 1
    variable.set(2)
    assert follows.entries() == 2


def test_a_weak_reference_is_guarded_by_what_it_refers_to():
    settings = Settings()
    reference = weakref.ref(settings)
    follows = Follows(lambda x: x * (3 if reference() is None else reference().layers))
    assert follows.entries() == 1
    settings.layers = 4
    assert follows.entries() == 2
    del settings
    assert follows.entries() == 3


def test_what_a_modules_getattr_makes_is_not_taken_for_stored():
    module = types.ModuleType("lazy")
    exec("SCALE = 1\ndef __getattr__(name): return SCALE * 2", module.__dict__)
    follows = Follows(lambda x: x * module.missing)
    assert follows.entries() == 1
    module.SCALE = 5
    assert follows.entries() == 2
    module.missing = 7
    assert follows.entries() == 3


# -- writes


def test_a_write_that_changes_nothing_needs_an_entry_of_its_own():
    layers = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout())
    layers.eval()

    def function(x):
        layers.eval()
        return layers(x)

    follows = Follows(function)
    assert follows.entries() == 1
    layers.train()
    compiled = dynamlir.compile(function)
    torch.testing.assert_close(compiled(X), function(X))
    assert not layers.training and not dynamlir.fallbacks()
    layers.train()
    compiled(X)
    assert not layers.training


@pytest.mark.parametrize("write", ["settings.__setattr__('layers', 9)", "object.__setattr__(settings, 'layers', 9)"])
def test_a_write_by_the_slot_is_a_write(write):
    settings = Settings()
    function = eval(f"lambda x: ({write}, x + settings.layers)[1]", {"settings": settings})
    compiled = dynamlir.compile(function)
    torch.testing.assert_close(compiled(X), X + 9)
    assert settings.layers == 9 and not dynamlir.fallbacks()


def test_a_class_is_not_written():
    class Local:
        size = 1

    compiled = dynamlir.compile(lambda x: (type.__setattr__(Local, "size", 5), x * Local.size)[1])
    torch.testing.assert_close(compiled(X), X * 5)
    compiled = dynamlir.compile(lambda x: (Local.__class__.__setattr__(Local, "size", 6), x * Local.size)[1])
    torch.testing.assert_close(compiled(X), X * 6)
    assert {event.reason for event in dynamlir.fallbacks()} == {"side-effect"}


def test_a_key_that_no_guard_can_check_is_no_exception_of_the_frames():
    table = {(object, 1): 2.0}

    def function(x):
        try:
            return x * table[object, 1]
        except RuntimeError:
            return x

    compiled = dynamlir.compile(function)
    torch.testing.assert_close(compiled(X), X * 2)


def test_a_tuple_that_grows_is_a_new_one():
    def function(x, *rest, start=(1,)):
        start += (x,)
        for _ in range(2):
            rest += (x * len(start),)
        return rest[0] + rest[1]

    assert Follows(function).entries() == 1


# -- data that C code reads from an object


class Ratio(float):
    """A number that can have attributes."""


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Numbers(list):
    """Iterated by C code."""


Pair = collections.namedtuple("Pair", "tensor scale")


@pytest.mark.parametrize(
    ("first", "second", "use"),
    [
        (np.float64(2.0), np.float64(5.0), lambda x, value: x * value),
        (np.int64(2), np.int64(5), lambda x, value: x[:, :value].sum()),
        (Ratio(2.0), Ratio(5.0), lambda x, value: x * value),
        (Level.LOW, Level.HIGH, lambda x, value: x * value),
        ({"a": np.float32(2.0)}, {"a": np.float32(5.0)}, lambda x, value: x * value["a"]),
        (Numbers([1, 2]), Numbers([1, 3]), lambda x, value: x * sum(value) + value[1]),
        (Pair(None, 2), Pair(None, 5), lambda x, value: x * value.scale + value[1]),
        (Pair(X + 1, 2), Pair(X + 2, 2), lambda x, value: x * value.tensor + value[0]),
        (collections.Counter("aa"), collections.Counter("a"), lambda x, value: x * value["a"]),
        (frozenset({int, str}), frozenset({str}), lambda x, value: x * (int in value)),
        (torch.sin, torch.cos, lambda x, value: functools.reduce(torch.add, map(value, [x, x]))),
        (abs, float, lambda x, value: x * max(-3, 2, key=value)),
    ],
)  # fmt: skip
def test_a_value_of_an_object_decides(first, second, use):
    settings = Settings()
    settings.value = first
    follows = Follows(lambda x: use(x, settings.value))
    assert follows.entries() == 1
    settings.value = second
    assert follows.entries() <= 2


def class_pattern(x, value):
    match value:
        case Pair(scale=scale):
            return x * scale
        case {"a": int(scale)}:
            return x * scale
        case str():
            return x * len(value)


def class_body(x, value):
    class Local:
        scale = WORDS[0]

    return x * Local.scale + value


WORDS = [2]


@pytest.mark.parametrize(
    ("first", "second", "use"),
    [
        ("ab", "abc", lambda x, value: x * len(f"{value}!")),
        (">5", ">7", lambda x, value: x * len(f"{1:{value}}")),
        ({"a": 2}, {"a": 5}, class_pattern),
        ("ab", "abc", class_pattern),
    ],
)
def test_a_value_in_a_format_or_a_pattern_decides(first, second, use):
    settings = Settings()
    settings.value = first
    follows = Follows(lambda x: use(x, settings.value))
    assert follows.entries() == 1
    settings.value = second
    assert follows.entries() == 2


def test_the_kind_of_a_matched_value_decides():
    def kind(value):
        match value:
            case []:
                return 2
            case {}:
                return 3
            case _:
                return 4

    settings = Settings()
    settings.value = []
    follows = Follows(lambda x: x * kind(settings.value))
    for entries, value in enumerate([[], {}, 5, ()], 1):
        settings.value = value
        assert follows.entries() == entries


class Parent:
    scale = 2

    def apply(self, x):
        return x * 2


class Child(Parent):
    def apply(self, x):
        return super().apply(x) * super().scale


def test_what_super_finds_is_guarded(monkeypatch):
    child = Child()
    follows = Follows(lambda x: child.apply(x))
    assert follows.entries() == 1
    monkeypatch.setattr(Parent, "scale", 5)
    assert follows.entries() == 2
    monkeypatch.setattr(Parent, "apply", lambda self, x: x * 7)
    assert follows.entries() == 3


def test_the_body_of_a_class_reads_globals():
    follows = Follows(lambda x: class_body(x, 1))
    assert follows.entries() == 1
    WORDS[0] = 5
    assert follows.entries() == 2
    WORDS[0] = 2


def test_numpys_functions_of_numbers():
    assert Follows(lambda x: x * np.sqrt(4.0) + np.prod(x.shape) - int(np.max([1, 2]))).entries() == 1


def test_the_length_of_a_deque_is_guarded():
    settings = Settings()
    settings.queue = collections.deque([1, 2])
    compiled = dynamlir.compile(lambda x: x * len(settings.queue))
    torch.testing.assert_close(compiled(X), X * 2)
    settings.queue.append(3)
    torch.testing.assert_close(compiled(X), X * 3)
    assert not dynamlir.fallbacks()


def test_each_thread_has_attributes_of_its_own():
    local = threading.local()
    local.scale = 2
    compiled = dynamlir.compile(lambda x: x * (local.scale if hasattr(local, "scale") else 3))
    torch.testing.assert_close(compiled(X), X * 2)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        torch.testing.assert_close(pool.submit(torch.no_grad()(compiled), X).result(), X * 3)
    assert not dynamlir.fallbacks()
