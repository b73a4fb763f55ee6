"""Real models through `dynamlir.compile`: one graph each, eager's results, a hit on the second call.

The networks are small, but the library code around them is the real code.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import dynamlir
import pytest
import small_networks
import torch


def made(name: str) -> small_networks.Made:
    """A network of the zoo, for inference; skips where its library is missing."""
    try:
        module, inputs = small_networks.MODELS[name]()
    except ModuleNotFoundError as missing:
        pytest.skip(str(missing))
    return module.eval(), inputs


@pytest.fixture(autouse=True)
def inference_on_one_thread() -> Iterator[None]:
    """Networks this small gain nothing from threads, and lose time where the cores are busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)


def assert_same(seen: Any, expected: Any) -> None:
    """Checks that both have equal types and structure at every level, key-value caches included; tensors are close."""
    assert type(seen) is type(expected)
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(seen, expected, rtol=1e-3, atol=1e-4)
    elif isinstance(expected, dict):
        assert list(seen) == list(expected)
        assert_same(list(seen.values()), list(expected.values()))
    elif isinstance(expected, (list, tuple)):
        assert len(seen) == len(expected)
        for left, right in zip(seen, expected):
            assert_same(left, right)
    elif hasattr(expected, "__dict__") and not isinstance(expected, type):
        assert_same(vars(seen), vars(expected))
    else:
        assert seen == expected


@pytest.mark.parametrize("name", small_networks.MODELS)
def test_a_model_is_one_graph(name: str) -> None:
    module, inputs = made(name)
    before = copy.deepcopy(module.state_dict())
    compiled = dynamlir.compile(module, fullgraph=True)
    other = {name: value.flip(0).clone() for name, value in inputs.items()}
    for given in (inputs, inputs, other):
        assert_same(compiled(**given), module(**given))
        assert len(compiled._cache) == 1
    assert [report.eager for report in dynamlir.compiles()] == [None] and not dynamlir.fallbacks()
    assert_same(module.state_dict(), before)


@pytest.mark.parametrize("name", small_networks.MODELS)
def test_inputs_of_another_shape_are_another_graph(name: str) -> None:
    module, inputs = made(name)
    compiled = dynamlir.compile(module, backend="eager", fullgraph=True)
    fewer = {name: value[:1].clone() for name, value in inputs.items()}
    for given, entries in ((inputs, 1), (fewer, 2), (inputs, 2), (fewer, 2)):
        assert_same(compiled(**given), module(**given))
        assert len(compiled._cache) == entries
