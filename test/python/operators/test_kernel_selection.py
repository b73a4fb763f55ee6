"""Settings that select torch's kernels, set and restored by a function: nested, in pieces, and left set. Results and
settings are eager's.
"""

from __future__ import annotations

import dynamlir
import pytest
import torch
from dynamlir.kernel_settings import CHOICES
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

Q = torch.randn(1, 2, 3, 4)
ORDERED = [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]


def settings():
    return [get() for get, _ in CHOICES]


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()
    before = settings()
    with torch.no_grad():
        yield
    now = settings()
    for (_, put), value in zip(CHOICES, before, strict=True):
        put(value)
    assert now == before


def attend(q):
    return scaled_dot_product_attention(q, q, q)


def one_kernel(q):
    with sdpa_kernel(SDPBackend.MATH):
        return attend(q).relu()


def nested(q):
    with sdpa_kernel(ORDERED, set_priority=True):
        first = attend(q)
        with sdpa_kernel(SDPBackend.MATH):
            second = attend(q + 1)
        third = attend(q + 2) if torch.backends.cuda.flash_sdp_enabled() else q
    return first + second + third


def broken(q):
    with sdpa_kernel(SDPBackend.MATH):
        y = attend(q)
        print(end="")
        return y * (1 if torch.backends.cuda.flash_sdp_enabled() else 2)


@pytest.mark.parametrize("function", [one_kernel, nested])
@pytest.mark.parametrize("backend", ["dynamlir", "eager"])
def test_it_is_one_graph(function, backend):
    compiled = dynamlir.compile(function, fullgraph=True, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(compiled(Q), function(Q))
    assert not dynamlir.fallbacks()
    assert dynamlir.explain(compiled)(Q).graph_count == 1


def test_what_was_set_around_the_call_is_guarded():
    def asks(q):
        before = torch.backends.cuda.math_sdp_enabled()
        with sdpa_kernel(SDPBackend.MATH):
            return q * (2 if before else 3) + torch.backends.cuda.math_sdp_enabled()

    compiled = dynamlir.compile(asks, fullgraph=True)
    for around in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH):
        with sdpa_kernel(around):
            assert torch.equal(compiled(Q), asks(Q))


def test_a_graph_that_breaks_within():
    compiled = dynamlir.compile(broken)
    for _ in range(2):
        torch.testing.assert_close(compiled(Q), broken(Q))


def test_what_is_left_set_is_set_by_python():
    def leaves(q):
        y = q + 1
        torch._C._set_sdp_use_math(False)
        return y * (3 if torch.backends.cuda.math_sdp_enabled() else 2)

    compiled = dynamlir.compile(leaves)
    for _ in range(2):
        torch._C._set_sdp_use_math(True)
        assert torch.equal(compiled(Q), (Q + 1) * 2)
        assert not torch._C._get_math_sdp_enabled()
    torch._C._set_sdp_use_math(True)


def test_an_error_within_leaves_nothing_set():
    def fails(q):
        with sdpa_kernel(SDPBackend.MATH):
            return attend(q) @ q[0, 0, :, 0]

    with pytest.raises(RuntimeError):
        dynamlir.compile(fails)(Q)


def test_a_type_of_autocast_that_is_set_within_is_asked_of_what_was_before():
    def casts(x):
        with torch.autocast("cpu", torch.float16):
            y = x @ x
            with torch.autocast("cpu", torch.bfloat16):
                z = x @ x
        return y.float() + z.float()

    x = torch.randn(4, 4)
    compiled = dynamlir.compile(casts, fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), casts(x))
    assert len(compiled._cache) == 1


def of_a_module(q):
    return attention(q, q, q, need_weights=False)[0] + 1


attention = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval()


@pytest.mark.parametrize("function", [attend, of_a_module])
def test_what_is_set_around_a_call_is_noticed(function):
    q = Q[0]
    compiled = dynamlir.compile(function, fullgraph=True)
    switch, kernels = torch.backends.cuda.enable_flash_sdp, [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]
    compiled(q)
    entries = len(compiled._cache)
    switch(False)
    torch.testing.assert_close(compiled(q), function(q))
    assert len(compiled._cache) == entries + 1
    switch(True)
    with sdpa_kernel(kernels):
        torch.testing.assert_close(compiled(q), function(q))
        assert len(compiled._cache) == entries + 1
    with sdpa_kernel(kernels[1:]):
        torch.testing.assert_close(compiled(q), function(q))
    assert len(compiled._cache) == entries + 2
    torch.testing.assert_close(compiled(q), function(q))
    assert len(compiled._cache) == entries + 2


def test_what_computes_no_attention_does_not_look():
    def function(q):
        return q.relu() @ q.mT

    compiled = dynamlir.compile(function, fullgraph=True)
    compiled(Q)
    with sdpa_kernel(SDPBackend.MATH):
        compiled(Q)
    assert len(compiled._cache) == 1
