"""Facts about torch's operators that neither their schemas nor their tags state: a row per operator, a column per fact.

The rows name operators of ``aten``, by overload (``cumsum_.default``) or with all overloads (``zeros``). The meaning of
a column, and why it matters, is documented at the column; the reason that an operator has it, at its row where that
differs. Other code does not look up operators by name: it calls `schema.info` for an operator's facts, or `facts` by
schema.
"""

from __future__ import annotations

import enum
import functools
from typing import Any, NamedTuple


class Layout(enum.Enum):
    """The layout of an eager kernel's result, where fakes have it wrong or leave it open; see `layouts`."""

    VIEW = "a view, whose strides the kernel computes without memory"
    LIKE_OPERAND = "like an operand, as pointwise operations do"
    BY_ALL_OPERANDS = "by how all operands lie, as no rule here says"
    ROW_MAJOR = "row-major, regardless of the operand's layout"
    ROW_MAJOR_OR_CHANNELS_LAST = "the one of the two that the first operand's strides suggest"
    AS_IT_LIES = """row-major, or with channels last, if the first operand is laid out so, whatever strides dimensions
    of one element have; else as that suggests"""
    LIKE_CLONE = "it writes into a copy of the first operand, laid out as `clone` does it"
    LIKE_CLONE_OF_OVERLAP = """it writes into a copy of the first operand, laid out as that is, with its gaps. Where the
    operand's elements share memory there is no such copy, and `clone` makes it: torch 2.11's fakes do not know that"""
    LIKE_SUM = "pointwise, but its fake is written in Python and meets operands of several layouts in another manner"
    LIKE_PRODUCT = "as the product with a tensor of the second operand's shape"
    ROLLED = "as the parts that it puts together"
    LIKE_FIRST = """as `empty_like` makes it of the first operand. Fakes know it, but for dimensions of one element, of
    which it has the operand's strides where that is dense"""


class Draws(enum.Enum):
    """The way an operator draws random numbers into a tensor that is not row-major, where its variant differs."""

    IN_MEMORY_ORDER = "in the order of memory; the variant goes row by row"
    BY_DENSITY = "in one order for what the kernel can go through at once, in another for a tensor with gaps"


class Facts(NamedTuple):
    """The columns. Most operators have the default in all of them."""

    # -- what is written

    hidden_writes: tuple[str, ...] = ()
    """Arguments that are written although the schema does not say so."""
    writes_when: str | None = None
    """The argument that has to be true for anything to be written."""
    functional: str | None = None
    """The variant that returns what this one writes, if it is not found by name."""
    keeps_dtype: bool = False
    """Computes in its operand's element type, where the variant would choose another."""
    absolute_offset: bool = False
    """Counts from the storage's start, so that the offset of an input matters."""
    draws: Draws | None = None
    pointwise: bool = False
    """Pointwise, though not tagged so: it may read exactly where it writes."""

    # -- how a call is recorded

    refused: str | None = None
    """The reason that a graph with it runs as plain eager."""
    is_question: bool = False
    """Queries metadata and returns no tensor: answered while recording, with nothing left to run."""
    instead: str | None = None
    """The operator of ATen, with the same arguments, whose default overload is recorded instead. Compiled code has no
    notion of zeros without memory."""
    lifts_constant: bool = False
    """Creates a fresh tensor from a constant: the result of ``torch.tensor(…)`` inside a graph."""
    unsafe_view: bool = False
    """A view of a temporary that composites create and never expose: its result is independent, not a view."""
    counting_factory: bool = False
    """Fills its memory by an operation that bumps the version, which is visible where a composite calls it. The Python
    function of the same name hides it."""
    factory: bool = False
    """Creates a tensor from its arguments alone, with no tensor among them: may be cached."""
    number: bool = False
    """Without operands its result is a number on the CPU that was not read from a tensor. Torch allows it beside
    tensors on a GPU, and in generated code it is a constant."""
    keeps_number: bool = False
    """Its result is such a number if its operand is: the operand is a number itself, or would have turned out not to be
    one by now."""
    results: int | None = None
    """The number of results that count. Later ones are numbers, and tensors without kernels, only for training."""
    uninitialised: bool = False
    """Returns uninitialised memory, which eager fills under deterministic algorithms and no decomposition provides."""
    nondeterministic: bool = False
    """Raises, or warns, under deterministic algorithms."""

    # -- what the results are

    layout: Layout | None = None
    statistics: bool = False
    """Its second and third result, by which it normalizes, are single floats on the CPU if a parameter is and the
    operand has a smaller type, as under autocast. Fakes have them in the operand's type."""
    sums: str | None = None
    """The argument with the dimensions along which its first operand is summed, or the dimension itself, or the
    argument with the lines that are summed for each of its rows; see `row_lengths`."""
    casts_back: bool = False
    """Raises if the common type of its operands cannot be cast to that of the first, which it writes."""
    one_type: bool = False
    """Its kernels take floats of one type: with several, eager raises or computes in the type of the first."""
    parameters_of_one_type: bool = False
    """Its kernels on the CPU take parameters of the operand's type, or single floats for a smaller one."""
    bounds: bool = False
    """Its numbers need not fit an int type: one beyond the range does not bound anything."""
    refuses_bools: bool = False
    """Does not have a kernel for bools."""
    long_index: bool = False
    """Its index must be of `torch.int64`, where other operators also take `torch.int32`."""
    floats_or_bytes: bool = False
    """Has kernels only for floats and `torch.uint8`."""
    strictly_unsigned: bool = False
    """Rejects negative numbers for unsigned types, where others wrap them around."""
    in_its_result: bool = False
    """Its composite kernel computes in the memory of its result by a device function that does not check that the
    memory exists: on fakes it crashes the process."""


