"""Compares torch's own samples of its functions, compiled, with eager on edge values: NaN, infinities, zeros of both
signs, denormals, huge numbers, ties and halves, in operands and in tangents, in results and in gradients.

Eager does not always agree with itself: its vectorized code, its scalar code and its code for doubles may differ. Ours
must agree with one of them, number for number. Where none of them is right, `edge_sweep.json` says so, with the reason.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import dynamlir
import harness
import opinfo_runner
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

NAN, INF = math.nan, math.inf
EVEN = (0.0, -0.0, 0.5, -0.5, 1.0, 1.0, 2.5, -1.5, -1.0, 2.0, 3.0, -2.0)
"""Zeros, halves and ties."""
LANES = 64
"""Enough copies of one number to fill eager's vectors."""
RELATIVE, ABSOLUTE = 1e-3, 1e-5
"""The allowed error of a finite number, relative to itself and to the largest one. Errors sought here are larger."""
MORE = 4.0
"""Where the two differ by more, the multiple of eager's own error, against doubles, that ours may have."""

Put = Callable[[Tensor], Tensor]
Call = Callable[..., Any]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Outcome = list[Tensor | None]


def _at(values: Sequence[float], places: Callable[[int], Sequence[int]]) -> Put:
    def put(flat: Tensor) -> Tensor:
        for value, place in zip(values, places(flat.numel()), strict=True):
            flat[place] = value
        return flat

    return put


