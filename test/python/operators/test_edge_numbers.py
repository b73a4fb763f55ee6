"""Elements that are masked, padded, out of bounds or not a row's target are left out, and not multiplied by zero: next
to NaN and infinities, in results and in gradients, as in eager.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

NAN, INF = math.nan, math.inf
Functions = Sequence[Callable[..., Any]]


def agree(
    functions: Functions, inputs: Sequence[Tensor], tangent: Callable[[Tensor], Tensor] = torch.ones_like
) -> None:
    """Checks that eager and one graph of all functions agree, NaN included, each function on its own inputs."""

    def every(*inputs: Tensor) -> list[Tensor]:
        return [function(*inputs[at :: len(functions)]) for at, function in enumerate(functions)]

    def run(every: Callable[..., list[Tensor]]) -> list[Tensor | None]:
        own = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs for _ in functions]
        results, wanted = every(*own), [x for x in own if x.requires_grad]
        gradients = torch.autograd.grad(results, wanted, [tangent(result) for result in results])
        return [*(result.detach() for result in results), *gradients]

    dynamlir.reset()
    ours = run(dynamlir.compile(every))
    assert not dynamlir.fallbacks()
    for at, (mine, theirs) in enumerate(zip(ours, run(every), strict=True)):
        what = f"{'gradient' if at >= len(functions) else 'result'} of {at % len(functions)}"
        torch.testing.assert_close(mine, theirs, equal_nan=True, msg=lambda text, what=what: f"{what}: {text}")


def leaf(values: Sequence[float] | Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.as_tensor(values).to(dtype).clone().requires_grad_()


def lines(values: Sequence[float]) -> Tensor:
    """Each value in each lane of a vector: eager's scalar code does not always agree with its vector code."""
    return torch.tensor(values).repeat_interleave(64)


