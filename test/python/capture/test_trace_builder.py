"""Checks that `TraceBuilder` verifies its input before it changes anything."""

from __future__ import annotations

from typing import Any

import pytest
from dynamlir import native
from dynamlir.recording import DTYPES, TensorMeta

META = TensorMeta("f32", (2, 3), (3, 1), 0)


def builder() -> Any:
    """A builder with one input, value 7."""
    made = native.module().TraceBuilder("main")
    made.input(7, "x", META, 0)
    return made


def relu(made: Any, operand: int, values: list[int], results: list[TensorMeta], aliases: list[int]) -> None:
    """Adds an operation."""
    made.op("aten.relu.default", [("t", operand)], values, results, aliases, [], None, False, None, None, [])


def test_values_have_the_numbers_that_they_are_given_with() -> None:
    made = builder()
    relu(made, 7, [-3], [META], [-1])
    relu(made, -3, [100], [META], [-1])
    made.output("value", 100, 0, None, True, None, None)
    assert made.text().count("aten.relu.default") == 2
    assert "dynamo.differentiable = array<i64: 0>" in made.text()


def test_a_derivative_says_whose_tangents_it_takes_and_whose_gradients_it_gives() -> None:
    made, vjp = builder(), native.module().TraceBuilder("vjp")
    for value, tangent in ((0, None), (1, None), (2, 0)):
        vjp.input(value, "", META, -1, 0, False, tangent)
    args = [("t", 2), ("t", 1), 0]
    vjp.op("aten.threshold_backward.default", args, [3], [META], [-1], [], None, False, None, None, [])
    vjp.output("value", 3, 0, None, False, None, 0)
    made.op("aten.relu.default", [("t", 7)], [8], [META], [-1], [], None, True, None, vjp, [])
    made.output("value", 8, 0, None, True, None, None)
    text = made.text()
    assert "grad_enabled, vjp = @vjp_0" in text
    assert "{dynamo.tangent = 0 : i64}" in text and "{dynamo.gradient = 0 : i64}" in text


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda made: relu(made, 7, [7], [META], [-1]), "value 7 is given twice"),
        (lambda made: made.input(7, "y", META, 1), "value 7 is given twice"),
        (lambda made: relu(made, 8, [9], [META], [-1]), "value 8 is used before it is given"),
        (lambda made: made.output("value", 8, 0, None, False, None, None), "value 8 is used before it is given"),
        (lambda made: relu(made, 7, [8, 9], [META], [-1]), "1 results, 2 values and 1 aliases"),
        (lambda made: relu(made, 7, [8], [META], []), "1 results, 1 values and 0 aliases"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(add: Any, message: str) -> None:
    made = builder()
    relu(made, 7, [1], [META], [-1])
    before = made.text()
    with pytest.raises(ValueError, match=message):
        add(made)
    assert made.text() == before


def test_element_types_are_the_same_on_both_sides() -> None:
    ours = {name: str(dtype).removeprefix("torch.") for name, dtype in DTYPES.items()}
    assert ours == dict(native.module().element_types())
    for name in DTYPES:
        made = native.module().TraceBuilder("main")
        made.input(1, "x", META._replace(dtype=name), 0)
        made.output("value", 1, 0, None, False, None, None)
        assert f"!dynamo.tensor<2x3x{name}," in made.text()
