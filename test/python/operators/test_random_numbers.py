"""Random numbers of compiled graphs: functions of keys that are drawn from torch's generator at each call.

They are not eager's numbers, so the tests compare distributions (by Kolmogorov and Smirnov's test, with fixed seeds and
bounds that one in ten thousand seeds would break), and what a program may rely on: seeds, states, gradients of the same
numbers.

`test_random_layouts` and all comparisons with eager use ``eager_random``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import dynamlir
import numpy as np
import philox
import pytest
import torch
from both import DOORS
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

F = torch.nn.functional
N = 100_000
BOTH = pytest.mark.parametrize("door", DOORS)


@pytest.fixture(autouse=True)
def fresh() -> None:
    dynamlir.reset()
    torch._dynamo.reset()
    torch.manual_seed(20)


def compiled(door: str, fn: Any) -> Any:
    made = DOORS[door](fn)

    def call(*args: Any) -> Any:
        out = made(*args)
        assert not dynamlir.counters()["fallbacks"], dynamlir.counters()["fallbacks"]
        return out

    return call


def externs() -> set[str]:
    """The extern calls of the latest graph."""
    return {call.schema for call in dynamlir.last_compile().externs}


def phi(x: Any) -> Any:
    return np.array([math.erf(value / math.sqrt(2)) for value in np.atleast_1d(x)]) / 2 + 0.5


def distance(sample: Tensor, cdf: Callable[[Any], Any]) -> float:
    """Kolmogorov's distance, times the root of the number of samples."""
    x = np.sort(sample.double().flatten().numpy())
    expected, steps = cdf(x), np.arange(len(x) + 1) / len(x)
    return float(max((steps[1:] - expected).max(), (expected - steps[:-1]).max()) * math.sqrt(len(x)))


CONTINUOUS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Any], Any]]] = {
    "rand": (lambda x: torch.rand(N), lambda x: x),
    "rand, double": (lambda x: torch.rand(N, dtype=torch.float64), lambda x: x),
    "rand_like": (torch.rand_like, lambda x: x),
    "uniform_": (lambda x: x.clone().uniform_(-2, 6), lambda x: (x + 2) / 8),
    "randn": (lambda x: torch.randn(N), phi),
    "randn, double": (lambda x: torch.randn(N, dtype=torch.float64), phi),
    "randn_like": (torch.randn_like, phi),
    "normal_": (lambda x: torch.empty_like(x).normal_(3, 2), lambda x: phi((x - 3) / 2)),
    "normal of a mean": (lambda x: torch.normal(x, 2.0), lambda x: phi(x / 2)),
    "normal of a spread": (lambda x: torch.normal(1.0, x + 2), lambda x: phi((x - 1) / 2)),
    "normal of both": (lambda x: torch.normal(x - 1, x + 2), lambda x: phi((x + 1) / 2)),
    "normal of numbers": (lambda x: torch.normal(-1.0, 0.5, (N,)), lambda x: phi((x + 1) / 0.5)),
    "exponential_": (lambda x: x.clone().exponential_(2.0), lambda x: 1 - np.exp(-2 * x)),
    "cauchy_": (lambda x: x.clone().cauchy_(1, 3), lambda x: np.arctan((x - 1) / 3) / np.pi + 0.5),
    "log_normal_": (lambda x: x.clone().log_normal_(0.5, 0.7), lambda x: phi((np.log(x) - 0.5) / 0.7)),
    "rrelu": (lambda x: F.rrelu(x - 1, 0.2, 0.6, training=True), lambda x: (x + 0.6) / 0.4),
}


@BOTH
@pytest.mark.parametrize("name", CONTINUOUS)
def test_distribution(name: str, door: str) -> None:
    fn, cdf = CONTINUOUS[name]
    with torch.no_grad():
        sample = compiled(door, fn)(torch.zeros(N))
    assert externs() == {"aten.randint.low"}
    assert distance(sample, cdf) < 2.3
    # Neighbors, and elements one row of a block apart, are independent.
    ranks = torch.argsort(torch.argsort(sample.double())) / N - 0.5
    for lag in (1, 2, 4, 8, 1024):
        assert abs(float((ranks[lag:] * ranks[:-lag]).mean()) * 12 * math.sqrt(N)) < 4


