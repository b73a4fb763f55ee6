"""Worked examples and exercises of four texts about Dynamo (sections 000 to 003) pass through `dynamlir.compile`: one
test each, named after it.
"""

from __future__ import annotations

import threading

import dynamlir
import pytest
import torch
from dynamlir import reasons
from test_capture import A, B, fresh  # noqa: F401
from test_capture import reference as fn

# --- 000, MiniDynamo


def words(text):
    """A text's lines, without their indentation."""
    return [line.strip() for line in text.strip().splitlines()]


def test_000_5_the_graph(caplog):
    with caplog.at_level("DEBUG", "dynamlir.graph"):
        dynamlir.compile(fn, backend="python")(A, B)
    assert words(caplog.messages[0]) == [
        "Graph:",
        "x = placeholder",
        "y = placeholder",
        "add_0 = torch.add(x, y)",
        "mul_0 = torch.mul(add_0, 2)",
        "sum_0 = mul_0.sum()",
        "return sum_0",
    ]


def test_000_7_what_the_compiler_generates(caplog):
    with caplog.at_level("DEBUG", "dynamlir.output_code"):
        dynamlir.compile(fn, backend="python")(A, B)
    assert words(caplog.messages[0])[-5:] == [
        "def compiled_fn(x, y):",
        "add_0 = __fn_add_0(x, y)",
        "mul_0 = __fn_mul_0(add_0, 2)",
        "sum_0 = mul_0.sum()",
        "return (sum_0,)",
    ]


@pytest.mark.filterwarnings("ignore:`torch.jit.trace` is deprecated")
def test_000_7_the_jit_backend():
    assert dynamlir.compile(fn, backend="jit")(A, B) == fn(A, B)


def test_000_8_guards_in_action():
    compiled = dynamlir.compile(fn)
    compiled(A, B)
    guards, _ = compiled._cache[0]
    for name in ("x", "y"):
        assert f"L['{name}'].shape == (3, 4)" in guards.code_parts
        assert f"L['{name}'].dtype == torch.float32" in guards.code_parts
        assert any(f"L['{name}'].device" in part and "cpu" in part for part in guards.code_parts)
    compiled(torch.randn(3, 4), torch.randn(3, 4))
    assert len(compiled._cache) == 1
    wide = torch.randn(5, 6)
    assert [str(failure).split("=")[0].strip() for failure in guards.failing_guards(wide, wide)] == [
        "L['x'].shape",
        "L['y'].shape",
    ]
    torch.testing.assert_close(compiled(wide, wide), fn(wide, wide))
    assert len(compiled._cache) == 2


def test_000_9_trace_compile_guard_cache_execute():
    compiled = dynamlir.compile(fn)
    assert len(compiled._cache) == 0
    assert compiled(A, B) == fn(A, B)
    assert len(compiled._cache) == 1
    # Both entries remain, and are found in order.
    compiled(torch.ones(5, 6), torch.ones(5, 6))
    compiled(A, B)
    compiled(torch.ones(5, 6), torch.ones(5, 6))
    assert len(compiled._cache) == 2


def many_ops(x, y):
    a = x + y
    b = a * 2
    c = b - x
    d = torch.relu(c)
    e = d / 3
    f = torch.sigmoid(e)
    g = torch.tanh(f)
    h = g * y
    i = h + a
    j = torch.exp(-i)
    return j * 0.5


@pytest.mark.parametrize("backend", ["python", "eager", "aot_eager", "dynamlir"])
def test_000_10_eleven_operations(backend):
    torch.testing.assert_close(dynamlir.compile(many_ops, backend=backend, fullgraph=True)(A, B), many_ops(A, B))


def test_000_10_the_graph_as_fx_and_as_aten():
    from torch.fx.experimental.proxy_tensor import make_fx

    (module,) = dynamlir.explain(many_ops)(A, B).graphs
    ours, plain = make_fx(module)(A, B), make_fx(many_ops)(A, B)
    assert [node.target for node in ours.graph.nodes if node.op == "call_function"] == [
        node.target for node in plain.graph.nodes if node.op == "call_function"
    ]


def test_000_11_control_flow_is_specialized_and_guarded():
    def wide(x):
        return x * 2 if x.shape[0] > 5 else x + 1

    compiled = dynamlir.compile(wide, fullgraph=True)
    for rows in (3, 7):
        x = torch.ones(rows, 2)
        torch.testing.assert_close(compiled(x), wide(x))
    assert len(compiled._cache) == 2


# --- 001, TorchDynamo


