"""Shared by the tests of audits: a fixture that audits every hit, and a change behind the guards' back."""

from __future__ import annotations

import ctypes
import types
from collections.abc import Iterator
from typing import Any

import dynamlir
import pytest
import torch

BOX = types.SimpleNamespace()
LOG: list[Any] = []


@pytest.fixture(autouse=True)
def audited() -> Iterator[None]:
    """Audits every hit, and raises what an audit finds."""
    BOX.held, BOX.count = tuple([2, 3]), 0
    LOG.clear()
    with dynamlir.config.patch(audit=True, on_audit="error", on_plain="ignore"):
        yield


def turn(pair: tuple[Any, Any]) -> None:
    """Exchanges the items of a tuple in memory, which no guard expects: a change behind the guards' back."""
    at = id(pair) + tuple.__basicsize__
    both = (ctypes.c_void_p * 2).from_address(at)
    both[0], both[1] = both[1], both[0]


def ones() -> torch.Tensor:
    return torch.ones(3)


def in_the_graph(x: torch.Tensor) -> torch.Tensor:
    return x * BOX.held[0]
