"""Decisions in reports, and reports as JSON: round trip, the set of keys, other versions."""

from __future__ import annotations

import json
import threading
import unittest.mock
from collections.abc import Iterator
from typing import Any

import dynamlir
import pytest
import torch
from dynamlir import reports
from dynamlir.capture import api
from dynamlir.reports import CompileReport, decisions
from dynamlir.reports.decisions import Decision, Site
from dynamlir.reports.plain_data import plain
from torch import Tensor


@pytest.fixture(autouse=True)
def counted_anew() -> Iterator[None]:
    dynamlir.reset()
    yield


def last() -> CompileReport:
    made = dynamlir.last_compile()
    assert made is not None
    return made


def decided(made: CompileReport, by: str, what: str) -> list[Decision]:
    return [one for one in made.decided_by(by) if what in one.site.what]


def step(x: Tensor, w: Tensor) -> Tensor:
    y = (x @ w).exp() + 1
    return (y.softmax(-1) * torch.linalg.det(x[:5, :5])).sum()


FIRST = step.__code__.co_firstlineno


def trained() -> CompileReport:
    x, w = torch.randn(5, 7, requires_grad=True), torch.randn(7, 6, requires_grad=True)
    dynamlir.compile(step, options={"no_cache": True})(x, w).backward()
    return last()


def test_passes_say_what_they_decided_and_why() -> None:
    made = trained()
    (product,) = decided(made, "dynamo-select", "aten.mm")
    assert product.choice == "library" and product.alternatives == ("code",) and product.reason
    assert product.site.location.startswith(f"{__file__}:{FIRST + 1}")
    fusions = made.decided_by("dynamo-fuse")
    (fused, *_) = [one for one in fusions if one.choice == "one kernel"]
    assert fused.numbers["saved_bytes"] > 0 and fused.alternatives == ("two kernels",)
    assert all(one.reason for one in fusions)
    saved = [one for one in made.decided_by("dynamo-partition") if one.choice == "save"]
    assert len(saved) > 0 and all(one.numbers["bytes"] > 0 for one in saved)
    (left, *_) = decided(made, "dynamo-decompose", "linalg_det")
    assert left.choice == "library" and left.reason == "it has no lowering"
    (route, *_) = decided(made, "extern", "linalg_det")
    assert route.choice == made.externs[[one.schema for one in made.externs].index(route.site.what)].route
    # The kernels of the gradients are those of the whole report.
    assert made.gradients is not None and not made.gradients.decided_by("dynamo-fuse")


def test_decisions_about_equal_layers_are_one() -> None:
    def layers(x: Tensor, count: int) -> Tensor:
        for _ in range(count):
            x = (x.softmax(-1) + 1).cumsum(-1)
        return x

    made = []
    for count in (2, 6):
        dynamlir.compile(layers)(torch.randn(4, 8), count)
        made.append(last().decided_by("dynamo-fuse"))
    few, many = made
    assert len(many) <= len(few) + 2 and max(one.count for one in many) > max(one.count for one in few)


def test_the_order_does_not_depend_on_threads() -> None:
    def several(x: Tensor) -> tuple[Tensor, ...]:
        return x.cumsum(0), x.sort(0)[0].exp(), x.softmax(1), x.logcumsumexp(1), x.T.cumprod(1), x.sum(0)

    def kept(threads: int) -> list[Decision]:
        dynamlir.compile(several, options={"threads": threads, "no_cache": True})(torch.randn(40, 50))
        return list(last().decisions)

    assert kept(1) == kept(4)