WHOLE: dict[str, tuple[Callable[[Tensor], Tensor], dict[float, float]]] = {
    "randint": (lambda x: torch.randint(7, (N,)), {value: 1 / 7 for value in range(7)}),
    "randint of a range": (lambda x: torch.randint(-2, 3, (N,)), {value: 1 / 5 for value in range(-2, 3)}),
    "randint of floats": (lambda x: torch.randint_like(x, 3), {value: 1 / 3 for value in range(3)}),
    "randint of bytes": (
        lambda x: torch.randint(250, 256, (N,), dtype=torch.uint8),
        {value: 1 / 6 for value in range(250, 256)},
    ),
    "randint_like": (lambda x: torch.randint_like(x, 2, 6), {value: 1 / 4 for value in range(2, 6)}),
    "randint of bool": (lambda x: torch.randint(0, 2, (N,), dtype=torch.bool), {0: 0.5, 1: 0.5}),
    "random_": (lambda x: x.clone().random_(2, 5), {2: 1 / 3, 3: 1 / 3, 4: 1 / 3}),
    "random_ of bytes": (lambda x: x.to(torch.int8).random_() & 3, {value: 1 / 4 for value in range(4)}),
    "random_ of all": (lambda x: x.long().random_() & 3, {value: 1 / 4 for value in range(4)}),
    "bernoulli": (lambda x: torch.bernoulli(x + 0.3), {0: 0.7, 1: 0.3}),
    "bernoulli, double": (lambda x: torch.bernoulli(x.double() + 0.3), {0: 0.7, 1: 0.3}),
    "bernoulli of a number": (lambda x: torch.bernoulli(x, 0.9), {0: 0.1, 1: 0.9}),
    "bernoulli_": (lambda x: x.clone().bernoulli_(0.25), {0: 0.75, 1: 0.25}),
    "bernoulli_ of a mask": (lambda x: torch.empty_like(x, dtype=torch.bool).bernoulli_(0.25), {0: 0.75, 1: 0.25}),
    "bernoulli_ of probabilities": (lambda x: x.clone().bernoulli_(x + 0.5), {0: 0.5, 1: 0.5}),
    "dropout": (lambda x: F.dropout(x + 3, 0.4), {0: 0.4, 5: 0.6}),
    "native_dropout": (lambda x: torch.native_dropout(x + 3, 0.4, True)[0], {0: 0.4, 5: 0.6}),
    "geometric_": (
        lambda x: x.clone().geometric_(0.5).clamp(max=6),
        {**{value: 0.5**value for value in range(1, 6)}, 6: 0.5**5},
    ),
}


@pytest.mark.parametrize(
    # Dynamo runs `random_` as plain Python.
    ("name", "door"),
    [(name, door) for name in WHOLE for door in DOORS if door != "torch.compile" or "random_" not in name],
)
def test_whole_numbers(name: str, door: str) -> None:
    fn, expected = WHOLE[name]
    with torch.no_grad():
        sample = compiled(door, fn)(torch.zeros(N))
    assert externs() == {"aten.randint.low"}
    values, counts = sample.double().mul(2**16).round().div(2**16).unique(return_counts=True)
    seen = dict(zip(values.tolist(), counts.tolist(), strict=True))
    assert set(seen) == {float(value) for value in expected}
    squares = sum((seen[value] - N * p) ** 2 / (N * p) for value, p in expected.items())
    freedom = len(expected) - 1
    assert squares < freedom + 4 * math.sqrt(2 * freedom) + 8


@BOTH
@pytest.mark.parametrize(("dtype", "digits"), [(torch.bfloat16, 8), (torch.float16, 11), (torch.float32, 24)])
def test_every_number_is_below_one(dtype: torch.dtype, digits: int, door: str) -> None:
    sample = compiled(door, lambda: torch.rand(N, dtype=dtype))().double()
    assert sample.min() >= 0 and sample.max() < 1
    assert torch.equal(sample * 2**digits, (sample * 2**digits).round())
    assert distance(sample + torch.rand(N, dtype=torch.float64) * 2.0**-digits, lambda x: x) < 2.3


def test_published_vectors() -> None:
    """The vectors are those of the authors' library, Random123."""
    hexadecimal = lambda words: " ".join(f"{word:08x}" for word in words)  # noqa: E731
    assert hexadecimal(philox.block([0] * 4, [0] * 2)) == "6627e8d5 e169c58d bc57ac4c 9b00dbd8"
    assert hexadecimal(philox.block([philox.WORD] * 4, [philox.WORD] * 2)) == "408f276d 41c83b0e a20bc7c6 6d5451fd"
    counter, key = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]
    assert hexadecimal(philox.block(counter, key)) == "d16cfe09 94fdcceb 5001e420 24126ea1"


