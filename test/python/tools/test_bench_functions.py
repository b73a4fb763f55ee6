"""The operations that the part `functions` of the benchmarks times: each runs on operands of each layout."""

from __future__ import annotations

import pytest
import torch
from suite import functions, operations


def test_names_are_told_apart() -> None:
    names = [case.name for case in functions.cases("")]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("layout", functions.LAYOUTS)
def test_operands_have_their_layout_and_type(layout: str) -> None:
    operation = next(one for one in operations.all_of_them() if one.name == "add")
    for dtype in functions.DTYPES:
        first, second = functions.Case(operation, layout, dtype, 64).operands()
        assert first.dtype == second.dtype == functions.DTYPES[dtype] and first.shape == second.shape
        assert first.numel() == 64 * 64 or layout == "channels-last"
        assert first.is_contiguous() == (layout == "contiguous") and second.is_contiguous()


def test_every_operation_runs() -> None:
    with torch.no_grad():
        for operation in operations.all_of_them():
            operation.function(*functions.Case(operation, "transposed", "f32", 64).operands())
