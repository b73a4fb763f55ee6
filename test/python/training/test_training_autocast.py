"""Training under autocast (bfloat16 on the CPU), through both front doors: gradients in float32 agree with eager's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from both import DOORS
from torch import Tensor, nn
from torch.nn import functional as F

BF16 = torch.bfloat16


@pytest.fixture(params=list(DOORS))
def door(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Each front door, with nothing compiled."""
    return DOORS[request.param]


def autocast(**options: Any) -> torch.autocast:
    return torch.autocast("cpu", BF16, **options)


def compiled_only(graphs: int = 1) -> None:
    """Checks that this number of graphs was compiled, and that nothing ran as plain Python."""
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
    assert dynamlir.counters()["graphs"] == graphs, dynamlir.explain_last()


def leaves(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    return tuple(torch.randn(shape).requires_grad_() for shape in shapes)


def gradients(call: Callable[..., Any], inputs: tuple[Tensor, ...]) -> tuple[Any, list[Tensor]]:
    """A result and its gradients."""
    result = call(*inputs)
    return result, list(torch.autograd.grad(result.float().square().sum(), inputs, allow_unused=True))


def is_near(found: Tensor | None, bf16: Tensor | None, exact: Tensor | None) -> None:
    """Checks that ours is as near to doubles as eager's bfloat16, within a small multiple; or None exactly where eager
    has None.
    """
    assert (found is None) == (bf16 is None) and (found is None or found.dtype == bf16.dtype)
    if found is None or bf16 is None or exact is None:
        return
    scale = float(exact.norm()) or 1.0
    ours, theirs = (float((side.double() - exact.double()).norm()) / scale for side in (found, bf16))
    assert ours <= 2 * theirs + 2**-8, (ours, theirs)


def check(door: Callable[..., Any], function: Callable[..., Any], *inputs: Tensor, around: bool = False) -> None:
    """Checks results and gradients, twice; ``around`` puts autocast around the call."""
    with autocast(enabled=False):
        exact_inputs = tuple(tensor.detach().double().requires_grad_() for tensor in inputs)
    compiled = door(function)
    for _ in range(2):
        with autocast(enabled=around):
            found, gotten = function_of(compiled, inputs)
            wanted, given = function_of(function, inputs)
        with pytest.MonkeyPatch.context() as patch:
            # Computes the same without any bfloat16.
            patch.setattr(torch, "autocast", lambda *_, **__: torch.enable_grad())
            exact, right = function_of(function, exact_inputs)
        assert found.dtype == wanted.dtype and found.requires_grad == wanted.requires_grad
        is_near(found.detach(), wanted.detach(), exact.detach())
        for each in zip(gotten, given, right, strict=True):
            is_near(*each)
    assert not torch.is_autocast_enabled("cpu")
    compiled_only()


def function_of(call: Callable[..., Any], inputs: tuple[Tensor, ...]) -> tuple[Tensor, list[Tensor | None]]:
    result = call(*inputs)
    # Gradients are computed outside of autocast, as usual.
    with torch.autocast("cpu", BF16, enabled=False):
        return result, list(torch.autograd.grad(result.to(torch.float64).square().sum(), inputs, allow_unused=True))


def layers(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    return F.linear(F.layer_norm(F.linear(x, w).relu(), (8,)), v).softmax(-1)


def twice(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    """A weight that is used twice: autocast casts it once, and its gradients are summed at that cast."""
    return F.linear(torch.tanh(F.linear(F.linear(x, w), v)), w) + F.linear(x, w)


def inside(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    with torch.autocast("cpu", BF16):
        return twice(x, w, v)


def nested(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    with torch.autocast("cpu", BF16):
        y = F.linear(x, w)
        with torch.autocast("cpu", BF16, enabled=False):
            z = F.linear(y.to(x.dtype), v) * 2
        return F.linear(z, w) + y


def nested_disabled(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    with torch.autocast("cpu", BF16, enabled=False):
        y = F.linear(x, w)
    return F.linear(y.tanh(), v)


def two_regions(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    """The cache of casts ends with the outermost autocast region, so the weight is cast twice."""
    with torch.autocast("cpu", BF16):
        y = F.linear(x, w)
    with torch.autocast("cpu", BF16):
        return F.linear(F.linear(y, v), w)


def without_cache(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    with torch.autocast("cpu", BF16, cache_enabled=False):
        return twice(x, w, v)


def mixed(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    with torch.autocast("cpu", BF16):
        y = torch.cat([F.linear(x, w), x[:, :4].exp()], 1)
        return (y @ y.t()).log_softmax(0) @ F.linear(x, w)


def under_no_grad(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    """A cast made with grad mode off is repeated where gradients are needed."""
    with torch.autocast("cpu", BF16):
        with torch.no_grad():
            mean = F.linear(x, w).mean()
        return F.linear(F.linear(x, w) - mean, v)


SHAPES = ((4, 8), (8, 8), (8, 8))


@pytest.mark.parametrize("function", [layers, twice, nested_disabled], ids=lambda f: f.__name__)
def test_around_the_call(function: Callable[..., Any], door: Callable[..., Any]) -> None:
    check(door, function, *leaves(*SHAPES), around=True)


@pytest.mark.parametrize(
    "function",
    [inside, nested, two_regions, without_cache, mixed, under_no_grad],
    ids=lambda f: f.__name__,
)
def test_inside_the_function(function: Callable[..., Any], door: Callable[..., Any]) -> None:
    check(door, function, *leaves(*SHAPES))


def test_inside_and_around(door: Callable[..., Any]) -> None:
    check(door, nested, *leaves(*SHAPES), around=True)


def test_convolutions_and_attention(door: Callable[..., Any]) -> None:
    def convolutions(x: Tensor, w: Tensor, g: Tensor, b: Tensor) -> Tensor:
        y = F.conv2d(x, w, padding=1)
        return F.conv2d(F.batch_norm(y, None, None, g, b, training=True).relu(), w, padding=1)

    check(door, convolutions, *leaves((2, 4, 6, 6), (4, 4, 3, 3), (4,), (4,)), around=True)
    dynamlir.reset()

    def attention(x: Tensor, w: Tensor) -> Tensor:
        q, k, v = F.linear(x, w).view(2, 6, 3, 2, 4).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v)

    check(door, attention, *leaves((2, 6, 8), (24, 8)), around=True)


NORMS: dict[str, Callable[..., Tensor]] = {
    "batch": lambda x, g, b: F.batch_norm(x, None, None, g, b, training=True),
    "batch, a weight alone": lambda x, g, b: F.batch_norm(x, None, None, g, None, training=True) + b.sum().to(BF16),
    "group": lambda x, g, b: F.group_norm(x, 2, g, b),
    "layer": lambda x, g, b: F.layer_norm(x, (4,), g, b),
}


@pytest.mark.parametrize("name", NORMS)
def test_statistics_are_kept_in_single_floats(name: str, door: Callable[..., Any]) -> None:
    """As in eager's kernels if the input is in bfloat16 and a parameter is not; torch's fakes differ."""
    function = NORMS[name]
    x, g, b = torch.randn(8, 4, 6, 4, dtype=BF16).add(3).requires_grad_(), *leaves((4,), (4,))
    slope = torch.linspace(-1, 1, x.numel()).view_as(x)

    def run(call: Callable[..., Any], *inputs: Tensor) -> list[Tensor]:
        result = call(*inputs)
        return [result.detach(), *torch.autograd.grad((result * slope.to(result.dtype)).sum(), inputs)]

    (exact, *right) = run(function, *(tensor.detach().double().requires_grad_() for tensor in (x, g, b)))
    ours, theirs = run(door(function), x, g, b), run(function, x, g, b)
    for found, wanted, true in zip(ours, theirs, (exact, *right), strict=True):
        assert found.dtype == wanted.dtype
        off, may = ((side.double() - true).norm() for side in (found, wanted))
        assert off <= 1.05 * may + 1e-6 * true.norm(), (off, may)
    compiled_only()


def test_switched_on_and_off_between_calls(door: Callable[..., Any]) -> None:
    compiled, inputs = door(layers), leaves(*SHAPES)
    for enabled in (False, True, False, True):
        with autocast(enabled=enabled):
            found, _ = function_of(compiled, inputs)
            wanted, _ = function_of(layers, inputs)
        assert found.dtype == wanted.dtype
        torch.testing.assert_close(found, wanted, rtol=2e-2, atol=1e-2)
    compiled_only(2)


def test_a_weights_gradient_is_summed_as_eager_sums_it(door: Callable[..., Any]) -> None:
    """Two uses of one cast: eager rounds the sum to bfloat16; a float32 sum is as good, or better."""
    x, w = torch.randn(64, 8), torch.randn(8, 8, requires_grad=True)

    def function(x: Tensor, w: Tensor) -> Tensor:
        return F.linear(x, w).float().sum() + F.linear(x * 1e-3, w).float().sum()

    with autocast():
        ours, theirs = door(function)(x, w), function(x, w)
    (ours,), (theirs,) = (torch.autograd.grad(loss, w) for loss in (ours, theirs))
    exact = (x.double().sum(0) * 1.001).expand(8, 8)
    assert ours.dtype == theirs.dtype == torch.float32
    assert (ours - exact).norm() <= 1.1 * (theirs - exact).norm() + 1e-3 * exact.norm()
    compiled_only()


@pytest.mark.parametrize("where", ["around the model", "inside forward"])
def test_a_model_over_steps(where: str, door: Callable[..., Any]) -> None:
    """Float32 parameters are the same after some steps, within the precision of bfloat16 gradients."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.layer = nn.Embedding(10, 8), nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
            self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 10)
            self.head.weight = self.embed.weight

        def forward(self, tokens: Tensor) -> Tensor:
            with torch.autocast("cpu", BF16, enabled=where == "inside forward" or torch.is_autocast_enabled("cpu")):
                return self.head(self.norm(self.layer(self.embed(tokens))))

    torch.manual_seed(0)
    eager = Model()
    ours = copy.deepcopy(eager)
    calls = (eager, door(ours))
    optimizers = [torch.optim.SGD(module.parameters(), lr=0.1) for module in (eager, ours)]
    tokens = torch.randint(10, (4, 6))
    losses: list[list[float]] = [[], []]
    for _ in range(5):
        for call, optimizer, seen in zip(calls, optimizers, losses):
            optimizer.zero_grad()
            with autocast(enabled=where == "around the model"):
                loss = F.cross_entropy(call(tokens).flatten(0, 1), tokens.flatten().roll(1))
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
    for one, other in zip(eager.parameters(), ours.parameters()):
        assert one.grad is not None and other.grad is not None and other.grad.dtype == torch.float32
        assert (one.grad - other.grad).norm() <= 0.05 * one.grad.norm() + 1e-3
    assert max(abs(a - b) for a, b in zip(*losses)) < 0.02
    compiled_only()


def test_custom_fwd_and_bwd(door: Callable[..., Any]) -> None:
    """The decorators for autocast on custom autograd Functions."""

    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
            ctx.save_for_backward(x, w)
            return x.mm(w)

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, tangent: Tensor) -> Any:
            x, w = ctx.saved_tensors
            return tangent.mm(w.t()), x.t().mm(tangent)

    function = lambda x, w: Product.apply(x, w).float().tanh()  # noqa: E731
    inputs = leaves((4, 8), (8, 8))
    compiled = door(function)
    for _ in range(2):
        with autocast():
            (found, ours), (wanted, theirs) = function_of(compiled, inputs), function_of(function, inputs)
        torch.testing.assert_close(found, wanted, rtol=2e-2, atol=1e-2)
        torch.testing.assert_close(ours, theirs, rtol=5e-2, atol=2e-2)
