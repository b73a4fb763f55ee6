"""C code that reads an existing dict or iterator may change it too, or look further: defaults, pairs, fields of
``str.format``. The effects are those of plain Python.
"""

# The old ways to format are among the tested ones.
# ruff: noqa: UP030, UP031, UP032

import collections
import functools
import itertools
import operator
import types
import warnings
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch

X = torch.arange(1.0, 4.0)


class Default(collections.defaultdict):
    pass


@pytest.fixture(autouse=True)
def quiet():
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# Ways to look up a key that a dict does not have.
LOOKS: dict[str, Callable[[Any], Any]] = {
    "subscript": lambda d: d["z"],
    "get": lambda d: d.get("z"),
    "itemgetter": lambda d: operator.itemgetter("z")(d),
    "itemgetter beneath map": lambda d: list(map(operator.itemgetter("z"), [d])),
    "getitem beneath reduce": lambda d: functools.reduce(operator.getitem, ["z"], d),
    "__getitem__ as a key": lambda d: sorted(["z"], key=d.__getitem__),
    "percent": lambda d: "%(z)s" % d,
    "format_map": lambda d: "{z}".format_map(d),
    "format": lambda d: "{0[z]}".format(d),
    "format of what is in a list": lambda d: "{q[0][z]}".format(q=[d]),
    "format_map of what is in a dict": lambda d: "{d[z]}".format_map({"d": d}),
    "format in a format": lambda d: "{0:{1[0][z]}}".format(1, [d]),
    "translate": lambda d: "z".translate(d),
    "copy": lambda d: d.copy()["z"],
    "factory of a copy": lambda d: d.copy().default_factory is None,
    "or": lambda d: (d | {})["z"],
    "made of it": lambda d: collections.defaultdict(d.default_factory, d)["z"],
    "plain dict of it": lambda d: dict(d).get("z"),
}


def looked(look: Callable[[Any], Any], held: Any) -> Any:
    try:
        return look(held)
    except KeyError:
        return "KeyError"


@pytest.mark.parametrize("factory", [None, int])
@pytest.mark.parametrize("kind", [collections.defaultdict, Default])
@pytest.mark.parametrize("look", LOOKS)
def test_a_default_and_what_makes_it(look, kind, factory):
    """Also checks that the default is put into the dict exactly when plain Python does so."""

    def function(x: torch.Tensor, held: Any) -> tuple[Any, torch.Tensor]:
        return looked(LOOKS[look], held), x + 1

    compiled = dynamlir.compile(function)
    ours, theirs = kind(factory, {"a": 1}), kind(factory, {"a": 1})
    for later in (factory, lambda: 5, lambda: 5, None):
        ours.default_factory = theirs.default_factory = later
        for _ in range(2):
            assert compiled(X, ours)[0] == function(X, theirs)[0]
            assert ours == theirs
        ours.pop("z", None)
        theirs.pop("z", None)


@pytest.mark.parametrize(
    "look", [name for name in LOOKS if name not in ("copy", "factory of a copy", "or", "made of it")]
)
def test_missing_that_comes_later(look):
    class Own(dict):
        pass

    held = Own(a=1)
    compiled = dynamlir.compile(lambda x: (looked(LOOKS[look], held), x + 1))
    expected = looked(LOOKS[look], held)
    assert compiled(X)[0] == expected
    for default in (5, 6):
        Own.__missing__ = lambda self, key, default=default: default
        assert compiled(X)[0] == looked(LOOKS[look], held)
    del Own.__missing__
    assert compiled(X)[0] == expected


@pytest.mark.whole
def test_what_format_looks_into():
    held = types.SimpleNamespace(a=1)
    compiled = dynamlir.compile(lambda x: ("{q.a}".format(q=held), x + 1))
    assert compiled(X)[0] == "1"
    held.a = 2
    assert compiled(X)[0] == "2"
    assert set(dynamlir.counters()["fallbacks"]) == {"c-function"}


PAIRS: dict[str, Callable[[list[Any]], Any]] = {
    "dict": lambda pairs: dict(pairs),
    "update": lambda pairs: (made := {}, made.update(pairs))[0],
    "or": lambda pairs: operator.ior({}, pairs),
    "OrderedDict": lambda pairs: collections.OrderedDict(pairs),
    "starmap": lambda pairs: list(itertools.starmap(max, pairs)),
}


@pytest.mark.parametrize("make", [iter, lambda pair: (item for item in pair), lambda pair: zip(pair, pair)])
@pytest.mark.parametrize("name", PAIRS)
def test_iterators_in_a_list_are_used_up_once(name, make):
    def function(x, pairs):
        return PAIRS[name](pairs), x + 1

    compiled = dynamlir.compile(function)
    for pair in ([1, 2], [2, 3], [2, 3]):
        ours, theirs = [make(pair)], [make(pair)]
        assert compiled(X, ours)[0] == function(X, theirs)[0]
        assert list(ours[0]) == list(theirs[0]) == []


def test_what_c_code_compares_where_python_declines():
    class Declines(dict):
        def __eq__(self, other):
            return NotImplemented

        __hash__ = None

    held = Declines({1: 1})
    compiled = dynamlir.compile(lambda x: ([held] == [{1: 1}], x + 1))
    assert compiled(X)[0] is True
    held[1] = 2
    assert compiled(X)[0] is False


@torch.no_grad()
def test_an_ordered_dict_has_its_own_order():
    values = collections.OrderedDict(a=1.0, b=2.0, c=5.0)
    values.move_to_end("a")

    def function(x):
        for key, value in values.items():
            x = x * value - len(key)
        return x, list(values), list(values.values())

    x = torch.ones(2)
    compiled = dynamlir.compile(function, fullgraph=True)
    changes = [
        lambda: None,
        lambda: values.move_to_end("b"),
        lambda: values.update(b=7.0),
        lambda: values.move_to_end("c", last=False),
        lambda: values.pop("a"),
        lambda: values.update(a=9.0),
        lambda: values.move_to_end("a", last=False),
    ]
    for change in changes:
        change()
        for _ in range(2):
            (seen, *rest), (expected, *others) = compiled(x), function(x)
            assert (seen.tolist(), *rest) == (expected.tolist(), *others)
