"""Audit hooks run wherever C code raises an audit event; their code is not part of the program."""

from __future__ import annotations

import textwrap

import forked


def run(program: str) -> str:
    """The output of a program in its own process, since an audit hook cannot be removed."""
    done = forked.python(textwrap.dedent(program))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_audit_hooks_run_and_are_not_captured() -> None:
    assert (
        run("""
        import sys, torch, dynamlir

        class State:
            seen = 0

        state = State()

        def audit(event, arguments):
            state.seen += event == "object.__getattr__"

        def f(x):
            return x * f.__code__.co_argcount

        sys.addaudithook(audit)
        compiled = dynamlir.compile(f, fullgraph=True)
        seen = [compiled(torch.ones(1)).item() for _ in range(2)]
        print(seen, state.seen > 0, dynamlir.counters()["fallbacks"])
        """)
        == "[1.0, 1.0] True {}"
    )


def test_what_an_audit_hook_calls_runs_plain() -> None:
    assert (
        run("""
        import sys, warnings, torch, dynamlir

        warnings.simplefilter("ignore")
        x, got, calls = torch.ones(1), [], []

        @dynamlir.compile
        def f(x):
            calls.append(1)
            return x + 1

        def audit(event, arguments):
            if event == "mine":
                got.append(f(x).item())

        sys.addaudithook(audit)
        sys.audit("mine")
        sys.audit("mine")
        print(got, len(calls))
        """)
        == "[2.0, 2.0] 2"
    )


def test_what_a_signal_handler_raises_in_an_audit_hook_reaches_the_caller() -> None:
    """For any attribute: guards, for example, take an object for a different one if reading its `__code__` raises."""
    said = run("""
        import signal, sys, torch, dynamlir

        class Deadline(Exception):
            pass

        def handler(*args):
            raise Deadline

        def audit(event, arguments):
            global left
            if event == "object.__getattr__":
                left -= 1
                if left == 0:
                    signal.raise_signal(signal.SIGUSR1)

        def shift(x, by=1.5):
            return torch.add(x, by)

        left = 0
        signal.signal(signal.SIGUSR1, handler)
        sys.addaudithook(audit)
        x = torch.ones(2)
        compiled = dynamlir.compile(lambda x: shift(x).sin())
        compiled(x)
        raised = 0
        while True:
            compiled = dynamlir.compile(lambda x: shift(x).sin() + raised)
            left = raised + 1
            try:
                compiled(x)
            except Deadline:
                raised += 1
                continue
            break
        print(raised > 0, left > 0, dynamlir.counters()["fallbacks"])
        """)
    assert said == "True True {}"