def test_001_exercise_1_threads_share_the_cache_and_not_the_hook():
    compiled = dynamlir.compile(many_ops)
    results = {}

    def work(dtype):
        x = A.to(dtype)
        results[dtype] = (compiled(x, x), many_ops(x, x))

    threads = [threading.Thread(target=work, args=(dtype,)) for dtype in (torch.float32, torch.float64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # While one thread compiles, the other runs plain Python; it compiles at its next call.
    for dtype in results:
        thread = threading.Thread(target=work, args=(dtype,))
        thread.start()
        thread.join()
    assert len(compiled._cache) == 2
    for seen, expected in results.values():
        torch.testing.assert_close(seen, expected)


def helper(t):
    if t.shape[0] > 10:
        return t * 2
    return t + 1


def escapes(t):
    if t.sum().item() > 10:
        return t * 2
    return t + 1


def test_001_exercise_2_inlining():
    explanation = dynamlir.explain(lambda x: helper(x))(A)
    assert (explanation.graph_count, explanation.graph_break_count) == (1, 0)
    # Inlined: the callee's operation is in the graph, the branch is not.
    assert [line for line in explanation.ops if "add" in line]
    assert not [line for line in explanation.ops if "mul" in line]
    assert any("L['x'].shape" in part for part in explanation.guards)


def test_001_exercise_2_item_is_data_dependent():
    explanation = dynamlir.explain(lambda x: escapes(x))(A)
    ((reason, traceback),) = explanation.break_reasons
    assert "data-dependent" in reason
    assert traceback[0][2] == "escapes"


def test_001_3_3_worked_example_and_exercise_3_its_guards():
    compiled = dynamlir.compile(lambda x: x + 1, backend="python")
    compiled(A)
    entry = compiled._cache[0]
    # One operation; its 1 is not a node.
    assert dynamlir.explain(lambda x: x + 1)(A).ops == ("add_0 = torch.add(x, 1)",)
    parts = entry.check_fn.code_parts
    for predicate in ("L['x'].dtype == torch.float32", "L['x'].shape == (3, 4)"):
        assert predicate in parts
    for subject in ("device", "requires_grad"):
        assert any(f"L['x'].{subject}" in part for part in parts)
    # Called with float64, the dtype guard fails.
    assert "dtype" in str(entry.check_fn.failing_guards(A.double())[0])


class Config:
    dtype = torch.float32


def test_001_exercise_4_guard_composition():
    def cast(x, cfg):
        return x.to(cfg.dtype) * 2

    compiled = dynamlir.compile(cast, fullgraph=True)
    config = Config()
    compiled(A.double(), config)
    parts = compiled._cache[0].check_fn.code_parts
    # The value, found in the class; the object has none of its own; and the object is of that class.
    assert "___lookup(type(L['cfg']), 'dtype') is torch.float32" in parts
    assert "'dtype' not in L['cfg'].__dict__" in parts
    assert any(part.startswith("___check_type_id(L['cfg'],") for part in parts)
    config.dtype = torch.float16
    assert compiled(A.double(), config).dtype == torch.float16
    assert len(compiled._cache) == 2


def test_001_5_3_fullgraph():
    def prints(x):
        print(x.shape)
        return x + 1

    with pytest.raises(dynamlir.Unsupported, match="print"):
        dynamlir.compile(prints, fullgraph=True)(A)


def test_001_exercise_5_breaks(capfd):
    def breaks(x):
        a = x.relu()
        print(a.shape)
        b = a * 2
        if a.sum().item() > 0:
            return b + 1
        return b - 1

    compiled = dynamlir.compile(breaks)
    torch.testing.assert_close(compiled(A), breaks(A))
    assert capfd.readouterr().out == "torch.Size([3, 4])\n" * 2
    # Three graphs: up to the print, up to the branch, and the branch that was taken.
    assert reasons.counts() == {"print": 1, "data-dependent": 1}
    assert dynamlir.counters()["graphs"] == 3


def test_001_exercise_6_cache_sizing():
    compiled = dynamlir.compile(many_ops, dynamic=False)
    for dtype in (torch.float32, torch.float16):
        for batch in (16, 32, 64):
            x = torch.ones(batch, 4, dtype=dtype)
            compiled(x, x)
    # Six specializations fit into the limit of eight.
    assert len(compiled._cache) == 6
    assert not reasons.counts()


def test_001_exercise_6_beyond_the_limit():
    compiled = dynamlir.compile(many_ops, backend="python")
    with pytest.warns(UserWarning, match="entries"):
        for batch in range(1, 50):
            x = torch.ones(batch, 4)
            torch.testing.assert_close(compiled(x, x), many_ops(x, x))
    assert len(compiled._cache) == 8


def test_001_exercise_7_diagnostic_workflow():
    def slow(x):
        a = x.relu()
        return a + a.sum().tolist()

    # The symptom has a count, the count a reason, the reason the user's line.
    explanation = dynamlir.explain(slow)(A)
    assert explanation.graph_break_count == 1
    ((reason, traceback),) = explanation.break_reasons
    assert "tolist" in reason
    file, line, function, _ = traceback[0]
    assert (file, function) == (__file__, "slow")
    assert line == slow.__code__.co_firstlineno + 2

    def mended(x):
        a = x.relu()
        return a + a.sum()

    assert dynamlir.explain(mended)(A).graph_break_count == 0
    torch.testing.assert_close(dynamlir.compile(mended, fullgraph=True)(A), slow(A))


def test_001_7_3_logs_and_bytecode(caplog):
    compiled = dynamlir.compile(helper)
    for topic in ("bytecode", "guards", "recompiles"):
        caplog.set_level("DEBUG", f"dynamlir.{topic}")
    compiled(A)
    compiled(A.double())
    said = {record.name: record.getMessage() for record in caplog.records}
    bytecode = "\n".join(record.getMessage() for record in caplog.records if record.name == "dynamlir.bytecode")
    assert "if t.shape[0] > 10:" in bytecode and "graph_out = __compiled_graph_" in bytecode
    assert "L['t'].dtype == torch.float64" in said["dynamlir.guards"]
    assert "L['t'].dtype == torch.float32" in said["dynamlir.recompiles"]
    assert "LOAD_FAST" in dynamlir.disassemble(compiled)
    # The source that bytecode is decompiled to means the same.
    namespace = {}
    exec(dynamlir.decompile(compiled), namespace)
    assert namespace["helper"].__code__.co_code == helper.__code__.co_code


# --- 002, Dynamo Overview


def abs_part(a, b):
    x = a / (torch.abs(a) + 1)
    return x, b.sum() < 0


def test_002_a_compiler_of_ones_own(capfd):
    def my_compiler(module: torch.fx.GraphModule, example_inputs: list[torch.Tensor]):
        print("my_compiler() called with FX graph:")
        for node in module.graph.nodes:
            print(node.op, node.name, node.target, node.args, node.kwargs)
        assert [tuple(example.shape) for example in example_inputs] == [(10,), (10,)]
        return module.forward

    compiled = dynamlir.compile(abs_part, backend=my_compiler)
    for _ in range(10):
        a, b = torch.randn(10), torch.randn(10)
        for seen, expected in zip(compiled(a, b), abs_part(a, b)):
            torch.testing.assert_close(seen, expected)
    printed = capfd.readouterr().out
    assert printed.count("my_compiler() called") == 1
    rows = [line.split()[0] for line in printed.splitlines() if line.startswith(("placeholder", "call_", "output"))]
    assert rows.count("placeholder") == 2
    assert rows[-1] == "output"


def test_002_inspecting_the_artifacts():
    compiled = dynamlir.compile(abs_part)
    compiled(torch.randn(10), torch.randn(10))
    guard = compiled._cache[0].check_fn
    assert any(part.startswith("L['a'].shape") for part in guard.code_parts)
    # The guard takes the frame's variables and returns true if the entry fits.
    assert guard({"a": torch.randn(10), "b": torch.randn(10)})
    assert not guard({"a": torch.randn(11), "b": torch.randn(10)})
    # The work of a cache, in Python.
    (entry,) = compiled._cache
    guards, code = entry
    assert guards.check_all(torch.randn(10), torch.randn(10))
    assert callable(code)


def test_002_a_branch_on_data_runs_as_plain_python():
    def toy_example(a, b):
        x = a / (torch.abs(a) + 1)
        if b.sum() < 0:
            b = b * -1
        return x * b

    compiled = dynamlir.compile(toy_example)
    for _ in range(5):
        a, b = torch.randn(10), torch.randn(10)
        torch.testing.assert_close(compiled(a, b), toy_example(a, b))
    assert set(reasons.counts()) == {"data-dependent-branch"}


# --- 003, Torch Internal


def test_003_what_recompiles():
    def foo(x, y):
        return (x + y) * x

    compiled = dynamlir.compile(foo)
    calls = [
        ((torch.randn(10), torch.ones(10)), 1),
        ((torch.randn(10), torch.ones(10)), 1),
        ((torch.randn(20), torch.ones(20)), 2),
        ((torch.randn(10, dtype=torch.float64), torch.ones(10, dtype=torch.float64)), 3),
    ]
    for arguments, entries in calls:
        torch.testing.assert_close(compiled(*arguments), foo(*arguments))
        assert len(compiled._cache) == entries


def test_003_a_linear_sequence_of_instructions():
    def repeated(x):
        for _ in range(3):
            x = torch.relu(x)
        return x

    assert sum("relu" in line for line in dynamlir.explain(repeated)(A).ops) == 3
