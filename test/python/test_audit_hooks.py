"""Audit hooks run wherever C code does something that is audited; their code is not part of the program."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.native


def run(program: str) -> str:
    """What a program prints in a process of its own: an audit hook stays for ever."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
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
