"""Programs that a capture cannot handle, or only with care: the call does the same as plain Python, and a reason is
counted.

Each case compares a compiled function with its plain version: result, exception, output and changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import signal
import threading
import weakref

import dynamlir
import forked
import pytest
import torch
from dynamlir import reasons

A = torch.arange(12.0).reshape(3, 4)


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()
    with torch.no_grad():
        yield


def outcome(function, *args):
    """The outcome of a call: its result or exception, and its effects."""
    try:
        return function(*args)
    except Exception as error:
        return type(error), error.args


def same(seen, expected):
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(seen, expected)
    elif isinstance(expected, (list, tuple)):
        assert type(seen) is type(expected) and len(seen) == len(expected)
        for left, right in zip(seen, expected):
            same(left, right)
    else:
        assert seen == expected


def check(function, *args, plain=False):
    """Runs compiled and plain, twice each; ``plain``: the function must not have been captured."""
    compiled = dynamlir.compile(function, backend="python")
    for _ in range(2):
        same(outcome(compiled, *args), outcome(function, *args))
    assert bool(reasons.counts()) == plain, reasons.counts()
    return compiled


# --- code that is not an ordinary function


def test_async_functions():
    async def twice(x):
        await asyncio.sleep(0)
        return x * 2

    compiled = dynamlir.compile(twice)
    for _ in range(2):
        same(asyncio.run(compiled(A)), A * 2)


def test_generators():
    def rows(x):
        for row in x:
            yield row * 2

    compiled = dynamlir.compile(rows)
    for _ in range(2):
        same(list(compiled(A)), list(rows(A)))


def test_a_generator_that_escapes():
    def escaping(x):
        return (row + 1 for row in x)

    compiled = dynamlir.compile(escaping)
    for _ in range(2):
        same(list(compiled(A)), list(escaping(A)))
    assert reasons.counts()


def test_class_bodies():
    def defines(x):
        class Scale:
            by = 3

            def __call__(self, y):
                return y * self.by

        return Scale()(x)

    compiled = dynamlir.compile(defines)
    for _ in range(2):
        same(compiled(A), defines(A))


# --- dynamic code


@pytest.mark.parametrize(
    "function",
    [
        lambda x: eval("x + 1"),
        lambda x: eval("x + y", {"x": x, "y": 2}),
        lambda x: x + len(locals()),
        lambda x: x + len(vars()),
        lambda x: exec("pass") or x * 2,
        lambda x: x + (globals()["A"] is A),
        lambda x: __import__("math").pi * x,
    ],
    ids=["eval", "eval with globals", "locals", "vars", "exec", "globals", "import"],
)
def test_dynamic_names(function):
    compiled = dynamlir.compile(function)
    for _ in range(2):
        same(outcome(compiled, A), outcome(function, A))


# --- depth and length


def test_recursion():
    def down(x, n):
        return x if n == 0 else down(x + 1, n - 1)

    check(down, A, 60)


def test_recursion_without_end():
    def endless(x):
        return endless(x + 1)

    compiled = dynamlir.compile(endless)
    with pytest.raises(RecursionError):
        compiled(A)
    # The thread is in its former state.
    same(dynamlir.compile(lambda x: x + 1)(A), A + 1)


def test_long_loops():
    def sums(x):
        total = 0
        for i in range(200_000):
            total += i & 3
        return x + total

    check(sums, A)


# --- C, and objects that die


def test_ctypes():
    library = ctypes.CDLL(None)

    def absolute(x, n):
        return x + library.abs(n)

    check(absolute, A, -3, plain=True)


def test_weak_references():
    reference = weakref.ref(A)

    def through(x):
        return x + reference()

    check(through, A)


def test_finalizers_run_once_and_when_they_should(capfd):
    class Noisy:
        def __del__(self):
            print("gone")

    def drops(x):
        noisy = Noisy()
        del noisy
        return x + 1

    compiled = dynamlir.compile(drops)
    for _ in range(3):
        same(compiled(A), A + 1)
        gc.collect()
        assert capfd.readouterr().out.count("gone") == 1


# --- threads, processes, signals


def test_a_function_that_starts_a_thread():
    def parallel(x):
        results = []
        thread = threading.Thread(target=lambda: results.append(x + 1))
        thread.start()
        thread.join()
        return results[0]

    check(parallel, A, plain=True)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_forked_child_goes_on():
    compiled = dynamlir.compile(lambda x: x + 1, backend="python")
    compiled(A)
    child = os.fork()
    if child == 0:
        # Only work of Python itself: the child does not have torch's threads.
        status = 1
        with contextlib.suppress(BaseException):
            status = 0 if compiled(A)[0, 0].item() == 1.0 else 2
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_control_c_while_capturing():
    def long(x):
        total = 0
        for i in range(100_000_000):
            total += i
        return x + total

    def interrupt(*_):
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            dynamlir.compile(long)(A)
    finally:
        signal.signal(signal.SIGALRM, former)
    same(dynamlir.compile(lambda x: x + 1)(A), A + 1)


# --- guards


def test_a_guard_that_raises_is_a_miss():
    class Fickle:
        def __init__(self):
            self.value = 2

        def __eq__(self, other):
            raise ValueError("no comparison")

        __hash__ = object.__hash__

    fickle = Fickle()

    def scaled(x, table):
        return x * table[fickle].value

    check(scaled, A, {fickle: fickle})


def test_a_tensor_may_store_anything_under_any_key():
    # Guards look for a `mark_dynamic` mark among the attributes, and a key may run code then. Here the key resizes an
    # input that has already been checked.
    class Key(str):
        def __hash__(self):
            return hash("_dynamo_dynamic_indices")

        def __eq__(self, other):
            victim.resize_(2)
            return False

    compiled = dynamlir.compile(lambda x, y: x + y.sum())
    victim, other = A.clone(), A.clone()
    compiled(victim, other)
    other.note = "a name"
    same(compiled(victim, other), A + A.sum())
    assert len(compiled._cache) == 1
    other.__dict__[Key("odd")] = 1
    result = compiled(victim, other)
    assert victim.shape == (2,)
    same(result, victim + other.sum())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + x._version,
        lambda x: x + x._is_view(),
        lambda x: x + (x._base is None),
        lambda x: (x * 2).t() + x[0]._version,
    ],
    ids=["version", "is view", "base", "version of a part"],
)
def test_what_autograd_knows_of_an_input(function):
    """A fake has its own history: it is not a view of any tensor, and nothing has been written to it."""
    written = torch.zeros(3, 3)
    for _ in range(3):
        written.add_(1)
    check(function, written, plain=True)
    check(function, torch.zeros(4, 3, 3)[1], plain=True)


def test_properties_that_raise_later():
    class Box:
        broken = False

        @property
        def value(self):
            if self.broken:
                raise ValueError("broken")
            return 2

    box = Box()

    def scaled(x):
        return x * box.value

    compiled = dynamlir.compile(scaled)
    same(compiled(A), A * 2)
    box.broken = True
    with pytest.raises(ValueError, match="broken"):
        compiled(A)
    box.broken = False
    same(compiled(A), A * 2)


def test_other_code_for_the_same_function():
    def changing(x):
        return x + 1

    def other(x):
        return x * 5

    compiled = dynamlir.compile(changing)
    same(compiled(A), A + 1)
    changing.__code__ = other.__code__
    same(compiled(A), A * 5)


def test_other_code_for_a_function_that_is_called():
    def inner(x):
        return x + 1

    def other(x):
        return x * 5

    def outer(x):
        return inner(x) + 1

    compiled = dynamlir.compile(outer)
    same(compiled(A), A + 2)
    inner.__code__ = other.__code__
    same(compiled(A), A * 5 + 1)


# --- arguments


@pytest.mark.parametrize(
    "arguments",
    [
        (torch.randn(3, 4).to_sparse(),),
        (torch.randn(3, 4, dtype=torch.complex64),),
        (torch.zeros(0, 4),),
        (torch.tensor(3.0),),
        (torch.randn(4, 1).expand(4, 3),),
        (torch.nn.Parameter(torch.randn(3)),),
        (3,),
        (None,),
        ("text",),
        (A.numpy(),),
    ],
    ids=["sparse", "complex", "empty", "0-d", "expanded", "parameter", "int", "None", "text", "numpy"],
)
@pytest.mark.parametrize("backend", ["dynamlir", "python"])
def test_arguments_of_all_sorts(arguments, backend):
    def doubled(x):
        return x + x

    compiled = dynamlir.compile(doubled, backend=backend)
    for _ in range(2):
        seen, expected = outcome(compiled, *arguments), outcome(doubled, *arguments)
        assert type(seen) is type(expected)
        if isinstance(expected, torch.Tensor) and expected.layout is torch.strided:
            same(seen, expected)
            assert seen.requires_grad == expected.requires_grad


def test_no_callable():
    with pytest.raises(TypeError, match="a function or a module, not int"):
        dynamlir.compile(3)


def broken(*_arguments):
    raise RuntimeError("a bug of ours")


def test_a_capture_that_fails_itself_is_plain_python(monkeypatch):
    monkeypatch.setattr("dynamlir.capture.session.Session.__enter__", broken)
    same(dynamlir.compile(lambda x: x + 1)(A), A + 1)
    assert reasons.counts() == {"internal-error": 1}
    compiled = dynamlir.compile(lambda x: x + 1, fullgraph=True)
    for _ in range(2):
        with pytest.raises(dynamlir.Unsupported, match="a bug of ours"):
            compiled(A)


def test_a_compiler_that_fails_is_plain_python(monkeypatch):
    monkeypatch.setattr("dynamlir._native.compile_trace", broken)
    same(dynamlir.compile(lambda x: x + 1)(A), A + 1)
    assert reasons.counts() == {"internal-error": 1} and "a bug of ours" in str(dynamlir.fallbacks()[0])
    with pytest.raises(dynamlir.Unsupported, match="a bug of ours"):
        dynamlir.compile(lambda x: x + 1, fullgraph=True)(A)


@pytest.mark.parametrize("place", ["__enter__", "input", "run", "finish"])
def test_a_capture_that_fails_itself_is_not_tried_again(monkeypatch, place):
    """A handler in the function does not see the exception either, since it is not the function's own."""

    def function(x, by):
        try:
            return x * by
        except Exception:
            return "handled"

    compiled = dynamlir.compile(function)
    with monkeypatch.context() as patch:
        patch.setattr(f"dynamlir.capture.session.Session.{place}", broken)
        for _ in range(3):
            same(compiled(A, 2), A * 2)
    assert list(reasons.counts().values()) == [1]
    same(compiled(A, 2), A * 2)
    assert len(compiled._cache) == 1, "what was assumed before it failed still holds"
    compiled.reset()
    same(compiled(A, 2), A * 2)
    assert compiled._cache[0].compiled is not None, "the first one was plain Python"


