"""Under deterministic algorithms eager fills new memory with NaN or the largest number, and refuses some operations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from both import check_both
from torch import Tensor


@pytest.fixture
def deterministic() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(before)


def test_new_memory(deterministic: None) -> None:
    def fn(x: Tensor) -> list[Tensor]:
        made = [torch.empty(3), torch.empty_like(x), x.new_empty(2), torch.empty_strided((2, 3), (1, 2))]
        typed = [torch.empty(2, dtype=dtype) for dtype in (torch.int32, torch.uint8, torch.bool, torch.float64)]
        return [*made, *typed, torch.empty(4).add_(1), torch.empty_like(x)[0], torch.empty(2).fill_(3), torch.zeros(2)]

    check_both(fn, torch.ones(2, 3))


def test_without_filling(deterministic: None) -> None:
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        check_both(lambda x: torch.empty_like(x), torch.ones(2), values=False)
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True


def test_refused(deterministic: None) -> None:
    check_both(lambda x, i: x.put(i, x[:1]), torch.ones(3), torch.tensor([0]), expect="thread-state")