@BOTH
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 1, 7), (2, 3, 4, 5)])
def test_an_element_is_a_function_of_key_and_index(shape: tuple[int, ...], door: str) -> None:
    """So it does not depend on threads, vectors or memory layout."""
    sample = compiled(door, lambda: torch.rand(shape))()
    torch.manual_seed(20)
    key = int(torch.randint(-(2**63), 2**63 - 1, (1,)))
    words = [philox.half(key, at, 0) & philox.WORD for at in range(math.prod(shape))]
    assert sample.flatten().tolist() == [(word >> 8) * 2.0**-24 for word in words]


@BOTH
def test_memory_has_no_say(door: str) -> None:
    call = compiled(door, torch.rand_like)
    x = torch.ones(6, 8)
    torch.manual_seed(1)
    expected = call(x)
    torch.manual_seed(1)
    assert torch.equal(call(x.t().contiguous().t()), expected)


@BOTH
def test_seeds_and_states(door: str) -> None:
    call = compiled(door, lambda x: (F.dropout(x), torch.rand_like(x), torch.rand_like(x)))
    x = torch.ones(64)
    torch.manual_seed(3)
    first, second = call(x), call(x)
    state = torch.get_rng_state()
    third = call(x)
    torch.manual_seed(3)
    for expected, found in zip((first, second, third), (call(x), call(x), call(x)), strict=True):
        assert all(map(torch.equal, found, expected))
    torch.set_rng_state(state)
    assert all(map(torch.equal, call(x), third))
    torch.set_rng_state(state)
    with torch.random.fork_rng(devices=[]):
        call(x)
        torch.manual_seed(0)
        call(x)
    assert all(map(torch.equal, call(x), third))
    # Neither calls nor operators share numbers.
    drawn = [out for call in (first, second, third) for out in call[1:]]
    assert len({tuple(out.tolist()) for out in drawn}) == 6
    assert dynamlir.counters()["fallbacks"] == {}


def test_calls_do_not_compile_again() -> None:
    fast = dynamlir.compile(lambda x: F.dropout(x) + torch.rand_like(x))
    for seed in (1, 2, 2, 3):
        torch.manual_seed(seed)
        fast(torch.ones(4))
        fast(torch.ones(4))
    assert len(fast._cache) == 1


def test_plain_code_goes_on_where_the_graph_stopped() -> None:
    """A graph advances the generator by one 64-bit number for each operator."""
    fast = dynamlir.compile(lambda x: torch.rand_like(x) + F.dropout(x))
    torch.manual_seed(1)
    fast(torch.ones(100))
    after = torch.rand(3)
    torch.manual_seed(1)
    torch.randint(-(2**63), 2**63 - 1, (2,))
    assert torch.equal(after, torch.rand(3))


# -- gradients


@BOTH
def test_gradients_are_of_the_numbers_that_were_drawn(door: str) -> None:
    call = compiled(door, lambda x: F.dropout(x.exp(), 0.3))
    seen = []
    for _ in range(2):
        x = torch.randn(32, 16, requires_grad=True)
        out = call(x)
        out.sum().backward()
        torch.testing.assert_close(x.grad, out.detach())
        seen.append(out == 0)
    assert not torch.equal(*seen)


@BOTH
def test_eight_bytes_are_kept(door: str) -> None:
    call = compiled(door, lambda x: F.dropout(x + 1, 0.3))
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        call(torch.ones(1000, requires_grad=True)).sum().backward()
    assert sum(t.nbytes for t in kept if t.dtype is torch.int64) == 8
    assert all(t.dtype is torch.int64 or t.numel() == 1 for t in kept)


@BOTH
def test_gradients_twice(door: str) -> None:
    x = torch.ones(1000, requires_grad=True)
    out = compiled(door, lambda x: F.dropout(x))(x)
    first, second = (torch.autograd.grad(out.sum(), x, retain_graph=True)[0] for _ in range(2))
    torch.rand(3)
    assert torch.equal(first, second) and torch.equal(first, out)