def odd(result: Tensor) -> Tensor:
    """A tangent that cycles through NaN, infinities and ordinary numbers."""
    values = torch.tensor([NAN, 0.5, INF, -2.0, -INF], dtype=result.dtype)
    return values.repeat(-(-result.numel() // 5))[: result.numel()].view(result.shape)


# -- images

PLACES = (NAN, INF, -INF, 1e30, 3e9, -7.0, -2.0, -1.25, -1.0, -0.75, 0.0, 0.3, 1.0, 1.0000001, 1.5)


def bordered(*shape: int) -> Tensor:
    """An image whose border is NaN or infinite."""
    image = torch.rand(shape)
    image[..., 0, :], image[..., -1], image[:, 0, :, 0] = NAN, INF, -INF
    return image


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["f32", "f16"])
def test_places_in_and_beside_an_image(padding: str, dtype: torch.dtype) -> None:
    # With padding other than zeros, eager's own backward reads far outside the image at NaN or infinite places.
    places = PLACES if padding == "zeros" else [place for place in PLACES if math.isfinite(place)]
    count = len(places)
    grid = torch.tensor([*itertools.product(places, places)], dtype=dtype).view(1, count, count, 2).requires_grad_()
    modes = itertools.product(("bilinear", "nearest", "bicubic"), (True, False))

    def sample(image: Tensor, grid: Tensor, mode: str, aligned: bool) -> Tensor:
        return F.grid_sample(image, grid, mode=mode, padding_mode=padding, align_corners=aligned)

    functions = [lambda image, grid, how=how: sample(image, grid, *how) for how in modes]
    agree(functions, [leaf(bordered(1, 2, 5, 4), dtype), grid])


def test_places_in_and_beside_a_volume() -> None:
    grid = torch.tensor([*itertools.product(PLACES[:9], repeat=3)]).view(1, 9, 9, 9, 3).requires_grad_()
    functions = [
        lambda volume, grid, mode=mode: F.grid_sample(volume, grid, mode=mode, align_corners=False)
        for mode in ("bilinear", "nearest")
    ]
    volume = torch.rand(1, 2, 3, 4, 5)
    volume[..., 0], volume[:, :, 0] = NAN, INF
    agree(functions, [leaf(volume), grid])


@pytest.mark.parametrize("sides", ["one", "two", "three"])
def test_dimensions_that_keep_their_size(sides: str) -> None:
    """A scale of 1.3 keeps three rows at three, and eager takes them unchanged."""
    shape, mode = {
        "one": ((2, 2, 7), "linear"),
        "two": ((2, 2, 3, 5), "bilinear"),
        "three": ((1, 2, 3, 4, 5), "trilinear"),
    }[sides]
    rank = len(shape) - 2
    scales = [(1.1,) * rank, (1.3, 1.5, 0.5)[:rank], (1.6, 1.1, 1.19)[:rank]]
    functions = [
        lambda x, scale=scale, aligned=aligned: F.interpolate(x, scale_factor=scale, mode=mode, align_corners=aligned)
        for scale in scales
        for aligned in (False, True)
    ]
    agree(functions, [leaf(torch.rand(shape))])
    if rank == 2:
        smooth = [
            lambda x, scale=scale: F.interpolate(x, scale_factor=scale, mode="bilinear", antialias=True)
            for scale in scales
        ]
        last = torch.rand(shape).to(memory_format=torch.channels_last)
        agree([*functions[:2], *smooth], [last.requires_grad_()])


def test_images_that_are_smoothed_beside_infinity() -> None:
    functions = [
        lambda x, size=size: F.interpolate(x, size, mode="bilinear", antialias=True)
        for size in ((4, 3), (9, 2), (5, 20))
    ]
    agree(functions, [leaf(bordered(1, 1, 9, 11))])


# -- values and tangents that are NaN or infinite

VALUES = (NAN, INF, -INF, 3.0, -3.0, 0.5, -0.5, 1.0, -1.0, 0.0, -0.0, 1e-40, 1e30, 100.0, -100.0)

BENT: list[Callable[[Tensor], Tensor]] = [
    F.hardswish, F.hardsigmoid, F.relu, F.relu6, F.elu, F.celu, F.selu, F.softplus, F.softshrink, F.hardshrink,
    F.leaky_relu, F.logsigmoid, F.mish, F.silu, F.gelu, F.tanhshrink, F.softsign, F.hardtanh,
    lambda x: x.clamp(-1, 1), lambda x: x.clamp(min=0.5), lambda x: F.threshold(x, 0.5, 2.0), lambda x: x.abs(),
    lambda x: torch.where(x > 0, x, 2.0), lambda x: x.masked_fill(x < 0.5, 1.0), lambda x: x.nan_to_num(0.5),
    lambda x: F.pad(x.view(5, -1), (1, -1, 0, 2), value=INF), lambda x: x.view(5, -1).tril(1),
    lambda x: x.clone().masked_fill_(x != x, 0.0), lambda x: x[x.new_tensor([3, 1, 3]).long()],
]  # fmt: skip


def test_functions_with_bends() -> None:
    agree(BENT, [leaf(lines(VALUES))])


def test_functions_with_bends_where_the_tangent_is_no_number() -> None:
    agree(BENT, [leaf(lines([0.75, -0.75, 4.0, -4.0, 0.25]))], odd)


PAIRS: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda x, y: F.smooth_l1_loss(x, y, reduction="none"), lambda x, y: F.smooth_l1_loss(x, y, beta=0.25),
    lambda x, y: F.huber_loss(x, y, reduction="none", delta=0.75), lambda x, y: F.huber_loss(x, y, reduction="sum"),
    lambda x, y: F.mse_loss(x, y, reduction="none"), lambda x, y: F.l1_loss(x, y, reduction="none"),
    lambda x, y: F.soft_margin_loss(x, y.detach(), reduction="none") * y,
    torch.maximum, torch.minimum, torch.fmax, torch.fmin,
    lambda x, y: F.margin_ranking_loss(x, y, y.sign().detach(), reduction="none"),
    lambda x, y: F.hinge_embedding_loss(x, y.sign().detach(), reduction="none") * y,
]  # fmt: skip


def test_losses_of_what_is_no_number() -> None:
    x, y = (side.reshape(-1) for side in torch.meshgrid(lines(VALUES[:12]), torch.tensor(VALUES[:12]), indexing="ij"))
    agree(PAIRS, [leaf(x), leaf(y)])
    agree(PAIRS, [leaf(x.nan_to_num()), leaf(y.nan_to_num())], odd)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=["f64", "bf16"])
def test_losses_in_other_types(dtype: torch.dtype) -> None:
    x, y = (side.reshape(-1) for side in torch.meshgrid(lines(VALUES[:7]), torch.tensor(VALUES[:7]), indexing="ij"))
    agree(PAIRS[:6], [leaf(x, dtype), leaf(y, dtype)])


