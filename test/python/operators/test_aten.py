"""Checks that the table of facts about torch's operators names existing operators and states true facts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
from dynamlir import reasons
from dynamlir.aten import schema, table
from torch._ops import OpOverload


def overloads(name: str) -> list[OpOverload]:
    """The overloads that a row's name represents."""
    packet_name, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, packet_name)
    return [getattr(packet, overload)] if overload else [getattr(packet, every) for every in packet.overloads()]


def having(column: str) -> Iterator[OpOverload]:
    """The operators for which a fact is recorded."""
    for row in table.ROWS:
        if getattr(row.facts, column) != table.Facts._field_defaults[column]:
            for name in row.operators.split():
                yield from overloads(name)


def argument_names(op: OpOverload) -> list[str]:
    return [argument.name for argument in op._schema.arguments]


@pytest.mark.parametrize("name", sorted({name for row in table.ROWS for name in row.operators.split()}))
def test_operators_exist_and_have_their_facts(name: str) -> None:
    rows = [row for row in table.ROWS if name in row.operators.split()]
    found = overloads(name)
    assert found
    for op in found:
        facts = schema.info(op).facts
        for row in rows:
            for column, value in row.facts._asdict().items():
                assert value in (table.Facts._field_defaults[column], getattr(facts, column))


def test_a_fact_is_said_once() -> None:
    with pytest.raises(ValueError, match="said twice: factory"):
        table._with(table.Facts(factory=True), table.Facts(factory=True), "x")


def test_others_have_no_facts() -> None:
    assert table.facts("mine.zeros.default") == table.facts("aten.add.Tensor") == table.Facts()


def test_hidden_writes_are_arguments_and_not_in_the_schema() -> None:
    for op in having("hidden_writes"):
        written = {argument.name for argument in op._schema.arguments if argument.is_write}
        hidden = set(schema.info(op).facts.hidden_writes)
        assert hidden <= set(argument_names(op)) and not hidden & written


def test_conditions_are_flags_of_the_operator() -> None:
    for op in having("writes_when"):
        condition = schema.info(op).facts.writes_when
        assert [str(argument.type) for argument in op._schema.arguments if argument.name == condition] == ["bool"]


def test_named_variants_return_what_is_written() -> None:
    for op in having("functional"):
        variant = schema.functional_variant(op)
        assert variant is not None and not any(argument.is_write for argument in variant._schema.arguments)
        written = sum(argument.written for argument in schema.info(op).arguments)
        fresh = sum(result.alias_info is None for result in op._schema.returns)
        assert len(variant._schema.returns) == written + fresh


def test_in_place_views_take_what_their_views_take() -> None:
    names = ["as_strided", "detach", "squeeze", "swapaxes", "swapdims", "t", "transpose", "unsqueeze"]
    for op in [op for name in names for op in overloads(f"{name}_")]:
        view = schema.inplace_view(op)
        assert view is not None and schema.info(op).inplace_view and not schema.info(view).inplace_view
        assert str(view).startswith(op._schema.name.replace("::", ".")[:-1])
        assert argument_names(op) == argument_names(view)
    assert schema.inplace_view(torch.ops.aten.resize_.default) is None  # has a variant, but not a view


def test_sums_in_place_keep_their_element_type() -> None:
    for op in having("keeps_dtype"):
        variant = schema.functional_variant(op)
        x = torch.tensor([1, 2], dtype=torch.int32)
        assert op(x.clone(), 0).dtype is torch.int32 and variant(x, 0).dtype is torch.int64


def test_pointwise_operators_lack_the_tag() -> None:
    for op in having("pointwise"):
        assert torch.Tag.pointwise not in op.tags


def test_refusals_have_reasons() -> None:
    for op in having("refused"):
        assert schema.info(op).facts.refused in reasons.REASONS


def test_questions_return_no_tensor() -> None:
    for op in having("is_question"):
        assert not any("Tensor" in str(result.type) for result in op._schema.returns)


FACTORIES = {"full": ([2], 3.0), "arange": (5,), "eye": (3,), "linspace": (0, 1, 3), "logspace": (0, 1, 3)}
FACTORIES |= {"range": (0, 3), "randint": (5, [2]), "randperm": (4,)}


@pytest.mark.parametrize("name", sorted({op._schema.name.split("::")[1] for op in having("counting_factory")}))
@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
def test_factories_count_where_python_hides_it(name: str) -> None:
    args = FACTORIES.get(name, ([2],))
    assert getattr(torch.ops.aten, name)(*args)._version == 1
    assert getattr(torch, name)(*args)._version == 0


def test_what_makes_a_number_makes_one_of_no_tensor() -> None:
    for op in [*having("number"), *having("factory")]:
        assert not any(str(argument.type) == "Tensor" for argument in op._schema.arguments)