def test_the_capture_says_why_there_are_several_graphs() -> None:
    def breaks(x: Tensor) -> Tensor:
        y = x.exp() + 1
        return y + 1 if y.sum() > 0 else y - 1

    dynamlir.compile(breaks)(torch.ones(3))
    first = dynamlir.compiles()[0]
    again, why = first.decided_by("capture")
    assert (again.choice, again.reason_id, again.numbers) == (
        "another attempt",
        "data-dependent-branch",
        {"attempt": 2},
    )
    assert (why.choice, why.reason_id) == ("several graphs", "data-dependent-branch")
    line = breaks.__code__.co_firstlineno + 2
    assert why.site.what.endswith("breaks") and why.site.location == f"{__file__}:{line}:25"


def test_guards_say_why_a_call_is_compiled_again() -> None:
    def scaled(x: Tensor, by: str) -> Tensor:
        return x * len(by)

    compiled = dynamlir.compile(scaled)
    compiled(torch.ones(3), "a")
    assert not last().decided_by("guards")
    compiled(torch.ones(3), "bb")
    (why,) = last().decided_by("guards")
    assert why.choice == "compile again" and "by" in why.reason
    compiled(torch.ones(5), "bb")
    (sizes,) = [one for one in last().decided_by("capture") if one.choice == "sizes as symbols"]
    assert "x" in sizes.reason


def test_a_plain_run_says_why() -> None:
    dynamlir.compile(lambda x: x.view(torch.int32))(torch.ones(3))
    made = last()
    (why,) = made.decided_by("capture")
    assert made.eager is not None and (why.choice, why.reason_id) == ("plain Python", made.eager.reason)


# -- as many as a report has room for


def numbered(pass_: str, count: int) -> list[Decision]:
    return [Decision(pass_, Site(f"%{number}"), "one", ("two",)) for number in range(count)]


def test_a_report_has_room_for_some_decisions_of_each_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "MOST", 20)
    made = [*numbered("capture", 3), *numbered("dynamo-fuse", 500), *numbered("dynamo-schedule", 40)]
    with decisions.collecting():
        decisions.pending().extend(made[:3])
        reports.add(reports.from_native({"graph": "g", "decisions": [plain(one) for one in made[3:]]}, {}))
    kept = last()
    # What remains of each pass are its first decisions, in order.
    assert [one.site.what for one in kept.decided_by("capture")] == ["%0", "%1", "%2"]
    fused = kept.decided_by("dynamo-fuse")
    assert [one.site.what for one in fused] == [f"%{number}" for number in range(len(fused))]
    counts = {name: len(kept.decided_by(name)) for name in ("capture", "dynamo-fuse", "dynamo-schedule")}
    assert counts == {"capture": 3, "dynamo-fuse": 8, "dynamo-schedule": 8}
    assert kept.left_out == {"dynamo-fuse": 492, "dynamo-schedule": 32}
    assert "decisions that are not in this report: dynamo-fuse 492, dynamo-schedule 32" in str(kept)
    assert json.loads(kept.to_json())["left_out"] == kept.left_out
    assert dynamlir.counters()["kernels_unscheduled"] == 40


def test_no_decision_is_left_out_without_need() -> None:
    made = [*numbered("capture", 1), *numbered("dynamo-fuse", decisions.MOST - 1)]
    assert decisions.bounded(made, {"guards": 2}) == (tuple(made), {"guards": 2})
    made = numbered("dynamo-fuse", decisions.MOST + 1)
    assert decisions.bounded(made, {}) == (tuple(made[:-1]), {"dynamo-fuse": 1})


def test_decisions_that_no_report_takes_are_counted() -> None:
    pending = decisions.Pending()
    pending.extend(numbered("guards", 300))
    pending.extend(numbered("guards", 300)[-1:])
    taken, left_out = pending.take()
    assert left_out == {"guards": 300 - len(taken)} and taken[0].site.what == f"%{300 - len(taken)}"
    assert taken[-1].count == 2 and pending.take() == ((), {})