def drawing(x: Tensor, w: Tensor) -> Tensor:
    hidden = torch.tanh(F.dropout(x @ w, 0.4))
    noise = torch.randn_like(hidden)
    return (F.dropout(hidden, 0.3) * hidden + noise * hidden.sin() * x).sum(-1)


@BOTH
def test_gradients_of_gradients_are_of_the_numbers_that_were_drawn(door: str) -> None:
    call = compiled(door, drawing)
    x, w = (torch.randn(4, 4, dtype=torch.double, requires_grad=True) for _ in range(2))

    def seeded(x: Tensor, w: Tensor) -> Tensor:
        torch.manual_seed(3)
        return call(x, w)

    assert torch.autograd.gradcheck(seeded, (x, w)) and torch.autograd.gradgradcheck(seeded, (x, w))
    out = call(x, w)
    first = torch.autograd.grad(out.sum(), (x, w), retain_graph=True)
    torch.rand(3)
    kept = torch.autograd.grad(out.sum(), (x, w), create_graph=True)
    torch.testing.assert_close(kept, first)
    second = torch.autograd.grad(kept[0].square().sum(), (x, w), create_graph=True)
    torch.rand(3)
    third = torch.autograd.grad(second[1].square().sum(), (x, w), retain_graph=True)
    assert all(torch.equal(*pair) for pair in zip(third, torch.autograd.grad(second[1].square().sum(), (x, w))))


@BOTH
def test_what_draws_by_itself_is_not_differentiated_twice(door: str) -> None:
    """`multinomial` is torch's: differentiated again, it would draw other numbers."""
    call = compiled(door, lambda x: (x[torch.multinomial(torch.ones(9), 4)] * F.dropout(x[:4])).sum())
    x = torch.rand(9, requires_grad=True)
    out = call(x)
    torch.autograd.grad(out, x, retain_graph=True)
    with pytest.raises(RuntimeError, match=r"draws random numbers.*without create_graph=True"):
        torch.autograd.grad(out, x, create_graph=True)


def in_place(x: Tensor, w: Tensor) -> Tensor:
    """Draws numbers into tensors that have views, and into one that is read afterwards."""
    mask = torch.empty_like(x)
    rows = mask[1:]
    mask.bernoulli_(0.6).mul_(2)
    hidden = torch.tanh(x @ w) * mask
    hidden[:, 1].mul_(torch.empty(4, dtype=x.dtype).uniform_(-1, 1)[-1])
    return (hidden * F.rrelu(w, training=True)).sum(-1) + (rows * x[1:]).exp().sum()


def chosen(x: Tensor, w: Tensor) -> Tensor:
    return (x[torch.multinomial(torch.ones(4), 3)] @ w).sin().sum(-1)


@BOTH
@pytest.mark.parametrize(("fn", "eager_random"), [(drawing, True), (in_place, True), (chosen, False)])
def test_torchs_own_numbers_are_drawn_again_from_the_state_of_then(door: str, fn: Any, eager_random: bool) -> None:
    """Gradients of gradients are eager's, and compiled; no other numbers change."""
    x, w = (torch.randn(4, 4, dtype=torch.double, requires_grad=True) for _ in range(2))

    def orders(call: Callable[..., Tensor]) -> list[Tensor]:
        torch.manual_seed(3)
        out = call(x, w)
        found = [out.detach()]
        for _ in range(2):
            torch.rand(3)
            gradients = torch.autograd.grad(out.square().sum(), (x, w), create_graph=True)
            found += gradients
            out = gradients[0]
        found += torch.autograd.grad(out.sum(), (x, w))
        return [*found, torch.rand(3)]

    with dynamlir.config.patch(eager_random=eager_random):
        for _ in range(2):
            found = orders(DOORS[door](fn))
            for ours, wanted in zip(found, orders(fn), strict=True):
                torch.testing.assert_close(ours, wanted, rtol=1e-9, atol=1e-11)
    assert dynamlir.counters()["fallbacks"] == {}


