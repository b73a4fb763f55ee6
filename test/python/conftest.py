"""pytest set-up: the native module, or, where DYNAMLIR_FAKE_NATIVE is set, its pure-Python stand-in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python"), str(HERE.parents[1] / "scripts" / "bench")]

FAKE = bool(os.environ.get("DYNAMLIR_FAKE_NATIVE"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "native: needs the real extension module")
    config.addinivalue_line("markers", "gpu: needs a CUDA device; skipped where there is none")
    import registration

    registration.ensure()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if FAKE and item.get_closest_marker("native"):
            item.add_marker(pytest.mark.skip(reason="needs the real extension module"))


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Each test starts with no compiled functions, no counts and eager's default state."""
    import dynamlir
    import torch

    torch._dynamo.reset()
    dynamlir.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
