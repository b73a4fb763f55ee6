"""Objects that die within a call die when plain Python releases them, also where a graph ends."""

from __future__ import annotations

import contextlib
import weakref

import dynamlir
import pytest
import torch

log: list[object] = []


class Resource:
    def __del__(self):
        log.append("closed")


class Holder:
    pass


@torch.compiler.disable
def plain():
    """Ends the graph."""


def assigned_anew(x):
    held = Resource()
    plain()
    held = 3
    log.append("after")
    return x + held


def deleted(x):
    held = Resource()
    plain()
    del held
    log.append("after")
    return x + 1


def within_containers(x):
    held = {"pair": (1, [Resource()])}
    plain()
    held = None
    log.append(held)
    return x + 1


def an_attribute(x):
    held = Holder()
    held.resource = Resource()
    plain()
    held = None
    log.append(held)
    return x + 1


def of_each_turn(x):
    for turn in range(3):
        held = Resource()  # noqa: F841
        plain()
        log.append(turn)
        x = x + 1
    return x


def of_a_function_within(x):
    def function(x):
        held = Resource()  # noqa: F841
        plain()
        return x * 2

    y = function(x)
    log.append("returned")
    return y + 1


def unpacked_into(x):
    held = Resource()
    plain()
    held, *rest = [1, 2]
    log.append(rest)
    return x + held


def a_suspended_generator(x):
    def generate():
        try:
            yield 1
        finally:
            log.append("closed")

    held = generate()
    next(held)
    plain()
    held = None
    log.append(held)
    return x + 1


def called_back(x):
    held = Holder()
    reference = weakref.ref(held, lambda _: log.append("gone"))  # noqa: F841
    plain()
    held = None
    log.append("after")
    return x + 1


def referred_to_after_the_graph(x):
    held = Holder()
    plain()
    reference = weakref.ref(held)
    del held
    return x + 1, reference() is None


def a_finalizer(x):
    held = x + 1
    weakref.finalize(held, log.append, "gone")
    result = held * 2
    del held
    log.append("after")
    return result


def a_tensor_by_reference(x):
    held = x + 1
    reference = weakref.ref(held)
    held = held * 2
    log.append(reference() is None)
    return held


def a_tensor_by_proxy(x):
    held = x + 1
    proxy = weakref.proxy(held)
    result = held * 2
    del held
    try:
        log.append(proxy.shape)
    except ReferenceError:
        log.append("dead")
    return result


def a_tensor_as_value(x):
    known = weakref.WeakValueDictionary()
    held = known["key"] = x + 1
    result = held * 2
    del held
    return result, len(known)


def a_tensor_as_key(x):
    known = weakref.WeakKeyDictionary()
    held = x + 1
    known[held] = 1
    held = held * 2
    return held, len(known)


def a_tensor_popped(x):
    held = [x + 1]
    reference = weakref.ref(held[0])
    result = held[0] * 2
    held.pop()
    return result, reference() is None


def a_tensor_of_a_dict(x):
    held = {"key": x + 1}
    reference = weakref.ref(held["key"])
    result = held["key"] * 2
    del held["key"]
    return result, reference() is None


def a_tensor_of_an_object(x):
    held = Holder()
    held.tensor = x + 1
    reference = weakref.ref(held.tensor)
    result = held.tensor * 2
    held = None
    return result, reference() is None


def a_tensor_of_a_function(x):
    def function(x):
        held = x + 1
        return weakref.ref(held), held * 2

    reference, result = function(x)
    return result, reference() is None


def swapped(x):
    a, b = x + 1, x * 2
    plain()
    c = a - b
    torch.utils.swap_tensors(a, b)
    return a, b, c


def counted(x):
    held = x + 1
    first = weakref.getweakrefcount(held)
    plain()
    result = held + 1
    return result, first, weakref.getweakrefcount(held)


def a_storage_by_reference(x):
    held = x + 1
    reference = weakref.ref(held.untyped_storage())
    del held
    log.append(reference() is None)
    return x * 2


def a_storage_of_a_view(x):
    held = [(x + 1)[:1]]
    reference = weakref.ref(held[0].untyped_storage())
    plain()
    log.append(reference() is None)
    held = None
    log.append(reference() is None)
    return x * 2, held


def a_storage_that_is_shared(x):
    held = x + 1
    other = held[:1]
    reference = weakref.ref(held.untyped_storage())
    del held
    log.append(reference() is None)
    other = other * 2
    log.append(reference() is None)
    return other


@contextlib.contextmanager
def opened(resource):
    yield


@contextlib.contextmanager
def opened_with_its_own():
    resource = Resource()  # noqa: F841
    yield


def an_open_with(x):
    with opened(Resource()):
        y = x + 1
        log.append("within")
    log.append("after")
    return y


def an_open_with_around_a_break(x):
    with opened(Resource()):
        y = x + 1
        plain()
        log.append("within")
    log.append("after")
    return y * 2


def an_open_with_of_its_own(x):
    with opened_with_its_own():
        y = x + 1
        plain()
        y = y * 2
        log.append("within")
    log.append("after")
    return y * 2


def an_open_with_that_is_raised_through(x):
    try:
        with opened_with_its_own(), opened(Resource()):
            log.append("within")
            raise KeyError
    except KeyError:
        log.append("caught")
    return x * 2


FUNCTIONS = [
    assigned_anew,
    deleted,
    within_containers,
    an_attribute,
    of_each_turn,
    of_a_function_within,
    unpacked_into,
    a_suspended_generator,
    called_back,
    referred_to_after_the_graph,
    a_finalizer,
    a_tensor_by_reference,
    a_tensor_by_proxy,
    a_tensor_as_value,
    a_tensor_as_key,
    a_tensor_popped,
    a_tensor_of_a_dict,
    a_tensor_of_an_object,
    a_tensor_of_a_function,
    swapped,
    counted,
    a_storage_by_reference,
    a_storage_of_a_view,
    a_storage_that_is_shared,
    an_open_with,
    an_open_with_around_a_break,
    an_open_with_of_its_own,
    an_open_with_that_is_raised_through,
]


def seen(function):
    """The result of a call, and the deaths noticed until its end."""
    log.clear()
    result = function(torch.ones(2))
    return str(result), list(log)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_it_dies_when_plain_python_lets_go(function):
    expected = seen(function)
    with dynamlir.config.patch(on_plain="ignore"):
        compiled = dynamlir.compile(function)
        assert [seen(compiled) for _ in range(3)] == [expected] * 3


def test_another_class_of_what_a_variable_holds():
    kinds = [Holder, Resource]

    def function(x, kind):
        held = kind()
        plain()
        held = None
        log.append(held)
        return x + 1

    with dynamlir.config.patch(on_plain="ignore"):
        compiled = dynamlir.compile(function)
        for kind in kinds * 2:
            assert seen(lambda x: compiled(x, kind)) == seen(lambda x: function(x, kind))  # noqa: B023


def test_what_nobody_notices_stays_in_graphs():
    def function(x):
        held = Holder()
        held.tensor = x + 1
        plain()
        y = held.tensor * 2
        held = [y]
        y = held[0] + 1
        return y - x

    with dynamlir.config.patch(on_plain="ignore"):
        compiled = dynamlir.compile(function)
        for _ in range(2):
            assert torch.equal(compiled(torch.ones(2)), function(torch.ones(2)))
    assert dynamlir.counters()["graphs"] == 2