@BOTH
def test_what_is_written_is_not_written_again(door: str) -> None:
    """Gradients of gradients run the program again, on copies of its inputs."""

    def fn(x: Tensor, state: Tensor) -> Tensor:
        state.add_(1)
        return (x * torch.rand_like(x)).exp()

    x, state = torch.randn(4, dtype=torch.double, requires_grad=True), torch.zeros(4)
    with dynamlir.config.patch(eager_random=True):
        out = DOORS[door](fn)(x, state)
        (first,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        first.sum().backward()
    assert torch.equal(state, torch.ones(4)) and state._version == 1
    torch.testing.assert_close(x.grad, first.detach() ** 2 / out.detach())


@BOTH
def test_checkpoint_draws_again_what_it_drew(door: str) -> None:
    call = compiled(door, lambda x: F.dropout(x))
    x = torch.ones(1000, requires_grad=True)
    out = checkpoint(call, x, use_reentrant=False)
    torch.rand(3)
    out.sum().backward()
    assert torch.equal(x.grad, out)


@BOTH
def test_training_of_a_model(door: str) -> None:
    """The layers of a transformer have one dropout of the scores, and several of rows, with equal kernels."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.25, batch_first=True)
    model = nn.Sequential(layer, nn.Linear(16, 16), nn.Dropout(0.5))
    call, x = compiled(door, model), torch.randn(4, 6, 16)
    torch.manual_seed(1)
    out = call(x)
    out.square().mean().backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    torch.manual_seed(1)
    again = call(x)
    again.square().mean().backward()
    assert torch.equal(out, again)
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), gradients, strict=True))
    # A small step along the gradient, with the same numbers, lowers the loss by the predicted amount.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 1e-3 * parameter.grad
    torch.manual_seed(1)
    fall = float((again.square().mean() - call(x).square().mean()).detach())
    assert fall == pytest.approx(1e-3 * float(sum(g.square().sum() for g in gradients)), rel=0.1)
    model.eval()
    torch.testing.assert_close(call(x), model(x))


RULES: dict[str, Callable[[Tensor], Tensor]] = {
    "dropout": lambda x: F.dropout(x, 0.4),
    "native_dropout": lambda x: torch.native_dropout(x, 0.4, True)[0],
    "dropout in place": lambda x: F.dropout(x * 1, 0.4, inplace=True),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.4, True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x.view(10, 10, 10), 0.4, True),
    "dropout2d": lambda x: F.dropout2d(x.view(5, 5, 4, 10), 0.4),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "noise": lambda x: x * torch.randn_like(x) + torch.rand_like(x),
    "uniform_": lambda x: x * torch.empty_like(x).uniform_(),
    "normal": lambda x: torch.normal(torch.ones_like(x), 1.0) * x,
    "gumbel_softmax": lambda x: F.gumbel_softmax(x.view(10, 100)),
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()) * x,
    "attention": lambda x: F.scaled_dot_product_attention(*[x.view(5, 20, 10)] * 3, dropout_p=0.3),
}


@BOTH
@pytest.mark.parametrize("name", RULES)
def test_gradient_is_the_slope(name: str, door: str) -> None:
    """With the generator's state restored, the function is the same at each point of a line."""
    call = compiled(door, RULES[name])
    x = torch.randn(1000, dtype=torch.float64).mul(0.5).requires_grad_()
    along, weight = torch.randn(1000, dtype=torch.float64), None
    state = torch.get_rng_state()

    def value(at: Tensor) -> Tensor:
        torch.set_rng_state(state)
        nonlocal weight
        out = call(at)
        weight = torch.cos(torch.arange(out.numel(), dtype=out.dtype)) if weight is None else weight
        return (out.flatten() * weight).sum()

    value(x).backward()
    step = 1e-6
    with torch.no_grad():
        slope = (value(x + step * along) - value(x - step * along)) / (2 * step)
    assert float(slope) == pytest.approx(float((x.grad * along).sum()), rel=1e-5, abs=1e-6)


# -- what is special


@BOTH
def test_all_and_nothing(door: str) -> None:
    x = torch.randn(100)
    for p, expected in ((0.0, x), (1.0, torch.zeros(100))):
        assert torch.equal(compiled(door, lambda x, p=p: F.dropout(x, p))(x), expected)
        assert torch.equal(compiled(door, lambda x, p=p: torch.native_dropout(x, p, True)[0])(x), expected)
        assert torch.equal(compiled(door, lambda x, p=p: torch.bernoulli(x, 1 - p))(x), torch.full((100,), 1 - p))
    assert torch.equal(compiled(door, lambda x: F.dropout(x, 0.5, False))(x), x)
    assert compiled(door, lambda: (torch.rand(0, 3), torch.randint(3, (0,)), F.dropout(torch.ones(0))))()[0].shape == (
        0,
        3,
    )


@BOTH
def test_channels_are_dropped_as_a_whole(door: str) -> None:
    out = compiled(door, lambda x: F.dropout2d(x, 0.5))(torch.ones(40, 50, 3, 3))
    kept = out.amax((2, 3))
    assert torch.equal(kept, out.amin((2, 3))) and abs(float((kept == 0).float().mean()) - 0.5) < 0.05


@BOTH
def test_operators_that_stay_torchs_own(door: str) -> None:
    """Both kinds in one graph: the order in which they draw is fixed."""

    def fn(x: Tensor) -> Any:
        first = torch.rand_like(x)
        return first, torch.multinomial(x, 8), F.dropout(x), torch.poisson(x), torch.randperm(8), torch.rand_like(x)

    call, x = compiled(door, fn), torch.arange(1.0, 9)
    torch.manual_seed(4)
    expected = call(x)
    assert {"aten.randint.low", "aten.multinomial.default", "aten.poisson.default"} <= externs()
    torch.manual_seed(4)
    assert all(map(torch.equal, call(x), expected))
    assert sorted(expected[1].tolist()) == sorted(expected[4].tolist()) == list(range(8))
    assert not torch.equal(expected[0], expected[5])


REFUSED: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "bernoulli": (lambda x: torch.bernoulli(x + 1.5), "p_in >= 0"),
    "bernoulli, not a number": (lambda x: torch.bernoulli(x / 0), "p_in >= 0"),
    "normal": (lambda x: torch.normal(x, x - 1), "std >= 0"),
    "dropout": (lambda x: torch.native_dropout(x, 1.5, True)[0], "bernoulli_ expects p"),
    "randint": (lambda x: torch.randint(300, (3,), dtype=torch.int8), "out of bounds"),
}


