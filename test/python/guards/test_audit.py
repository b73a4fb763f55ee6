"""Audits: each hit is captured again and compared with its entry, without the program noticing."""

from __future__ import annotations

import collections
import functools
import itertools
import math
import operator
import random
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from audited import BOX, LOG, audited, in_the_graph, ones, turn

pytestmark = [pytest.mark.stale]
__all__ = ["audited"]

Pair = collections.namedtuple("Pair", "scale shift")

# From 3.14 on dicts have no versions, so guards read the items of the tuple itself and see that they were exchanged.
UNSEEN = pytest.mark.skipif(sys.version_info >= (3, 14), reason="guards see it")

# Programs that audits leave unaffected.


def counts(x: torch.Tensor) -> torch.Tensor:
    BOX.count += 1
    LOG.append(x.shape)
    return x + 1


def breaks(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    print("", end="")
    for row in [1, 2]:
        y = y + row
        print("", end="")
    return y * 3


def returns(x: torch.Tensor) -> Any:
    class_of = [x.shape, {"k": x + 1}, (1, -0.0, "a", None), {1, 2}, range(3), iter([1, 2])]
    return class_of[:5], Pair(x, 2), functools.partial(counts, x)


def draws(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x, 0.5) + torch.rand(3)


def of_pair(x: torch.Tensor, pair: Any) -> torch.Tensor:
    return x * pair.scale + pair.shift


@functools.lru_cache
def remembered(n: int) -> int:
    return n + 1


def asks_a_cache(x: torch.Tensor) -> torch.Tensor:
    return x * remembered(4)


def goes_through(x: torch.Tensor) -> torch.Tensor:
    for number in itertools.chain([1, 2], (n for n in (3, 4))):
        x = x + number
    return x


def raises_and_handles(x: torch.Tensor) -> torch.Tensor:
    try:
        return x * BOX.missing
    except AttributeError:
        return x - 1


def closes_over(x: torch.Tensor) -> Callable[[], torch.Tensor]:
    total = x.sum()

    def later() -> torch.Tensor:
        return total + x

    return later


@pytest.mark.parametrize(
    "program",
    [counts, breaks, draws, asks_a_cache, goes_through, raises_and_handles],
    ids=lambda program: program.__name__,
)
def test_calls_that_are_answered_rightly_are_as_ever(program: Any) -> None:
    compiled = dynamlir.compile(program)
    for _ in range(4):
        BOX.count = 0
        torch.manual_seed(1)
        got = compiled(ones())
        if program is not draws:
            assert torch.equal(got, program(ones()))
    found = dynamlir.audits()
    assert found.same >= 2 and not found.skipped and not found.differences


def test_results_of_all_kinds_are_the_same_again() -> None:
    compiled, closing = dynamlir.compile(returns), dynamlir.compile(closes_over)
    for _ in range(3):
        assert repr(compiled(ones())[0]) == repr(returns(ones())[0])
        assert torch.equal(closing(ones())(), closes_over(ones())())
    assert dynamlir.audits().same == 4


def test_open_sizes_and_numbers_are_inputs_again() -> None:
    def sized(x: torch.Tensor, scale: float, n: int) -> torch.Tensor:
        return x.reshape(-1, 2) * scale + x[:n].sum() + x.shape[0]

    compiled = dynamlir.compile(sized)
    for length, scale, n in [(4, 0.5, 2), (6, 0.25, 3), (8, 0.125, 4), (12, 3.5, 12), (8, 0.5, 8), (4, 0.5, 2)]:
        x = torch.arange(float(length))
        assert torch.equal(compiled(x, scale, n), sized(x, scale, n))
    found = dynamlir.audits()
    assert found.same == 4 and not found.skipped and not found.differences


def test_sizes_that_were_equal_by_chance_stay_two() -> None:
    def outer(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x[:, None] * y).sum(0)

    compiled = dynamlir.compile(outer, dynamic=True)
    for first, second in [(3, 4), (5, 5), (7, 2), (6, 6)]:
        x, y = torch.rand(first), torch.rand(second)
        torch.testing.assert_close(compiled(x, y), outer(x, y))
    found = dynamlir.audits()
    assert found.same == 3 and not found.skipped and not found.differences


def test_ints_of_which_symbols_are_made_only_by_now() -> None:
    """An int below two has no symbol and is guarded only by the conditions on it, which other ints can meet too."""

    def asks(x: torch.Tensor, n: int, box: Any) -> torch.Tensor:
        return x.sin() if n % 2 and box.n < 5 else x.cos()

    compiled = dynamlir.compile(asks, fullgraph=True)
    for n, held in [(1, 0), (-1, 1), (3, 3), (5, -4), (2**70 + 1, 4), (9, -(2**70))]:
        box = types.SimpleNamespace(n=held)
        assert torch.equal(compiled(ones(), n, box), asks(ones(), n, box))
    found = dynamlir.audits()
    assert len(compiled._cache) == 2 and found.same == 4 and not found.skipped and not found.differences


def test_guards_of_what_is_told_apart_are_the_same_each_time() -> None:
    """The addresses of objects are up to chance."""

    def writes(x: torch.Tensor, boxes: list[Any]) -> torch.Tensor:
        table: dict[str, Any] = boxes[0].table
        for number, box in enumerate(boxes):
            table[box.name] = number
        return x + len(table)

    compiled = dynamlir.compile(writes, backend="eager", fullgraph=True)
    for _ in range(4):
        boxes = [types.SimpleNamespace(name=f"box {number}", table={}) for number in range(6)]
        assert torch.equal(compiled(ones(), boxes), ones() + 6)
        assert boxes[0].table == {f"box {number}": number for number in range(6)}
    found = dynamlir.audits()
    assert found.same == 3 and not found.skipped and not found.differences


@pytest.mark.parametrize("first", [2, 3])
def test_a_write_of_what_is_there_already_is_no_difference(first: int) -> None:
    """A capture that finds the value already there omits the write, under a guard; one that does not find it writes."""
    table, kept = {"k": 0}, 0

    def sets(x: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        table["k"] = kept = 3
        return x + 1

    compiled = dynamlir.compile(sets, backend="eager", fullgraph=True)
    for count in (first, 3, 5, 3):
        table["k"] = kept = count
        compiled(ones())
        assert table["k"] == kept == 3
    found = dynamlir.audits()
    assert not found.differences and not found.skipped and found.same == {2: 3, 3: 2}[first]


class Holder:
    def __init__(self, held: Any) -> None:
        self.held = held


def test_what_is_set_back_may_be_of_any_kind() -> None:
    """A value that the frame passes on without inspecting it is not guarded."""

    def sets(x: torch.Tensor, box: Any) -> torch.Tensor:
        former, box.held = box.held, "meanwhile"
        y = x + len(box.held)
        box.held = former
        return y

    compiled = dynamlir.compile(sets, fullgraph=True)
    values = ["text", ["a", 1], None, (1, 2), 5, 1.5, Holder(2), "text"]
    for value in values:
        box = Holder(value)
        assert torch.equal(compiled(ones(), box), ones() + 9) and box.held is value
    found = dynamlir.audits()
    assert len(compiled._cache) == 1 and found.same == len(values) - 1 and not found.skipped and not found.differences


@pytest.mark.parametrize("kind", ["list", "tensor", "dict"])
def test_what_is_set_back_is_not_written(kind: str) -> None:
    def sets(x: torch.Tensor, box: Any) -> torch.Tensor:
        former, box.held = box.held, None
        y = x + 1
        box.held = former
        return y

    held = {"list": [1], "tensor": ones(), "dict": {"k": 1}}[kind]
    box = Holder(held)
    assert not dynamlir.explain(sets)(ones(), box).effects
    compiled = dynamlir.compile(sets, fullgraph=True)
    for _ in range(2):
        compiled(ones(), box)
        assert box.held is held
    assert dynamlir.audits().same == 1


MADE_ANEW: dict[str, Callable[[], Any]] = {
    "itemgetter": lambda: operator.itemgetter(0, "k"),
    "property": lambda: property(ones),
    "method": lambda: BOX.held.index,
    "slot": lambda: (2).__add__,
    "class method": lambda: classmethod(ones),
}


@pytest.mark.parametrize("kind", MADE_ANEW)
def test_objects_that_are_made_anew_are_the_same_by_their_parts(kind: str) -> None:
    def asks(x: torch.Tensor, value: Any) -> Any:
        return x + 1, callable(value)

    compiled = dynamlir.compile(asks, backend="eager", fullgraph=True)
    kept = [MADE_ANEW[kind]() for _ in range(3)]
    for value in kept:
        assert compiled(ones(), value)[1] is callable(value)
    assert len(compiled._cache) == 1
    found = dynamlir.audits()
    assert found.same == 2 and not found.differences and not found.skipped


def test_one_tensor_in_two_places_is_no_difference_where_nobody_asks() -> None:
    compiled = dynamlir.compile(lambda x, y: x + 1)
    x = ones()
    for given in ((x, ones()), (x, x), (x, x)):
        assert torch.equal(compiled(*given), x + 1)
    assert dynamlir.audits().same == 2


def test_one_object_from_two_places_is_handed_on_from_either() -> None:
    """The entry reads the second place, where an audit finds an object already seen in the first."""

    @dynamlir.compile
    def function(x: torch.Tensor, y: Any) -> Any:
        doubled = x * 2
        torch._dynamo.graph_break()
        return doubled, y

    x = ones()
    for given in (object(), ones(), x):
        assert function(x, given)[1] is given
    assert dynamlir.audits().same >= 2


def test_guards_of_one_list_from_two_places_are_the_same() -> None:
    def function(x: torch.Tensor, first: list[Any], second: list[Any]) -> Any:
        first.append(1)
        torch._dynamo.graph_break()
        second.append(len(first))
        first.extend([second, x])
        torch._dynamo.graph_break()
        return x * len(second), second.pop()

    compiled = dynamlir.compile(function)
    for shared in (False, True, True, False, False):
        found, expected = ([[], []] if not shared else [[]] * 2 for _ in range(2))
        given = ones()
        assert repr(compiled(given, *found)) == repr(function(given, *expected))
        assert repr(found) == repr(expected)
    assert dynamlir.audits().same


def test_keys_that_are_put_back_are_known_by_what_they_are() -> None:
    """A key may be a different object each time; no guard checks its identity."""

    @dynamlir.compile
    def function(x: torch.Tensor, table: dict[str, Any]) -> torch.Tensor:
        table.popitem()
        table.update(a=0, k=x)
        return x * 2

    for key in ("k", "".join(["_k"])[1:], "k"):
        x, table = ones(), {"a": 0, key: ones()}
        function(x, table)
        assert list(table) == ["a", "k"] and table["k"] is x
    assert dynamlir.audits().same == 2


def test_a_number_that_is_read_for_nothing_is_handed_on() -> None:
    """By the time of the audit, one kind of numbers are inputs; the entry was made from another kind, which is not."""

    def function(x: torch.Tensor, a: Any, b: Any) -> torch.Tensor:
        return x * (a / b)

    compiled = dynamlir.compile(function)
    for a, b in ((0.5, 2.0), (1.5, 2.0), (True, 4.0), (1, 0.0), (math.inf, 0.25)):
        try:
            expected: Any = function(ones(), a, b)
        except ZeroDivisionError as error:
            with pytest.raises(ZeroDivisionError, match=str(error)):
                compiled(ones(), a, b)
        else:
            assert torch.equal(compiled(ones(), a, b), expected)
    assert dynamlir.audits().same


def test_training_and_modules_are_audited() -> None:
    model = torch.nn.Sequential(
        *[torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)) for _ in range(3)]
    )
    compiled = dynamlir.compile(model)
    for _ in range(3):
        model.zero_grad()
        compiled(torch.ones(2, 4)).sum().backward()
    assert dynamlir.audits().same == 2
    assert int(model[0][1].num_batches_tracked) == 3
    model.eval()
    with torch.no_grad():
        for _ in range(2):
            compiled(torch.ones(2, 4))
    assert dynamlir.audits().same == 3 and not dynamlir.audits().skipped


