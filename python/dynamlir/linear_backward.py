"""Decides whether the backward of a `torch.autograd.Function` is linear in its incoming gradients.

Autograd calls it once, with the sum of all gradients of its results. A graph that is differentiated twice also calls it
separately, for the gradients that come through the first gradients: the sum is the same only if it is linear. If it is
not, the function is a separate node, for whose results autograd sums everything. A backward not known to be linear is
treated as non-linear, for example one with a ``clamp``.
"""

from __future__ import annotations

from typing import Literal

from .recording import OpRecord, Recording, Ref

_Kind = Literal["constant", "zero", "linear", "other"]

OF_FIRST = frozenset(
    [
        "alias",
        "clone",
        "contiguous",
        "detach",
        "_to_copy",
        "to",
        "expand",
        "view",
        "_unsafe_view",
        "reshape",
        "permute",
        "transpose",
        "t",
        "squeeze",
        "unsqueeze",
        "select",
        "slice",
        "as_strided",
        "diagonal",
        "unbind",
        "split",
        "split_with_sizes",
        "chunk",
        "narrow",
        "flatten",
        "unfold",
        "movedim",
        "neg",
        "sum",
        "mean",
        "cumsum",
        "flip",
        "roll",
        "tril",
        "triu",
        "repeat",
        "index_select",
        "gather",
        "index",
        "take_along_dim",
        "constant_pad_nd",
        "div",
        "real",
        "imag",
        "conj",
        "trace",
    ]
)
"""Linear in the first operand, regardless of the others."""

SUMS = frozenset(
    [
        "add",
        "sub",
        "cat",
        "stack",
        "copy",
        "index_put",
        "index_add",
        "scatter",
        "scatter_add",
        "select_scatter",
        "slice_scatter",
        "where",
    ]
)
"""Linear jointly in all operands that hold numbers."""

_SUMMANDS = {"add": (1,), "sub": (1,), "copy": (1,), "where": (1, 2), "scatter": (3,)}
"""The arguments that may be numbers, and would count as summands."""

PRODUCTS = frozenset(["mul", "mm", "bmm", "mv", "dot", "matmul", "outer", "linear", "convolution", "einsum", "cross"])
"""Linear in each operand if the others are constant."""

_ZEROS = frozenset(["zeros", "zeros_like", "new_zeros"])


def in_tangents(vjp: Recording) -> bool:
    """Returns true if a derivative's gradients are certainly linear in its tangents."""
    roots = vjp.roots()
    kinds: dict[int, _Kind] = {record.id: "linear" for record in vjp.inputs if record.tangent is not None}

    def kind(value: int) -> _Kind:
        return kinds.get(roots.get(value, value), "constant")

    for op in vjp.ops:
        found = _result(op, [kind(value) for value in op.operands], vjp)
        for at in op.mutates:
            before = kind(op.operands[at])
            overwrites = found == before or {before, found} <= {"zero", "linear"}
            kinds[roots.get(op.operands[at], op.operands[at])] = (
                ("linear" if "linear" in (before, found) else found) if overwrites else "other"
            )
        for value, alias in zip(op.result_ids, op.aliases):
            if alias < 0:
                kinds[value] = found
    return all(kind(output.id) in ("linear", "zero") for output in vjp.outputs)


def _result(op: OpRecord, operands: list[_Kind], vjp: Recording) -> _Kind:
    """Returns the kind of an operation's result for operands of these kinds."""
    name = op.schema.split(".")[1].removesuffix("_")
    numbers = op.raw[1] if op.raw is not None else []
    if "other" in operands:
        return "other"
    if name in _ZEROS or (name in ("full", "full_like", "new_full", "fill", "zero") and _fills_zero(name, numbers)):
        return "zero"
    if name == "scalar_tensor":
        return "zero" if numbers and numbers[0] == 0 else "constant"
    if "linear" not in operands:
        return "zero" if operands and operands[0] == "zero" and name in OF_FIRST else "constant"
    if op.vjp is not None and op.raw is None:
        # A nested function passes on the results of its operations, which come before it.
        return "linear" if all(kind != "constant" for kind in operands[-len(op.results) :]) else "other"
    if name in SUMS and all(
        kind in ("linear", "zero") or not vjp.metas[value].dtype.startswith(("f", "bf"))
        for kind, value in zip(operands, op.operands)
    ):
        # A number instead of a tensor is a constant.
        return "linear" if all(isinstance(numbers[at], (Ref, list)) for at in _SUMMANDS.get(name, ())) else "other"
    if name in PRODUCTS and operands.count("linear") == 1:
        return "linear"
    only_first = operands[0] == "linear" and "linear" not in operands[1:]
    if only_first and name == "masked_fill":
        return "linear" if len(numbers) > 2 and numbers[2] == 0 else "other"
    if only_first and name == "constant_pad_nd":
        return "linear" if len(numbers) < 3 or numbers[2] == 0 else "other"
    if only_first and op.schema.startswith("aten.div.") and "_mode" in op.schema:
        return "other"
    if only_first and (name in OF_FIRST or name.endswith("_backward")):
        return "linear"
    return "other"


def _fills_zero(name: str, numbers: list[object]) -> bool:
    at = {"full": 1, "full_like": 1, "fill": 1, "new_full": 2, "zero": 0}[name]
    return name == "zero" or (len(numbers) > at and type(numbers[at]) in (int, float, bool) and numbers[at] == 0)