NUMBERS: dict[str, Put] = {
    "nan": _at((NAN, NAN), lambda n: (0, n // 2)),
    "inf": _at((INF, -INF, INF), lambda n: (0, n - 1, n // 2)),
    "odd": _at((1e-40, -1e-40, 1e18, -1e18, 3e18), lambda n: (0, n // 3, n // 2, n - 1, 2 * n // 3)),
    "even": lambda flat: torch.tensor(EVEN, dtype=flat.dtype).repeat(-(-flat.numel() // len(EVEN)))[: flat.numel()],
    "zero": torch.zeros_like,
    # Unchanged operands, with NaN and infinities in the tangents.
    "tangent": lambda flat: flat,
}
"""The values written into operands, by the name that `exceptions` uses."""


@functools.cache
def exceptions() -> dict[tuple[str, str], str]:
    """The reasons for which an operator may differ from eager on these numbers, or is not called with them."""
    return {
        (name, kind): entry["reason"]
        for entry in json.loads(Path(__file__).with_suffix(".json").read_text())
        for name, kinds in entry["ops"].items()
        for kind in (kinds or NUMBERS)
    }


@dataclasses.dataclass(frozen=True)
class Case:
    """A function with some of its arguments, into which edge values are written."""

    name: str
    call: Call
    arguments: Arguments
    trained: bool

    def differences(self, compiled: Call, kind: str) -> str:
        """Describes the disagreement of the compiled function with eager; empty if there is none."""
        eager, error = self._run(self.call, kind)
        ours, own_error = self._run(compiled, kind)
        if error is not None or own_error is not None:
            return "" if type(error) is type(own_error) else f"eager {error!r:.100}, ours {own_error!r:.100}"
        if len(eager) != len(ours):
            return f"{len(eager)} results and gradients in eager, {len(ours)} of ours"
        wrong = [differing(theirs, mine) for theirs, mine in zip(eager, ours)]
        for also in (gapped, lined, doubled):
            if not any(isinstance(places, Tensor) for places in wrong):
                break
            others, refused = self._run(self.call, kind, also)
            if refused is None and len(others) == len(ours):
                wrong = [_both(places, *three) for places, *three in zip(wrong, eager, others, ours)]
        lines = [_line(at, *three) for at, three in enumerate(zip(wrong, eager, ours)) if three[0] is not None]
        return "; ".join(lines[:2])

    def _run(self, call: Call, kind: str, changed: Put | None = None) -> tuple[Outcome, Exception | None]:
        """The results, then the gradients of the arguments that require them."""

        def put(tensor: Tensor) -> Tensor:
            made = written(tensor, NUMBERS[kind])
            return (changed(made) if changed else made).requires_grad_(self.trained and tensor.requires_grad)

        args, kwargs = pytree.tree_map_only(Tensor, put, harness.clone_tree(self.arguments))
        leaves = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        torch.manual_seed(1)
        try:
            with dynamlir.config.patch(eager_random=True), torch.set_grad_enabled(self.trained):
                result = call(*args, **kwargs)
            results = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
            found: Outcome = [each.detach().clone() for each in results]
            wanted = [leaf for leaf in leaves if leaf.requires_grad]
            given = [each for each in results if each.requires_grad]
            if wanted and given:
                tangents = [tangent(each, seed, kind, changed) for seed, each in enumerate(given)]
                found += torch.autograd.grad(given, wanted, tangents, allow_unused=True)
        except Exception as error:
            return [], error
        return [one_of_each(each) for each in found] if changed is lined else found, None


# -- operands and tangents


def is_plain(tensor: Tensor) -> bool:
    """Returns true if numbers can be written into the tensor."""
    strided = tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested
    return strided and tensor.is_floating_point() and tensor.numel() > 0


def written(tensor: Tensor, put: Put) -> Tensor:
    """A tensor with such numbers in it, and the same layout."""
    if not is_plain(tensor):
        return tensor
    flat = put(tensor.detach().clone().reshape(-1))
    made = torch.empty_like(tensor, requires_grad=False)
    return made.copy_(flat.view(tensor.shape))


def gapped(tensor: Tensor) -> Tensor:
    """The same numbers with gaps between them, so that eager uses its scalar code."""
    if not is_plain(tensor) or not tensor.dim():
        return tensor
    return torch.stack([tensor.detach()] * 3, -1)[..., 0]


def lined(tensor: Tensor) -> Tensor:
    """Each number in all lanes of a vector, so that eager uses its vectorized code for element-wise functions."""
    return tensor.detach().unsqueeze(-1).repeat(*[1] * tensor.dim(), LANES) if is_plain(tensor) else tensor


def one_of_each(found: Tensor | None) -> Tensor | None:
    """The result for each number of a `lined` operand, if the result is lined as well."""
    return found[..., 0] if found is not None and found.dim() and found.shape[-1] == LANES else found


def doubled(tensor: Tensor) -> Tensor:
    """The same numbers in doubles."""
    return tensor.detach().double() if tensor.dtype is torch.float32 else tensor


def tangent(result: Tensor, seed: int, kind: str, changed: Put | None) -> Tensor:
    """Random numbers, the same for the same seed, with NaN and infinities among them if the kind is "tangent"."""
    shape = result.shape[:-1] if changed is lined and result.shape[-1:] == (LANES,) else result.shape
    generator = torch.Generator().manual_seed(seed)
    dtype = result.dtype if result.is_complex() else torch.float64
    made = torch.randn(shape, generator=generator, dtype=dtype)
    made = made if result.is_complex() else made.float()
    if kind == "tangent" and not result.is_complex() and made.numel():
        flat = made.view(-1)
        flat[0], flat[-1], flat[flat.numel() // 2] = NAN, INF, -INF
    made = made.to(result.dtype)
    return made if shape == result.shape else lined(made)


# -- comparison


def differing(eager: Tensor | None, ours: Tensor | None) -> Tensor | str | None:
    """The places at which two results differ, or a text if their kinds differ; None if they agree."""
    if eager is None or ours is None:
        return None if eager is ours else f"eager {_is_there(eager)}, ours {_is_there(ours)}"
    if (eager.shape, eager.dtype) != (ours.shape, ours.dtype):
        return f"eager {eager.dtype} {tuple(eager.shape)}, ours {ours.dtype} {tuple(ours.shape)}"
    if eager.layout is not torch.strided or eager.is_quantized:
        return None
    places = ~close(*map(reals, (eager, ours)))
    return places if places.any() else None


def _is_there(found: Tensor | None) -> str:
    return "None" if found is None else "a tensor"


def reals(tensor: Tensor) -> Tensor:
    """The numbers in a comparable form: in doubles if they are floats."""
    tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return tensor.double() if tensor.is_floating_point() else tensor


def kinds(x: Tensor) -> Tensor:
    """A different number for NaN, for each infinity, and for all others."""
    return x.isnan() * 1 + x.isposinf() * 2 + x.isneginf() * 3


def close(eager: Tensor, ours: Tensor) -> Tensor:
    """True where the kinds agree and finite numbers are near. Huge numbers agree by sign, since one last step may
    overflow.
    """
    if not eager.is_floating_point():
        return eager == ours
    finite = eager.isfinite() & ours.isfinite()
    sizes = eager[finite & (eager.abs() < 1e30)].abs()
    scale = max(float(sizes.max()) if sizes.numel() else 1.0, 1e-2)
    near = torch.isclose(eager, ours, rtol=RELATIVE, atol=ABSOLUTE * scale)
    huge = (eager.abs() > 1e37) & (ours.abs() > 1e37) & (eager.sign() == ours.sign())
    return huge | torch.where(finite, near, kinds(eager) == kinds(ours))


def _both(
    places: Tensor | str | None, eager: Tensor | None, other: Tensor | None, ours: Tensor | None
) -> Tensor | str | None:
    """The places at which ours agrees neither with eager's result nor with another of eager's for these numbers."""
    if not isinstance(places, Tensor) or eager is None or other is None or ours is None:
        return places
    if other.shape != ours.shape or not ours.dtype.is_floating_point:
        return places
    agrees = close(other.to(ours.dtype).double(), ours.double())
    if other.dtype is torch.float64 and ours.dtype is not torch.float64:
        own, mine = ((each.double() - other).abs() for each in (eager, ours))
        known = own[own.isfinite()]
        agrees |= mine <= (MORE * known.max() if known.numel() else 0.0)
    places = places & ~agrees
    return places if places.any() else None


def _line(at: int, places: Tensor | str, eager: Tensor, ours: Tensor) -> str:
    if isinstance(places, str):
        return f"{at}: {places}"
    first = tuple(places.nonzero()[0].tolist())
    values = ", ".join(f"{who} {reals(each)[first].item()}" for who, each in (("eager", eager), ("ours", ours)))
    return f"{at}: {int(places.sum())} of {places.numel()}, at {list(first)} {values}"


# -- the sweep


def cases(op: Any, count: int) -> Iterator[Case]:
    """The first samples of an operator."""
    trained = bool(op.supports_autograd) and torch.float32 in op.supported_backward_dtypes("cpu")
    target = op.op
    torch.manual_seed(0)
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float32, requires_grad=trained), count):

        def call(*args: Any, **kwargs: Any) -> Any:
            return target(*args, **kwargs)

        yield Case(opinfo_runner.op_name(op), call, ((sample.input, *sample.args), sample.kwargs), trained)


def sweep(op: Any, count: int) -> list[str]:
    """All differences of an operator's first samples, with numbers of each kind."""
    name = opinfo_runner.op_name(op)
    found = []
    for number, case in enumerate(cases(op, count)):
        dynamlir.reset()
        compiled = dynamlir.compile(case.call, dynamic=False)
        for kind in NUMBERS:
            if (name, kind) not in exceptions() and (case.trained or kind != "tangent"):
                text = case.differences(compiled, kind)
                found += [f"{name}, sample {number}, {kind}: {text}"] * bool(text)
    return found