class Row(NamedTuple):
    """Some operators, and facts that they all share."""

    operators: str
    facts: Facts


ROWS: tuple[Row, ...] = (
    # -- sums
    Row("sum mean var std var_mean logsumexp linalg_vector_norm _softmax _log_softmax", Facts(sums="dim")),
    Row("native_layer_norm _fused_rms_norm", Facts(sums="normalized_shape")),
    Row("mv dot", Facts(sums="-1")),
    Row("_scaled_dot_product_flash_attention_for_cpu", Facts(sums="key")),
    # -- what eager refuses, and fakes do not
    Row("mul_", Facts(casts_back=True)),
    Row("addcmul_", Facts(casts_back=True)),
    Row("addcdiv_", Facts(casts_back=True)),
    Row(
        "mm mv dot bmm addmm addmv addbmm baddbmm addr addr_ complex convolution _cdist_forward grid_sampler_2d "
        "grid_sampler_3d heaviside heaviside_ index_add index_add_ index_copy index_copy_ index_put index_put_ "
        "index_reduce index_reduce_ put put_ _unsafe_index_put _unsafe_masked_index_put_accumulate linalg_cross "
        "linalg_solve_triangular binary_cross_entropy huber_loss soft_margin_loss nll_loss_forward nll_loss2d_forward "
        "_embedding_bag _embedding_bag_forward_only _softmax_backward_data _log_softmax_backward_data gelu_backward "
        "_scaled_dot_product_flash_attention_for_cpu",
        Facts(one_type=True),
    ),
    Row(
        "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional "
        "_native_batch_norm_legit_no_training _batch_norm_with_update native_group_norm native_layer_norm",
        Facts(parameters_of_one_type=True),
    ),
    Row("constant_pad_nd", Facts(strictly_unsigned=True)),
    Row("index_fill index_fill_ index_copy index_copy_ put put_", Facts(long_index=True)),
    Row("abs abs_ arange", Facts(refuses_bools=True)),
    Row(
        "upsample_nearest1d upsample_nearest2d upsample_nearest3d "
        "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d",
        Facts(floats_or_bytes=True),
    ),
    Row("clamp clamp_ clamp_min clamp_min_ clamp_max clamp_max_", Facts(bounds=True, refuses_bools=True)),
    # -- zeros without memory, which formulas make
    Row("_efficientzerotensor.default", Facts(instead="zeros")),
    # -- batch norms write running statistics in training
    Row(
        "native_batch_norm.default",
        Facts(
            hidden_writes=("running_mean", "running_var"),
            writes_when="training",
            functional="_native_batch_norm_legit_functional.default",
            statistics=True,
        ),
    ),
    Row(
        "cudnn_batch_norm.default miopen_batch_norm.default",
        Facts(hidden_writes=("running_mean", "running_var"), writes_when="training"),
    ),
    Row("_batch_norm_impl_index.default", Facts(hidden_writes=("running_mean", "running_var"))),
    Row("_native_batch_norm_legit.default", Facts(writes_when="training", statistics=True)),
    Row(
        "_native_batch_norm_legit.no_stats _native_batch_norm_legit_functional.default "
        "_native_batch_norm_legit_no_training.default _batch_norm_with_update.default native_group_norm.default "
        "native_layer_norm.default",
        Facts(statistics=True),
    ),
    # -- other writes
    Row("normal_.default", Facts(draws=Draws.BY_DENSITY)),
    Row("bernoulli_.float", Facts(draws=Draws.IN_MEMORY_ORDER)),
    Row("cumsum_.default cumprod_.default", Facts(keeps_dtype=True)),
    Row("copy_.default fill_.Tensor masked_fill_.Scalar masked_fill_.Tensor", Facts(pointwise=True)),
    Row("as_strided.default as_strided_.default as_strided_scatter.default", Facts(absolute_offset=True)),
    # Its offset counts from the start of the memory, which a value does not know.
    Row("as_strided_copy", Facts(refused="aliasing")),
    # Storage or shape change in ways that value semantics cannot express.
    Row(
        "set_ resize_ resize_as_ _resize_output_ set_data requires_grad_ sparse_resize_",
        Facts(refused="metadata-mutation"),
    ),
    # Both tensors share memory until one of them is written, and a program can query that.
    Row("_lazy_clone", Facts(refused="aliasing")),
    # Its result has as much memory as the second tensor, and the same offset in it.
    Row("_new_zeros_with_same_feature_meta", Facts(refused="aliasing")),
    Row("_neg_view", Facts(refused="lazy-bit")),
    Row("_functional_assert_async _assert_scalar sym_constrain_range", Facts(refused="runtime-assert")),
    # -- questions
    Row(
        "size stride dim numel storage_offset is_contiguous is_strides_like_format is_same_size "
        "is_non_overlapping_and_dense is_pinned is_set_to is_complex is_floating_point is_signed is_inference is_leaf "
        "output_nr _version result_type can_cast promote_types _has_compatible_shallow_copy_type "
        "_assert_tensor_metadata _has_same_storage_numel qscheme _use_cudnn_ctc_loss is_neg is_conj "
        "_debug_has_internal_overlap sym_size sym_stride sym_numel sym_storage_offset sym_is_contiguous "
        "sym_constrain_range_for_size",
        Facts(is_question=True),
    ),
    # -- new tensors
    Row("lift_fresh", Facts(lifts_constant=True)),
    Row("zeros ones full arange eye linspace logspace range rand randn randint randperm", Facts(counting_factory=True)),
    Row("scalar_tensor.default empty.memory_format", Facts(factory=True)),
    Row("full.default scalar_tensor.default zeros.default ones.default", Facts(number=True)),
    Row("detach.default", Facts(keeps_number=True)),
    Row("empty empty_like empty_strided empty_permuted new_empty new_empty_strided", Facts(uninitialised=True)),
    # -- kernels with a manner of their own
    Row("kaiser_window", Facts(in_its_result=True)),
    Row("put put_ max_unpool2d max_unpool3d", Facts(nondeterministic=True)),
    Row(
        "_scaled_dot_product_flash_attention.default _scaled_dot_product_cudnn_attention.default",
        Facts(results=2),
    ),
    Row("_unsafe_view.default", Facts(unsafe_view=True)),
    # -- layouts
    Row("view.default _unsafe_view.default", Facts(layout=Layout.VIEW)),
    Row(
        "flip.default sort.default sort.stable tril.default triu.default masked_fill.Scalar masked_fill.Tensor "
        "native_layer_norm.default zeros_like.default ones_like.default full_like.default empty_like.default "
        "clone.default _to_copy.default",
        Facts(layout=Layout.LIKE_OPERAND),
    ),
    Row("index.Tensor addr.default huber_loss.default", Facts(layout=Layout.BY_ALL_OPERANDS)),
    Row("roll.default", Facts(layout=Layout.ROLLED)),
    Row(
        "im2col.default log_sigmoid_forward.default rrelu_with_noise.default pow.Scalar isin.Tensor_Tensor "
        "isin.Tensor_Scalar "
        "poisson.default normal.Tensor_Tensor normal.float_Tensor normal.Tensor_float _standard_gamma.default "
        "_sample_dirichlet.default binomial.default",
        Facts(layout=Layout.ROW_MAJOR),
    ),
    Row(
        "native_batch_norm.default _native_batch_norm_legit.default _native_batch_norm_legit.no_stats "
        "_native_batch_norm_legit_no_training.default",
        Facts(layout=Layout.AS_IT_LIES),
    ),
    # Torch 2.11's fakes of the two-dimensional pads support only one layout.
    Row(
        "native_group_norm.default channel_shuffle.default upsample_nearest2d.default upsample_nearest3d.default "
        "_upsample_nearest_exact2d.default _upsample_nearest_exact3d.default upsample_bilinear2d.default "
        "upsample_trilinear3d.default upsample_bicubic2d.default _upsample_bilinear2d_aa.default "
        "native_channel_shuffle.default reflection_pad2d.default replication_pad2d.default reflection_pad3d.default "
        "replication_pad3d.default",
        Facts(layout=Layout.ROW_MAJOR_OR_CHANNELS_LAST),
    ),
    Row("index_fill.int_Scalar index_fill.int_Tensor", Facts(layout=Layout.LIKE_CLONE)),
    Row(
        "select_scatter.default slice_scatter.default diagonal_scatter.default",
        Facts(layout=Layout.LIKE_CLONE_OF_OVERLAP),
    ),
    Row(
        "copysign.Tensor xlogy.Tensor special_xlog1py.default div.Tensor_mode floor_divide.default heaviside.default "
        "logaddexp.default logaddexp2.default logical_and.default logical_or.default logical_xor.default "
        "logit_backward.default native_dropout_backward.default",
        Facts(layout=Layout.LIKE_SUM),
    ),
    Row("ldexp.Tensor", Facts(layout=Layout.LIKE_PRODUCT)),
    Row("_scaled_dot_product_flash_attention_for_cpu.default", Facts(layout=Layout.LIKE_FIRST)),
)