def test_a_report_has_the_decisions_of_its_thread() -> None:
    """While one thread compiles a function, another one calls it, and no entry matches that call either."""

    def scaled(x: Tensor, by: str) -> Tensor:
        return x * len(by)

    compiled = dynamlir.compile(scaled)
    compiled(torch.ones(3), "a")
    (compiler,) = [one for one in api._compilers if one.function.__code__ is scaled.__code__]
    threads = []
    original = reports.add

    def add(made: CompileReport) -> None:
        if not threads:
            elsewhere = threading.Thread(target=compiler.may_compile, args=(True, 1, 1, ["a miss of that thread"]))
            threads.append(elsewhere)
            elsewhere.start()
            elsewhere.join()
        original(made)

    with unittest.mock.patch.object(reports, "add", add):
        compiled(torch.ones(3), "bb")
    assert threads
    (why,) = last().decided_by("guards")
    assert "by" in why.reason


# -- as JSON


def some_reports() -> list[CompileReport]:
    """Reports that have something in each field."""
    made = [trained()]
    dynamlir.compile(lambda x: x.view(torch.int32))(torch.ones(3))
    products = Decision("max-autotune", reports.decisions.Site("aten.mm"), "library", ("dots",), "measured")
    return [*made, last(), CompileReport("g", decisions=(products,))]


def test_a_report_is_read_as_it_was_written() -> None:
    for made in some_reports():
        again = CompileReport.from_json(made.to_json())
        assert again == made and again.to_json() == made.to_json()
        assert str(again) == str(made) and again.products == made.products


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"schema": reports.SCHEMA + 1},
            f"a report of schema {reports.SCHEMA + 1} cannot be read: .* reads schema {reports.SCHEMA}",
        ),
        ({"schema": None}, f"without a schema cannot be read: this version of dynamlir reads schema {reports.SCHEMA}"),
        ({"schema": True}, "of schema True cannot be read"),
        ({"eager": {"reason": "nope", "message": "", "location": []}}, "has no reason 'nope'"),
        ({"stages": {"emit": float("nan")}}, "NaN is not a number of JSON's"),
        ({"launched": [{"name": "k"}]}, "Kernel lacks the field 'launches'"),
        ({"lanes": 1}, "CompileReport has no field 'lanes'"),
        ({"kernels": "three"}, "expected int, found 'three'"),
    ],
)
def test_another_form_is_an_error(change: dict[str, Any], message: str) -> None:
    value = {**json.loads(CompileReport("g").to_json()), **change}
    with pytest.raises(ValueError, match=message):
        CompileReport.from_json(json.dumps(value))


KEYS = {
    2: {
        "": "schema graph ops_recorded ops_generated ops_extern kernels externs workspace_bytes live_bytes "
        "stages passes threads eager recorded mode launched launches kernels_reused saved recomputed nodes gradients "
        "decisions left_out",
        "decisions": "pass site choice alternatives reason reason_id numbers count",
        "decisions.site": "what location",
        "eager": "reason message location called_from",
        "externs": "schema route location count",
        "launched": "name launches bytes lines",
    }
}
"""The keys of each version, by the place in the report: with other keys, the version is another one."""


def keys(value: Any, place: str, found: dict[str, str]) -> dict[str, str]:
    if isinstance(value, list):
        for entry in value:
            keys(entry, place, found)
    elif isinstance(value, dict) and place not in ("stages", "passes", "recorded", "left_out", "decisions.numbers"):
        assert found.setdefault(place, " ".join(value)) == " ".join(value)
        for name, entry in value.items():
            keys(entry, f"{place}.{name}".lstrip("."), found)
    return found


def test_a_version_is_a_set_of_keys() -> None:
    found: dict[str, str] = {}
    for made in some_reports():
        value = json.loads(made.to_json())
        gradients = value.pop("gradients") or {}
        keys({**value, "gradients": None}, "", found)
        assert not gradients or {"schema", *gradients} == set(KEYS[reports.SCHEMA][""].split())
    assert {place: set(names.split()) for place, names in found.items()} == {
        place: set(names.split()) for place, names in KEYS[reports.SCHEMA].items()
    }
