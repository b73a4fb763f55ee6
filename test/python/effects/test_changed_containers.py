"""Existing containers that a function changes: the call leaves them as plain Python would."""

from __future__ import annotations

import collections
import json
import operator
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
from worlds import X, alike
from written import Thing, either, entries

CALLS = 8


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    dynamlir.reset()
    with torch.no_grad():
        yield


def told(value: Any) -> Any:
    """A value as plain data: its classes, its order, and its tensors as numbers."""
    if isinstance(value, torch.Tensor):
        return "tensor", value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, [(told(key), told(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        return type(value).__name__, [told(item) for item in value]
    if isinstance(value, Thing):
        return told(vars(value))
    return type(value).__name__, value if isinstance(value, (int, float, str, bool, type(None))) else None


def follow(function: Callable[..., Any], make: Callable[[], Any], calls: int = CALLS) -> int:
    """Returns the number of entries for several calls that change a container; checks each against a plain call."""
    ours, theirs = make(), make()
    compiled = dynamlir.compile(function)
    for at in range(calls):
        x = X + at
        results, raised = [], []
        for call, world in ((compiled, ours), (function, theirs)):
            try:
                results.append(told(call(x, world)))
            except Exception as error:
                raised.append((type(error), str(error)))
        assert len(results) in (0, 2) and results[1:] == results[:1] and raised[1:] == raised[:1], (results, raised)
        assert told(ours) == told(theirs), at
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
    return entries(compiled)


# -- changes that read nothing: one entry, regardless of the container's content


def test_a_log_that_grows() -> None:
    def function(x: torch.Tensor, log: list[Any]) -> torch.Tensor:
        log.append(x.mean())
        log += [x, "text"]
        log.extend((1, 2.5))
        return x + 1

    assert follow(function, list) == 1


def test_a_dict_by_its_keys() -> None:
    def function(x: torch.Tensor, table: dict[Any, Any]) -> Any:
        table["x"] = x * 2
        table[3] = table["x"] + 1
        table["new"] = [table[3]]
        table.update({"more": 1, "x": x})
        before = table.pop("gone", None)
        table["gone"] = x
        del table[3]
        return (
            table["x"] is x,
            "new" in table,
            3 in table,
            before is None,
            table.get("more"),
            table.setdefault("more", 7),
        )

    assert follow(function, lambda: {"kept": 1, 3: "three"}) <= 2


def test_a_counter_in_a_dict() -> None:
    def function(x: torch.Tensor, table: dict[str, Any]) -> torch.Tensor:
        table["steps"] += 1
        table["total"] = table["total"] + table["steps"]
        return x * 2

    assert follow(function, lambda: {"steps": 0, "total": 10}) == 1


def test_a_counter_in_a_list() -> None:
    def function(x: torch.Tensor, counts: list[int]) -> torch.Tensor:
        counts[1] += 2
        counts.append(counts[1] * 3)
        return x

    assert follow(function, lambda: [0, 5]) == 1


def test_a_cache_by_index() -> None:
    """The layers' keys, as transformers' caches keep them."""

    def function(x: torch.Tensor, cache: list[torch.Tensor]) -> torch.Tensor:
        for layer in range(2):
            cache[layer] = torch.cat([cache[layer][1:], x[:1]])
        return cache[0] + cache[1]

    assert follow(function, lambda: [torch.zeros(3), torch.ones(3)]) == 1


def test_sets_and_deques() -> None:
    def function(x: torch.Tensor, world: Thing) -> torch.Tensor:
        world.seen.add("a")
        world.seen.update(["b", 3])
        world.seen.discard("z")
        world.last.append(x)
        world.last.appendleft(x + 1)
        world.last.extend([1, 2])
        return x

    assert follow(function, lambda: Thing(seen={"q"}, last=collections.deque(maxlen=5))) == 1


def test_a_set_that_takes_in_what_an_iterator_gives() -> None:
    def function(x: torch.Tensor, seen: set[int]) -> torch.Tensor:
        seen.update(map(int, ("1", "2", "1")))
        return x

    assert follow(function, lambda: {5}) == 1

    def looks(x: torch.Tensor, seen: set[int]) -> torch.Tensor:
        seen.update(n for n in (1, 2, 3, 7) if n == 1 or n - 1 in seen)
        return x + len(seen)

    assert follow(looks, set, 3) <= 3


def test_a_dict_with_defaults() -> None:
    def function(x: torch.Tensor, table: Any) -> torch.Tensor:
        table["log"].append(x)
        table["count"].append(len(table["count"]))
        return x

    assert follow(function, lambda: collections.defaultdict(list), 3) <= 3

    def counts(x: torch.Tensor, table: Any) -> torch.Tensor:
        table["n"] += 1
        return x

    assert follow(counts, lambda: collections.defaultdict(int)) <= 3


def test_values_keep_their_identity() -> None:
    def function(x: torch.Tensor, log: list[Any]) -> Any:
        made = [x * 2]
        log.append(made)
        log.append(made)
        log.append(log)
        made.append(x)
        return made

    compiled = dynamlir.compile(function)
    for call in (compiled, compiled, function):
        log: list[Any] = [0]
        made = call(X, log)
        assert log[1] is log[2] is made and log[3] is log and made[1] is X and len(log) == 4
    assert not dynamlir.counters()["fallbacks"]


# -- changes that depend on the content, and reads after changes


def test_a_window() -> None:
    def function(x: torch.Tensor, losses: list[Any]) -> Any:
        losses.append(x.sum())
        if len(losses) > 3:
            losses.pop(0)
        return sum(losses), len(losses)

    assert follow(function, list) <= 4


def test_methods_of_lists() -> None:
    def function(x: torch.Tensor, world: Thing) -> Any:
        numbers, names = world.numbers, world.names
        numbers.sort(key=lambda value: -value)
        numbers.insert(1, 7)
        numbers.reverse()
        numbers.remove(3)
        numbers[0:1] = [9, 8]
        del numbers[-1]
        numbers *= 2
        names.sort()
        last = names.pop()
        names.insert(0, last)
        names[-1] = "end"
        names.clear()
        names.append("again")
        return (
            numbers.index(9),
            numbers.count(8),
            [number + 1 for number in numbers],
            [*names, last],
            sorted(numbers)[:2],
            x,
        )

    assert follow(function, lambda: Thing(numbers=[3, 1, 2, 3], names=["b", "a", "c"]), 1) == 1


def test_methods_of_dicts() -> None:
    def function(x: torch.Tensor, world: Thing) -> Any:
        table, ordered = world.table, world.ordered
        table.update(a=1, b=x)
        last = table.popitem()
        table |= {"c": 2}
        ordered.move_to_end("first")
        ordered["third"] = x
        first = next(iter(ordered))
        pairs = [(key, value) for key, value in table.items()]
        return last[0], first, list(table), len(table), pairs, {**table}, bool(table), dict(ordered).keys() & {"first"}

    make = lambda: Thing(table={"z": 0}, ordered=collections.OrderedDict(first=1, second=2))  # noqa: E731
    assert follow(function, make, 1) == 1


def test_iterating_sees_what_is_changed_meanwhile() -> None:
    def function(x: torch.Tensor, queue: list[int]) -> Any:
        seen = []
        for item in queue:
            seen.append(item)
            if item < 4:
                queue.append(item + 2)
        return x * len(seen), seen

    assert follow(function, lambda: [1, 2], 1) == 1


@pytest.mark.whole
def test_a_dict_that_changes_its_size_meanwhile() -> None:
    def function(x: torch.Tensor, table: dict[int, int]) -> Any:
        for key in table:
            table[key + 10] = 1
        return x

    def world(compile_: Any) -> Any:
        table = {1: 1}
        try:
            compile_(function)(X, table)
        except RuntimeError as error:
            return str(error), table
        return table

    alike(world, "raised")


def test_lists_within_lists() -> None:
    def function(x: torch.Tensor, world: Thing) -> Any:
        inner = world.outer[0]
        inner.append(5)
        pair = (inner, x)
        return len(world.outer[0]), pair[0][-1], [len(part) for part in world.outer], sum(world.outer[0])

    assert follow(function, lambda: Thing(outer=[[1], [2, 3]]), 1) == 1


def test_missing_keys_and_empty_lists_raise_as_ever() -> None:
    def function(x: torch.Tensor, world: Thing) -> Any:
        told = []
        for action in (
            lambda: world.table.pop("no"),
            lambda: world.table.__delitem__("no"),
            world.empty.pop,
            lambda: world.empty.remove(1),
        ):
            try:
                action()
            except (KeyError, IndexError, ValueError) as error:
                told.append(str(error))
        world.table["n"] = len(told)
        return told, x

    assert follow(function, lambda: Thing(table={"a": 1}, empty=[]), 1) == 1


def test_what_is_stepped_may_look_at_the_container() -> None:
    def function(x: torch.Tensor, world: Thing) -> Any:
        def generate() -> Iterator[int]:
            yield 1
            raise ValueError(len(world.log))

        world.log.extend(len(world.log) for _ in range(3))
        try:
            world.log.extend(generate())
        except ValueError as error:
            return x + 1, str(error)
        return x

    assert follow(function, lambda: Thing(log=[7]), 1) == 1


def test_a_key_that_looks_at_its_list() -> None:
    def function(x: torch.Tensor, numbers: list[int]) -> Any:
        seen: list[int] = []
        numbers.sort(key=lambda value: (seen.append(len(numbers)), -value)[1])
        return x, seen

    assert follow(function, lambda: [1, 3, 2], 1) == 1


def test_slices_of_own_lists_are_what_the_changed_list_holds() -> None:
    def function(x: torch.Tensor, world: Thing) -> Any:
        own = [1, 2]
        own[:1] = world.log
        world.log.append(5)
        world.other[:] = world.log
        return x, own

    compiled = dynamlir.compile(function)
    for log in ([1], [4], [4, 6]):
        ours, theirs = Thing(log=[*log], other=[2]), Thing(log=[*log], other=[2])
        assert told((compiled(X, ours), ours)) == told((function(X, theirs), theirs))
    assert not dynamlir.counters()["fallbacks"]


@pytest.mark.parametrize(
    "look",
    [
        lambda log, own: f"{[log]}",
        lambda log, own: "%s" % {"a": log},  # noqa: UP031
        lambda log, own: [1, 2, 4] in [log],
        lambda log, own: log in [own, [1, 2, 4]],
        lambda log, own: [1, 2, 4] in (part for part in [log, own]),
        lambda log, own: ("a", [1, 2, 4]) in {"a": log}.items(),
        lambda log, own: [[1, 2, 4], own].remove(log),
        lambda log, own: list(filter(None, [log, own])),
        lambda log, own: json.dumps({"a": log}),
        lambda log, own: max([own, log], key=len) is log,
        lambda log, own: [log] == [[1, 2, 4]],
        lambda log, own: list(map(len, [log])),
        lambda log, own: [*filter(None, [log])],
        lambda log, own: (own.append(log), own == [0, [1, 2, 4]]),
        lambda log, own: sorted([log, own]),
    ],
)
def test_looks_at_what_holds_a_changed_list(look: Callable[..., Any]) -> None:
    """The result is right, captured or not."""

    def world(compile_: Any) -> Any:
        def function(x: torch.Tensor, log: list[int]) -> Any:
            log.append(4)
            return x, look(log, [0])

        log = [1, 2]
        return compile_(function)(X, log), log

    either(world)


def test_what_was_put_into_a_list_is_guarded_where_c_code_looks_at_it() -> None:
    def function(x: torch.Tensor, log: list[Any], other: list[int]) -> Any:
        log.append(other)
        same = log == [[1]]
        other.append(5)
        return x, same, log == [[1, 5]]

    def world(compile_: Any) -> Any:
        compiled = compile_(function)
        return [compiled(X, [], [number])[1:] for number in (1, 2, 1)]

    either(world)


def test_defaults_that_c_code_puts_in_are_not_lost() -> None:
    def world(compile_: Any) -> Any:
        def function(x: torch.Tensor, table: Any) -> Any:
            table["a"] = 1
            table[(1, "k")].append(x)
            return x, operator.itemgetter("b")(table), "%(c)s" % table  # noqa: UP031

        table: Any = collections.defaultdict(list)
        compiled = compile_(function)
        return [compiled(X, table) for _ in range(3)], table

    either(world)


@pytest.mark.whole
def test_a_lazy_iterator_over_what_is_changed_before_it_is_stepped() -> None:
    def world(compile_: Any) -> Any:
        def function(x: torch.Tensor, log: list[int]) -> Any:
            lazy = filter(None, [log])
            log.append(1)
            return x, [*lazy]

        return compile_(function)(X, []), compile_(lambda x, log: taken(x, *spread(log)))(X, [])

    def spread(log: list[int]) -> Any:
        lazy = filter(None, [log])
        log.append(2)
        return lazy

    def taken(x: torch.Tensor, *rest: Any) -> Any:
        return x, rest

    either(world)


def test_keys_that_are_nan_run_plain() -> None:
    nan = float("nan")

    def world(compile_: Any) -> Any:
        def function(x: torch.Tensor, table: dict[float, int], key: float) -> Any:
            table[key] = 1
            return x, key in table, table.get(key)

        compiled = compile_(function)
        return [compiled(X, {nan: 3}, key)[1:] for key in (nan, float("nan"))]

    alike(world, "unguardable", "side-effect")


def test_what_is_put_under_nan_is_put_by_python() -> None:
    def world(compile_: Any) -> Any:
        def function(x: torch.Tensor, table: dict[float, int], key: float) -> Any:
            table[key] = 1
            return x + 1

        compiled, seen = compile_(function), []
        for key in (float("nan"), float("nan")):
            table = {float("nan"): 3}
            compiled(X, table, key)
            seen.append([each is key for each in table])
        return seen

    alike(world, "unguardable", "side-effect", "data-dependent")


def test_a_caller_may_be_iterating_over_the_dict() -> None:
    def function(x: torch.Tensor, table: dict[str, int], key: str) -> torch.Tensor:
        count = len(list(table.items()))
        table[key] = count
        return x + 1

    compiled = dynamlir.compile(function)
    for make in (dict, collections.OrderedDict):
        table = make(a=1, b=2, c=3)
        del table["a"]
        seen = []
        for key in table:
            seen.append(key)
            compiled(X, table, key)
        assert seen == ["b", "c"] and table == {"b": 2, "c": 2}
    assert not dynamlir.counters()["fallbacks"]


# -- entries as text, and reports


def test_an_entry_as_python() -> None:
    def function(x: torch.Tensor, log: list[Any], table: dict[str, Any]) -> torch.Tensor:
        log.append(x * 2)
        table["x"] = log
        return x + 1

    compiled = dynamlir.compile(function)
    compiled(X, [], {})
    entry = compiled._cache[0]
    text = dynamlir.decompile(entry.code)
    assert "list.append(log, " in text and "dict.__setitem__(table, 'x', log)" in text
    log: list[Any] = []
    table: dict[str, Any] = {}
    assert torch.equal(entry.function(X, log, table), X + 1)
    assert torch.equal(log[0], X * 2) and table["x"] is log


def test_what_is_done_afterwards_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor, log: list[Any], thing: Any) -> torch.Tensor:
        y = x * 2
        log.append(y)
        thing.steps += 1
        thing.table["x"] = [y, log]
        del thing.old
        return x + 1

    def world() -> tuple[Any, ...]:
        return X, [], Thing(steps=0, table={}, old=1)

    explanation = dynamlir.explain(function)(*world())
    first = function.__code__.co_firstlineno
    assert [(statement, traceback[0][1] - first) for statement, traceback in explanation.effects] == [
        ("L['log'].append(mul_0)", 2),
        ("L['thing'].steps = (L['thing'].steps + 1)", 3),
        ("L['thing'].table['x'] = a list", 4),
        ("del L['thing'].old", 5),
    ]
    assert "after the graph: L['log'].append(mul_0) at " in str(explanation)
    with caplog.at_level("INFO", logger="dynamlir.side_effects"):
        dynamlir.compile(function)(*world())
    assert sum("L['log'].append(mul_0)" in record.getMessage() for record in caplog.records) == 1