def test_attention_returns_two_tensors_first() -> None:
    for op in having("results"):
        count = schema.info(op).facts.results
        assert [str(result.type) for result in op._schema.returns[:count]] == ["Tensor"] * 2


def test_nondeterministic_operators_raise_or_warn() -> None:
    x, index = torch.zeros(4), torch.tensor([1])
    pooled, places = torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 1, 1, dtype=torch.int64)
    calls = [
        lambda: torch.ops.aten.put(x, index, torch.ones(1)),
        lambda: torch.ops.aten.put_(x, index, torch.ones(1)),
        lambda: torch.ops.aten.max_unpool2d(pooled, places, [2, 2]),
        lambda: torch.ops.aten.max_unpool3d(pooled[0], places[0][None], [2, 2, 2], [2, 2, 2], [0, 0, 0]),
    ]
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        for call in calls:
            with pytest.raises(RuntimeError, match="deterministic"):
                call()
    finally:
        torch.use_deterministic_algorithms(before)


@pytest.mark.parametrize(
    "op", [op for op in having("layout") if schema.info(op).facts.layout is table.Layout.ROW_MAJOR], ids=str
)
def test_row_major_results(op: OpOverload) -> None:
    x = torch.rand(3, 4).t()
    ints = ("int", "float", "number", "Scalar")
    args = [
        x if str(argument.type) == "Tensor" else 0.5
        for argument in op._schema.arguments
        if str(argument.type) in ("Tensor", *ints) and not argument.has_default_value()
    ]
    if str(op) == "aten.isin.Tensor_Tensor":
        args[1] = args[1].contiguous()  # the kernel flattens it
    if str(op) == "aten.im2col.default":
        x = torch.rand(2, 3, 4, 4).permute(0, 2, 3, 1)
        args = [x, [2, 2], [1, 1], [0, 0], [1, 1]]
    out = op(*args)
    first = out[0] if isinstance(out, tuple) else out
    assert first.is_contiguous() and not x.is_contiguous()


def strided(x: torch.Tensor) -> torch.Tensor:
    return x[1:].as_strided((2,), (1,), 3) + 0


def strided_in_place(x: torch.Tensor) -> torch.Tensor:
    y = x[1:]
    y.as_strided_((2,), (1,), 3)
    return y + 0


@pytest.mark.parametrize("fn", [strided, strided_in_place])
@pytest.mark.parametrize("door", [dynamlir.compile, functools.partial(torch.compile, backend="dynamlir")])
def test_views_that_count_from_the_start(fn: Callable[..., torch.Tensor], door: Callable[..., Any]) -> None:
    """The start of an input within its memory matters to these views: an entry for one offset does not fit others."""
    compiled = door(fn)
    memory = torch.arange(20.0)
    for start in (2, 3, 4, 2):
        given = memory[start : start + 10]
        torch.testing.assert_close(compiled(given), fn(given))


def test_batch_norm_writes_its_statistics_only_in_training() -> None:
    op = torch.ops.aten.native_batch_norm.default
    x, v = torch.ones(2, 3), torch.ones(3)
    assert schema.written_arguments(op, [x, v, v, v, v, True, 0.1, 1e-5]) == [3, 4]
    assert schema.written_arguments(op, [x, v, v, v, v, False, 0.1, 1e-5]) == []


@pytest.mark.parametrize(
    ("name", "functional"),
    [
        ("aten.add_.Tensor", "aten.add.Tensor"),
        ("aten.add.out", "aten.add.Tensor"),
        ("aten.copy_.default", "aten.copy.default"),
        ("aten.fill_.Scalar", "aten.fill.Scalar"),
        ("aten.index_put_.default", "aten.index_put.default"),
        ("aten.bernoulli_.float", "aten.bernoulli.p"),
        ("aten._foreach_add_.Scalar", "aten._foreach_add.Scalar"),
        ("aten.max.dim_max", "aten.max.dim"),
        ("aten.resize_.default", None),
    ],
)
def test_functional_variants(name: str, functional: str | None) -> None:
    op = schema.find(name)
    assert op is not None
    found = schema.functional_variant(op)
    if name == "aten.resize_.default":
        return  # refused by name, regardless of its variants
    assert str(found) == functional


def test_every_mutating_operator_has_a_plausible_variant_or_none() -> None:
    for name in {each.name for each in torch._C._jit_get_all_schemas() if each.name.startswith("aten::")}:
        packet = getattr(torch.ops.aten, name.removeprefix("aten::"), None)
        if not isinstance(packet, torch._ops.OpOverloadPacket):
            continue
        for overload in (getattr(packet, entry) for entry in packet.overloads()):
            if schema.info(overload).has_written:
                found = schema.functional_variant(overload)
                assert found is None or not schema.info(found).has_written
