"""Objects passed to a call are freed when the user drops them, not at the next collection, however a capture ended."""

from __future__ import annotations

import contextlib
import gc
import weakref

import dynamlir
import pytest
import torch
from sampled import one_in_product
from torch import nn

X = torch.ones(2, 4)


def branches(m, x):
    return m(x) if (m(x).sum() > 0) else m(x) + 1


def wrong_shape(m, x):
    return m(x[:, :3])


def raises(m, x):
    m(x)
    raise ValueError("the user's")


def catches(m, x):
    try:
        m(x[:, :3])
    except RuntimeError:
        return m(x)


def sets_state(m, x):
    y = m(x)
    torch.set_grad_enabled(torch.is_grad_enabled())
    m.seen = 1
    return y


def makes_sparse(m, x):
    return m(x).to_sparse().to_dense()


def data_sized(m, x):
    return m(x).nonzero()


FUNCTIONS = {
    "captured": lambda m, x: m(x),
    "contents": lambda m, x: m(x) + m(x).sum().item(),
    "branches": branches,
    "a wrong shape": wrong_shape,
    "raises": raises,
    "catches": catches,
    "writes": sets_state,
    "prints": lambda m, x: (print(end=""), m(x))[1],
    "sparse": makes_sparse,
    "data sized": data_sized,
    "an unknown C function": lambda m, x: m(x) + len(compile("1", "", "eval").co_code),
    "returns the module": lambda m, x: (m, m(x)),
    "returns what cannot be rebuilt": lambda m, x: iter([m(x)]),
    "random state": lambda m, x: (torch.manual_seed(1), m(x))[1],
}


@pytest.mark.parametrize(
    ("name", "backend", "grad"), one_in_product(3, FUNCTIONS, ["dynamlir", "eager"], [False, True])
)
def test_modules_and_tensors_are_freed_without_a_collection(name, backend, grad):
    compiled = dynamlir.compile(FUNCTIONS[name], backend=backend)
    module, x = nn.Linear(4, 4), X.clone()
    references = [weakref.ref(module), weakref.ref(x)]
    gc.collect()
    gc.disable()
    try:
        with torch.set_grad_enabled(grad):
            for _ in range(2):
                with contextlib.suppress(RuntimeError, ValueError):
                    compiled(module, x)
        del module, x
        assert [reference() for reference in references] == [None, None]
    finally:
        gc.enable()


def test_an_entry_goes_with_its_module():
    compiled = dynamlir.compile(lambda m, x: m(x))
    with torch.no_grad():
        for _ in range(20):
            module = nn.Linear(4, 4)
            assert torch.allclose(compiled(module, X), module(X))
            del module
        assert len(compiled._cache) <= 2