@pytest.mark.parametrize("values", [(0.5, NAN, 2.0, NAN), (1.0, 2.0, 2.0, -1.0), (INF, 1.0, INF, -INF)])
def test_the_one_of_all(values: tuple[float, ...]) -> None:
    """The selected elements share the gradient; the others get none, regardless of its value."""
    functions = [torch.max, torch.min, torch.median, torch.nanmedian, lambda x: x.amax(1), lambda x: x.max(1)[0]]
    inputs = [leaf(torch.tensor(values).view(2, 2).repeat(1, 3))]
    agree(functions, inputs)
    agree(functions, inputs, odd)


@pytest.mark.parametrize("weighted", [False, True])
def test_targets_of_rows(weighted: bool) -> None:
    """Elements that are not a row's target have no gradient and no part in the loss."""
    weight = torch.tensor([0.5, 2.0, 0.0]) if weighted else None
    rows, planes, one = torch.randn(4, 3), torch.randn(2, 3, 2, 2), torch.randn(3)
    rows[0, 1], planes[0, 2, 1, 1] = NAN, INF
    kinds = [dict(reduction=reduction, weight=weight) for reduction in ("none", "mean", "sum")]
    for x, target in (
        (rows, torch.tensor([0, 2, -100, 1])),
        (planes, torch.tensor([[[0, 1], [2, -100]], [[1, 1], [0, 2]]])),
        (one, torch.tensor(1)),
    ):
        functions = [lambda x, target, how=how: F.nll_loss(x, target, **how) for how in kinds]
        functions += [lambda x, target, how=how: F.cross_entropy(x, target, **how) for how in kinds]
        agree(functions, [leaf(x), target])
        agree(functions, [leaf(x), target], odd)


# -- attention