def test_a_capture_that_fails_for_one_argument_is_tried_for_another(monkeypatch):
    compiled = dynamlir.compile(lambda x, flag: x + 1 if flag else x.sum())
    with monkeypatch.context() as patch:
        patch.setattr("dynamlir.capture.session.Session.finish", broken)
        same(compiled(A, True), A + 1)
    same(compiled(A, False), A.sum())
    assert [entry.compiled is None for entry in compiled._cache] == [True, False]


ON_AN_UNKNOWN_PYTHON = """
import dynamlir, torch
from dynamlir import reasons

x = torch.arange(6.0).reshape(2, 3)

@dynamlir.compile
def function(x, by=2):
    return x * by

class Layer(torch.nn.Linear):
    def twice(self, x):
        return self(self(x))

layer = Layer(3, 3).eval()
with torch.no_grad():
    assert torch.equal(function(x), x * 2) and torch.equal(function(x, by=3), x * 3)
    assert torch.equal(dynamlir.compile(layer)(x), layer(x))
    assert torch.equal(dynamlir.compile(layer.twice)(x), layer.twice(x))
    assert reasons.counts() == {"unknown-python": 3}, reasons.counts()
    assert "DYNAMLIR_CAPTURE" in dynamlir.fallbacks()[0].message
    try:
        dynamlir.compile(layer, fullgraph=True)
    except dynamlir.Unsupported as error:
        assert "unknown-python" in str(error)
    else:
        raise AssertionError("fullgraph raises")
    assert "unknown-python" in str(dynamlir.explain(layer)(x))
    dynamlir.reset()
    assert torch.equal(torch.compile(lambda x: (x * 2).relu(), backend="dynamlir")(x), x * 2)
    assert not reasons.counts() and dynamlir.counters()["kernels"] == 1, dynamlir.counters()
"""


def test_on_a_python_whose_frames_are_not_known_all_is_plain():
    """The other front door does not need them."""
    environment = {**os.environ, "DYNAMLIR_CAPTURE": "0"}
    finished = forked.python(ON_AN_UNKNOWN_PYTHON, env=environment)
    assert finished.returncode == 0, finished.stderr


def test_without_the_extension_all_is_plain(monkeypatch):
    def missing():
        raise reasons.Fallback("native-missing", "no such file")

    monkeypatch.setattr("dynamlir.native.module", missing)
    same(dynamlir.compile(lambda x: x + 1)(A), A + 1)
    assert reasons.counts() == {"native-missing": 1}
