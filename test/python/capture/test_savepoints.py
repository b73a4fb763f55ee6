"""Rolling back: everything that a capture has learned since a savepoint is forgotten, and it continues as if that had
never happened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from dynamlir import memo, repeated_layers
from dynamlir.capture import session
from dynamlir.reasons import Fallback
from dynamlir.savepoints import Counts, Savepoint
from test_repeated_layers import Layer, Stack, captured, stack
from test_repeated_spans import Recorded, layer
from torch import Tensor, nn

X = torch.linspace(-1, 1, 12).reshape(3, 4)

Attempt = Callable[[Any, Any, list[Tensor]], None]


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def raises(recorder: Any, made: Any, given: list[Tensor]) -> None:
    raise Fallback("unsupported", "given up")


def writes_and_raises(recorder: Any, made: Any, given: list[Tensor]) -> None:
    recorder.expected = True
    with recorder.faker.mode, recorder:
        given[0].add_(1)
        torch.zeros(7).mul_(given[0].sum())
    recorder.expected = False
    raise Fallback("unsupported", "given up")


def records_one_more(recorder: Any, made: Any, given: list[Tensor]) -> None:
    # The native side notices only at the end of the layer that the operations are not those of the nodes.
    at = max(recorder.templates)
    recorder.record_again(recorder.templates[at], recorder.recording.ops[at].operands, [])


class Shared(nn.Module):
    """Uses another layer's parameter, a dict and a global, and has more than one input of its own."""

    def __init__(self, other: nn.Module) -> None:
        super().__init__()
        self.own, self.other, self.table = nn.Linear(4, 4), other, {"scale": 2.0}

    def forward(self, x: Tensor) -> Tensor:
        names = [name for name in self.table if name.startswith("s")]
        return self.own(x) * self.table[names[0]] + self.other.weight.sum() + X.shape[0]


def shared() -> Stack:
    other = nn.Linear(4, 4)
    return Stack(*(Shared(other) for _ in range(5))).eval()


@pytest.mark.parametrize("attempt", [raises, writes_and_raises, records_one_more])
@pytest.mark.parametrize("model", [stack, shared, lambda: stack(Layer, 12)])
def test_a_layer_that_cannot_be_repeated_is_interpreted(
    model: Callable[[], Stack], attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, attempts = model(), []
    with memo.disabled():
        plain, _ = captured(module, (X,), {})

    def tried(recorder: Any, span: repeated_layers.Span, inputs: Any, given: Any, add: Any) -> Any:
        made = repeated_layers.repeat(recorder, span, inputs, given, add)
        attempts.append(made)
        attempt(recorder, made, given)
        return made

    monkeypatch.setattr(session, "repeat", tried)
    found, repeated = captured(module, (X,), {})
    # Each pattern is tried once: that of a layer, and those of the modules in it.
    assert "graph" in plain and not repeated and 1 <= len(attempts) <= 3
    for name, value in plain.items():
        assert found[name] == value, name


def seen(recorder: Any) -> list[Any]:
    """Everything that a recorder has learned."""
    fakes = [(id(fake), fake._version) for fake in recorder._alive]
    return [
        repr(recorder.recording), dict(recorder._ids), fakes, dict(recorder.templates), dict(recorder.faker._fakes),
        dict(recorder.memo._values), dict(recorder._input_storages), recorder._next, dict(recorder.shown._counts),
    ]  # fmt: skip


def test_a_recording_goes_back() -> None:
    case = Recorded(layer, torch.ones(3, 4), torch.ones(4, 4))
    recorder, faker = case.recorder, case.faker
    with faker.mode, recorder:
        detached = torch.relu(case.out).detach()
    before, savepoint = seen(recorder), Savepoint.of(recorder)
    third = torch.zeros(3, 4)
    with faker.mode, recorder:
        detached.add_(1)
        case.out.detach().add_(1)
        torch.relu(case.out).t().mul_(2)
    case.add(third, "third")
    assert seen(recorder) != before
    assert savepoint.put_back(recorder) and seen(recorder) == before
    with faker.mode, recorder:
        again = torch.relu(case.out)
    other = Recorded(layer, torch.ones(3, 4), torch.ones(4, 4))
    with other.faker.mode, other.recorder:
        torch.relu(other.out).detach()
        torch.relu(other.out)
    assert repr(recorder.recording) == repr(other.recorder.recording)
    assert recorder.number(again) == other.recorder._next - 1


def test_a_tensor_that_became_another_in_place_is_not_put_back() -> None:
    case = Recorded(layer, torch.ones(3, 4), torch.ones(4, 4))
    savepoint = Savepoint.of(case.recorder)
    with case.faker.mode, case.recorder:
        case.out.t_()
    now = seen(case.recorder)
    assert not savepoint.put_back(case.recorder) and seen(case.recorder) == now


def test_counts_go_back() -> None:
    counts = Counts()
    counts.add(1)
    length = len(counts)
    counts.add(1)
    counts.add(2)
    assert (counts.of(1), counts.of(2), 2 in counts) == (2, 1, True)
    counts.cut(length)
    assert (counts.of(1), counts.of(2), 2 in counts, len(counts)) == (1, 0, False, 1)