@BOTH
@pytest.mark.parametrize("name", REFUSED)
def test_what_eager_refuses(name: str, door: str) -> None:
    """Eager's own error is raised, and the state is what eager leaves behind."""
    fn, words = REFUSED[name]

    def state(fn: Callable[[Tensor], Tensor]) -> Tensor:
        torch.manual_seed(1)
        with pytest.raises(RuntimeError, match=words):
            fn(torch.zeros(8))
        return torch.get_rng_state()

    expected, call = state(fn), DOORS[door](fn)
    assert torch.equal(state(call), expected)


# -- eager's numbers


def noise(x: Tensor) -> Any:
    return F.dropout(x), torch.randn_like(x), torch.randint(9, (5,)), x.clone().exponential_(), torch.randperm(5)


@pytest.mark.parametrize("way", ["torch.compile", "dynamlir.compile", "config", "environment"])
def test_eager_random(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "environment":
        monkeypatch.setenv("DYNAMLIR_EAGER_RANDOM", "1")
    options = {"eager_random": True} if way.endswith("compile") else {}
    compiler: Any = torch.compile if way == "torch.compile" else dynamlir.compile
    call = compiler(noise, backend="dynamlir", options=options)
    x = torch.ones(100)
    with dynamlir.config.patch(**({"eager_random": True} if way == "config" else {})):
        for _ in range(2):
            torch.manual_seed(6)
            found, state = call(x), torch.get_rng_state()
            torch.manual_seed(6)
            assert all(map(torch.equal, found, noise(x)))
            assert torch.equal(state, torch.get_rng_state())
    assert "aten.bernoulli.p" in externs() and not dynamlir.counters()["fallbacks"]


def test_eager_random_with_gradients() -> None:
    call = dynamlir.compile(lambda x: F.dropout(x * 2, 0.3), options={"eager_random": True})
    found = []
    for fn in (call, lambda x: F.dropout(x * 2, 0.3)):
        x = torch.ones(100, requires_grad=True)
        torch.manual_seed(6)
        out = fn(x)
        out.sum().backward()
        found.append((out.detach(), x.grad))
    assert all(map(torch.equal, *found))


def test_a_generator_of_its_own_is_eagers() -> None:
    def fn(x: Tensor) -> Tensor:
        return torch.bernoulli(x, generator=GENERATOR)

    x, call = torch.full((50,), 0.5), dynamlir.compile(fn)
    GENERATOR.manual_seed(1)
    expected = fn(x)
    GENERATOR.manual_seed(1)
    assert torch.equal(call(x), expected)


GENERATOR = torch.Generator()