@pytest.mark.parametrize("keys", [3, 7, 15, 16, 40])
@pytest.mark.parametrize("queries", [1, 5])
def test_queries_that_are_no_numbers(keys: int, queries: int) -> None:
    """Eager gives zeros for a short row without a maximum; which rows are short depends on its vector width."""
    query, key, value = torch.randn(2, 2, queries, 8), torch.randn(2, 2, keys, 8), torch.randn(2, 2, keys, 8)
    query[0, 0, 0, 3] = NAN
    one, bad, endless = query.clone(), key.clone(), query.clone()
    one[1, 1], bad[0, 1, keys // 2], endless[1, 1, 0, 5] = NAN, NAN, INF
    attend, mask = F.scaled_dot_product_attention, torch.ones(queries, keys).tril().bool()

    def every(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        return [attend(q, k, v, **how) for how in ({}, {"scale": NAN}, {"is_causal": True}, {"attn_mask": mask})]

    compiled = dynamlir.compile(every)
    with torch.no_grad():
        # Where products overflow, the first overflow decides, and the order of summation determines which is first.
        for inputs in ((one, key, value), (query, bad, value), (endless, key, value)):
            torch.testing.assert_close(compiled(*inputs), every(*inputs), equal_nan=True)


# -- products, norms and factorizations


@pytest.mark.parametrize(
    "values", [(2, 3, -1, 4, 5, 6), (INF, 3, 2, NAN, 5, -6), (0, 3, 2, 4, INF, 6), (0, 3, NAN, 0, 5, 6)]
)
def test_factors_of_products(values: tuple[float, ...]) -> None:
    """For a product without zeros eager divides by each factor; otherwise it multiplies the factors on either side."""
    functions = [
        torch.prod, lambda x: x.prod(0), lambda x: x.prod(-1, keepdim=True), lambda x: x.prod(dtype=torch.float64),
        lambda x: x.prod(1, dtype=torch.float64),
    ]  # fmt: skip
    inputs = [leaf(torch.tensor(values).view(2, 3))]
    agree(functions, inputs)
    agree(functions, inputs, odd)


@pytest.mark.parametrize("values", [(2, 3, -1, 4, 5, 6), (0, 3, 2, 4, 1, 6), (0, 3, 2, 0, 5, 6)])
def test_factors_of_products_differentiated_again(values: tuple[float, ...]) -> None:
    def twice(f: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        x = leaf(torch.tensor(values).view(2, 3))
        (once,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        return once.detach(), torch.autograd.grad((once * torch.arange(6.0).view(2, 3)).sum(), x)[0]

    for f in (torch.prod, lambda x: x.prod(1)):
        dynamlir.reset()
        torch.testing.assert_close(twice(dynamlir.compile(f)), twice(f))


def test_products_of_nothing() -> None:
    for shape, dim in itertools.product([(3, 0), (0, 3)], (0, 1)):
        agree([torch.prod, lambda x, dim=dim: x.prod(dim)], [leaf(torch.zeros(shape))])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=["f32", "f64", "bf16"])
def test_norms_of_single_numbers(dtype: torch.dtype) -> None:
    """No power is computed: the squares of 1e-30 and 1e30 are not representable."""
    orders = (2, 4, 3, 0.5, -2, 1, 0, INF, -INF)
    functions = [lambda x, p=p: torch.linalg.vector_norm(x, p, 1) for p in orders]
    functions += [lambda x, p=p: torch.dist(x[0], x[0].new_zeros(1), p) for p in orders[:5]]
    x = torch.tensor([1e30, -1e-30, NAN, -INF, 0.0, -0.0], dtype=dtype).view(6, 1)

    def every(x: Tensor) -> list[Tensor]:
        return [f(x) for f in functions]

    torch.testing.assert_close(dynamlir.compile(every)(x), every(x), rtol=0, atol=0, equal_nan=True)
    assert not dynamlir.fallbacks()


@pytest.mark.parametrize("trained", [False, True])
def test_matrices_without_a_factorization(trained: bool) -> None:
    """Where a factorization does not converge, torch's own error is raised, from gradients too, as in eager."""
    lost = torch.tensor([[INF, -0.5, 0.1], [0.5, INF, -0.3], [0.2, -0.1, -INF]])
    zeros = torch.zeros(3, 3)
    for f in (
        torch.linalg.eigvalsh, torch.linalg.svdvals, torch.linalg.cond, torch.linalg.cholesky, torch.linalg.inv,
        lambda x: torch.linalg.matrix_rank(x, hermitian=True), lambda x: torch.linalg.eigh(x)[0],
        lambda x: torch.linalg.polar(x)[0], torch.linalg.det,
    ):  # fmt: skip
        dynamlir.reset()
        for matrix in (lost, zeros):
            found = []
            for each in (f, dynamlir.compile(f)):
                x = matrix.clone().requires_grad_(trained)
                try:
                    result = each(x)
                    if result.requires_grad:
                        result.sum().backward()
                    found.append([result.detach(), x.grad])
                except RuntimeError as error:
                    found.append([type(error)])
            assert len(found[0]) == len(found[1])
            if len(found[0]) == 1:
                assert found[0] == found[1]
            else:
                torch.testing.assert_close(found[1], found[0], equal_nan=True)


def test_values_are_computed_without_vectors() -> None:
    """As in eager without gradients, since vectors take longer."""

    class Values(torch.nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return torch.linalg.eigvalsh(x, UPLO="U"), torch.linalg.svdvals(x)

    matrix = torch.randn(4, 4)
    with torch.no_grad():
        program = dynamlir.export(Values(), matrix)
        torch.testing.assert_close(program(matrix), Values()(matrix))
    assert program.mlir.count("aten._linalg_eigh.default") == program.mlir.count("aten._linalg_svd.default") == 1
    # The matrix of eigenvectors, and those on either side of the singular values, are empty.
    assert '"U", false]' in program.mlir
    assert program.mlir.count("!dynamo.tensor<0xf32") == 3


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
@pytest.mark.parametrize("bend", (0.1, 1 / 3, -0.7, 0.30005))
@pytest.mark.parametrize(
    "function",
    (lambda x, bend: F.threshold(x, bend, 20.0), lambda x, bend: F.hardtanh(x, -abs(bend), abs(bend))),
    ids=("threshold", "hardtanh"),
)
def test_a_bend_that_a_small_type_does_not_have(function: Any, bend: float, dtype: torch.dtype) -> None:
    """Eager's kernels compare in single precision: a bend rounded to a smaller type lies on one side of the bend."""
    found = []
    for run in (function, dynamlir.compile(function)):
        x = (torch.tensor(bend).to(dtype) * torch.tensor([1.0, 1.01, 0.99], dtype=dtype)).requires_grad_()
        y = run(x, bend)
        y.sum().backward()
        found.append((y, x.grad))
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0)