COLLECTIVES = frozenset({"c10d", "c10d_functional", "_c10d_functional", "_c10d_functional_autograd", "symm_mem"})
"""The namespaces of operators by which processes exchange tensors. Their results are still being written until
``wait_tensor`` is called on that very memory, which a plan would have copied or reused by then."""

_NOTHING = Facts()
_COLLECTIVE = Facts(refused="collective")


def _said(facts: Facts) -> dict[str, Any]:
    """Returns the columns with a non-default value."""
    return {column: value for column, value in facts._asdict().items() if value != Facts._field_defaults[column]}


def _with(known: Facts, more: Facts, name: str) -> Facts:
    """Merges two sets of facts; each fact may be given only once."""
    said = _said(more)
    if twice := said.keys() & _said(known).keys():
        raise ValueError(f"{name}: said twice: {', '.join(sorted(twice))}")
    return known._replace(**said)


def _by_name() -> dict[str, Facts]:
    found: dict[str, Facts] = {}
    for row in ROWS:
        for name in row.operators.split():
            found[name] = _with(found.get(name, _NOTHING), row.facts, name)
    return found


_BY_NAME = _by_name()


@functools.cache
def facts(schema: str) -> Facts:
    """Returns the facts of an operator by its schema, ``aten.cumsum_.default``. Other namespaces have none."""
    namespace, _, name = schema.partition(".")
    if namespace in COLLECTIVES:
        return _COLLECTIVE
    if namespace != "aten":
        return _NOTHING
    return _with(_BY_NAME.get(name, _NOTHING), _BY_NAME.get(name.rpartition(".")[0], _NOTHING), schema)
