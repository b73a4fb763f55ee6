"""`scripts/bench/run second-order`: its losses are compiled and correct, and wrong ones are detected. Measures no
times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
from suite import contestants, record, second_order


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes the networks tiny."""
    monkeypatch.setattr(second_order, "WIDTH", 8)
    monkeypatch.setattr(second_order, "BATCH", 4)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", second_order.LOSSES)
def test_losses(name: str, whole: bool) -> None:
    line, text = second_order.one(contestants.Field(inductor=False), name, second_order.LOSSES[name], whole, 1, 0.0)
    assert line.right and set(line.times) == {"eager", "dynamlir"} and text.startswith(name)
    assert dynamlir.counters()["graphs"] and not dynamlir.counters()["fallbacks"], dynamlir.explain_last()


def test_a_wrong_gradient_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def enter(field: contestants.Field, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *inputs: function(*inputs) * 1.001

    monkeypatch.setattr(contestants.Field, "enter", enter)
    output = record.Record({}, None)
    second_order.run(output, contestants.Field(inductor=False), "MAML", [1], 0.0)
    assert not output.right


def test_a_contestant_that_raises_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def enter(field: contestants.Field, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*inputs: Any) -> Any:
            raise RuntimeError("no second derivative")

        return call if name == "inductor" else function

    monkeypatch.setattr(contestants.Field, "enter", enter)
    line, _ = second_order.one(contestants.Field(), "MAML", second_order.inner_loop, False, 1, 0.0)
    assert line.right and "inductor" not in line.times and "inductor: no second derivative" in line.notes
    assert set(line.ratios) == {"dynamlir/eager"}