def test_nothing_is_left_behind() -> None:
    numpy = pytest.importorskip("numpy")

    def warns(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.mse_loss(x, torch.ones(1)) * asks_a_cache(x) + torch.rand(3)

    x = torch.ones(3, requires_grad=True)
    compiled = dynamlir.compile(warns)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        for _ in range(2):
            compiled(x)

    def state() -> Any:
        reports = (dynamlir.counters(), dynamlir.last_compile(), dynamlir.fallbacks())
        cache = (remembered.cache_info().misses, len(compiled._cache))  # the guards cause hits, and run twice
        return (
            reports,
            cache,
            x._version,
            x.grad,
            torch.is_grad_enabled(),
            random.getstate(),
            str(numpy.random.get_state()),
        )

    def seen(audit: bool) -> tuple[Any, list[str], torch.Tensor, list[Any]]:
        torch.manual_seed(3)
        with warnings.catch_warnings(record=True) as given, dynamlir.config.patch(audit=audit):
            warnings.simplefilter("always")
            filters = list(warnings.filters)
            before = state()
            compiled(x)
            after, left = state(), torch.get_rng_state()
            assert before == after and filters == warnings.filters
        return after, [str(warning.message) for warning in given], left, filters

    with_audit, without = seen(True), seen(False)
    assert with_audit[1] == without[1] and torch.equal(with_audit[2], without[2])
    # Each graph of a call is audited separately.
    assert dynamlir.audits().same >= 2 and not dynamlir.audits().skipped


# Programs in which audits find differences.


def in_an_effect(x: torch.Tensor) -> torch.Tensor:
    LOG.append(f"{BOX.held[0]}")
    return x + 1


def in_the_result(x: torch.Tensor) -> Any:
    return x + 1, BOX.held[0]


def after_a_break(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    print("", end="")
    return y * BOX.held[0]


def in_a_branch(x: torch.Tensor) -> torch.Tensor:
    return x.sin() if BOX.held[0] == 2 else x.cos()


def in_a_constant(x: torch.Tensor) -> torch.Tensor:
    return x[:2] + torch.tensor(BOX.held)


STALE = [
    (in_the_graph, "the program"),
    (in_an_effect, "what is done after the graph"),
    (in_the_result, "what is done after the graph"),
    (after_a_break, "the program"),
    (in_a_branch, "the program"),
    (in_a_constant, "the program"),
]


def seen(value: Any) -> str:
    return f"{value!r} {LOG!r}"


@UNSEEN
@pytest.mark.parametrize(("program", "what"), STALE, ids=lambda part: getattr(part, "__name__", ""))
def test_what_no_guard_sees_is_found_and_the_call_is_right(program: Any, what: str) -> None:
    compiled = dynamlir.compile(program)
    for _ in range(2):
        compiled(ones())
    held = BOX.held
    turn(held)
    LOG.clear()
    with pytest.raises(dynamlir.StaleEntry) as raised:
        compiled(ones())
    difference = raised.value.difference
    assert difference.what == what and difference.kept != difference.found
    assert (
        difference.line is not None
        and difference.line[0] == program.__code__.co_filename
        and difference.line[2] == program.__name__
    )
    assert difference.function in {program.__name__, program.__qualname__}
    LOG.clear()
    got = seen(compiled(ones()))
    LOG.clear()
    assert got == seen(program(ones()))


@UNSEEN
def test_with_a_warning_the_call_itself_is_right() -> None:
    def named(x: torch.Tensor) -> torch.Tensor:
        return getattr(x, BOX.held[0])()

    BOX.held = tuple(["sin", "cos"])
    compiled = dynamlir.compile(named)
    with dynamlir.config.patch(on_audit="warn"):
        for _ in range(2):
            compiled(ones())
        turn(BOX.held)
        with pytest.warns(dynamlir.StaleEntryWarning, match=r"kept: .*sin.*\n.*now: .*cos"):
            assert torch.equal(compiled(ones()), ones().cos())
        assert len(compiled._cache) == 1
        compiled(ones())
        turn(BOX.held)
        with warnings.catch_warnings(record=True) as again:
            assert torch.equal(compiled(ones()), ones().sin())
        assert not again, "it is said once"
    assert len(dynamlir.audits().differences) == 2


@pytest.mark.skipif(sys.version_info < (3, 14), reason="guards do not see it")
def test_an_exchange_that_guards_see() -> None:
    compiled = dynamlir.compile(lambda x: getattr(x, BOX.held[0])())
    BOX.held = tuple(["sin", "cos"])
    for _ in range(2):
        assert torch.equal(compiled(ones()), ones().sin())
    turn(BOX.held)
    assert torch.equal(compiled(ones()), ones().cos())


@UNSEEN
def test_a_report_names_what_was_read_and_the_guards_of_it() -> None:
    """A number that is an input is named by its place; a number in the graph, by its value."""

    def scaled(x: torch.Tensor, box: Any) -> torch.Tensor:
        return x[: box.n] * BOX.held[0]

    compiled = dynamlir.compile(scaled)
    for n in (5, 6, 7):
        compiled(torch.ones(8), types.SimpleNamespace(n=n))
    turn(BOX.held)
    with pytest.raises(dynamlir.StaleEntry) as raised:
        compiled(torch.ones(8), types.SimpleNamespace(n=4))
    difference = raised.value.difference
    assert any("n" in place and "is 4" in place for place in difference.places)
    assert any("box" in guard for guard in difference.guards)


@UNSEEN
def test_several_entries_are_asked_after_one_is_dropped() -> None:
    def chosen(x: torch.Tensor, mode: str) -> torch.Tensor:
        return x * BOX.held[0] if mode == "held" else x + 5

    compiled = dynamlir.compile(chosen)
    for mode in ("held", "other", "held", "other"):
        compiled(ones(), mode)
    turn(BOX.held)
    assert torch.equal(compiled(ones(), "other"), ones() + 5)
    with pytest.raises(dynamlir.StaleEntry):
        compiled(ones(), "held")
    assert len(compiled._cache) == 1
    assert torch.equal(compiled(ones(), "held"), ones() * 3) and len(compiled._cache) == 2


# The share of hits that is audited.


def test_a_share_of_the_hits_is_audited() -> None:
    compiled = dynamlir.compile(in_the_graph)
    compiled(ones())
    with dynamlir.config.patch(audit=0.25):
        for _ in range(16):
            compiled(ones())
    assert dynamlir.audits().same == 4
    with dynamlir.config.patch(audit=False):
        compiled(ones())
    assert dynamlir.audits().same == 4


def test_an_entry_that_was_made_without_audits_is_made_anew() -> None:
    with dynamlir.config.patch(audit=False):
        compiled = dynamlir.compile(in_the_graph)
        for _ in range(2):
            compiled(ones())
        before = dynamlir.counters()["graphs"]
        turn(BOX.held)
    assert torch.equal(compiled(ones()), ones() * 3)
    compiled(ones())
    assert dynamlir.counters()["graphs"] == before + 1 and dynamlir.audits().same == 1


# The setting.


@pytest.mark.parametrize("value", [True, False, 0, 1, 0.5])
def test_a_share_is_taken(value: Any) -> None:
    with dynamlir.config.patch(audit=value):
        assert dynamlir.config.audit == value


@pytest.mark.parametrize("value", ["yes", 2, -0.1, None])
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"audit is .*0\.0 to 1\.0"):
        dynamlir.config.audit = value


def test_the_environment_says_it_too() -> None:
    del dynamlir.config.audit
    for text, value in [("1", True), ("0", False), ("true", True), ("0.5", 0.5)]:
        assert dynamlir.config.read("audit", {"DYNAMLIR_AUDIT": text}) == value
    with pytest.raises(ValueError, match="DYNAMLIR_AUDIT"):
        dynamlir.config.read("audit", {"DYNAMLIR_AUDIT": "often"})
