"""``python -m dynamlir``: its commands as a user starts them, with good input and bad."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import dynamlir
import pytest
import torch
from dynamlir.cli import callables, command_line, facts, printing

SHORT = 40


def real(*arguments: str, cwd: Path | None = None, module: str | None = "dynamlir", **variables: str):
    """Runs ``python -m dynamlir`` in a process of its own; without a module, Python itself."""
    command = [sys.executable, *(() if module is None else ("-m", module)), *arguments]
    environment = {**os.environ, **variables}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose torch cannot be imported."""
    folder = tmp_path_factory.mktemp("without-torch")
    (folder / "torch.py").write_text('raise RuntimeError("torch is broken")\n')
    return folder


# -- arguments


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["bench", "--help"], ["completion", "bash"], ["run", "--logs", "help"]]
)
def test_no_import_of_torch_where_nothing_needs_it(without_torch: Path, arguments: list[str]) -> None:
    done = real(*arguments, cwd=without_torch)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout


def test_without_a_command_there_is_help() -> None:
    assert real().stdout == real("--help").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dcotor"], "invalid choice: 'dcotor'"),
        (["env", "--jsn"], "unrecognized arguments: --jsn"),
        (["run"], "nothing to run"),
        (["run", "missing.py"], "there is no script missing.py"),
        (["run", "-m", "no_such_module_at_all"], "there is no module no_such_module_at_all"),
        (["run", "-m"], "-m needs the name of a module"),
        (["run", "--logs", "recompile", "x.py"], "did you mean 'recompiles'?"),
        (["run", "--report", "torch.py/report", "torch.py"], "nothing can be written to"),
        (["explain", "--inputs", "3", "torch.py"], "--inputs is for module:function"),
        (["completion", "tcsh"], "invalid choice: 'tcsh'"),
    ],
)
def test_bad_arguments_are_one_line(without_torch: Path, arguments: list[str], message: str) -> None:
    done = real(*arguments, cwd=without_torch)
    assert done.returncode in (1, 2) and done.stdout == ""
    assert message in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["env", "doctor", "run", "explain", "bench", "completion"])
def test_help_fits_a_narrow_terminal(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(SHORT))
    own = command_line.parser()._subparsers._group_actions[0].choices[command]  # type: ignore[union-attr,index]
    text, _, examples = own.format_help().partition("examples:")
    assert max(map(len, text[text.index("\n\n") :].splitlines())) <= SHORT
    assert "python -m dynamlir" in examples or "completion" in examples


def test_the_interpreter_s_own_options_are_passed_on(tmp_path: Path) -> None:
    (tmp_path / "show.py").write_text("import sys; print(sys.flags.utf8_mode, sys.flags.optimize, sys.warnoptions)\n")
    for started in (["-Xutf8", "-OW", "error", "-m", "dynamlir"], ["-X", "utf8", "-O", "-Werror", "-mdynamlir"]):
        done = real(*started, "run", "show.py", cwd=tmp_path, module=None)
        assert done.stdout == "1 1 ['error']\n", done.stderr


# -- run

PROGRAM = """
import os, sys
print(sys.argv[1:], sys.path[0], __name__, os.path.basename(__file__), __package__)
def fail():
    {end}
if __name__ == "__main__":
    fail()
"""
ENDS = ["pass", "raise ValueError('no')", "sys.exit('enough')", "sys.exit(7)", "os.kill(os.getpid(), 15)"]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("options", [[], ["--error-on-plain"]], ids=["plainly", "watched"])
def test_a_program_runs_as_python_runs_it(tmp_path: Path, end: str, options: list[str]) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.format(end=end))
    for program in (["program.py", "--flag", "-m", "x"], ["-m", "program", "--help"]):
        plain, ours = real(*program, cwd=tmp_path, module=None), real("run", *options, "--", *program, cwd=tmp_path)
        assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert plain.returncode == {0: 0, 1: 1, 2: 1, 3: 7, 4: -signal.SIGTERM}[ENDS.index(end)]


def test_options_become_the_program_s_settings(tmp_path: Path) -> None:
    (tmp_path / "show.py").write_text(
        "import os; print(os.environ['DYNAMLIR_LOGS'], os.environ['DYNAMLIR_REPORT'], os.environ['DYNAMLIR_DUMP'])\n"
    )
    options = ["--logs", "perf,+cache", "--report=made/report"]
    done = real("run", *options, "show.py", cwd=tmp_path, DYNAMLIR_DUMP="d")
    assert done.stdout == f"perf,+cache {tmp_path}/made/report d\n" and (tmp_path / "made" / "report").is_dir()


BREAKS = """
import sys, dynamlir, torch

def scaled(x):
    y = x * 2
    scale = y.mean().tolist()
    return y + scale

def whole(x, name):
    return x + 1 if name == "a" else x - 1

if __name__ == "__main__":
    compiled = dynamlir.compile(whole)
    compiled(torch.ones(3), "a"), compiled(torch.ones(3), "b")
    if "broken" in sys.argv:
        dynamlir.compile(scaled)(torch.ones(3))
        torch.compile(scaled, backend="dynamlir")(torch.ones(4))
"""


@pytest.fixture(scope="module")
def breaks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "breaks.py"
    path.write_text(BREAKS)
    return path


def test_what_runs_plain_is_an_error_on_request(breaks: Path) -> None:
    done = real("run", "--error-on-plain", str(breaks), "broken", PYTHONWARNINGS="ignore")
    assert done.returncode == 1 and done.stdout == ""
    line = BREAKS.splitlines().index("    scale = y.mean().tolist()") + 1
    assert done.stderr.count(f"{breaks}:{line} in scaled") == 2  # by each of the front doors
    assert done.stderr.count("scale = y.mean().tolist()") == 2 and "data-dependent:" in done.stderr
    assert "(torch.compile)" in done.stderr and "Hint:" in done.stderr


def test_a_program_is_explained(breaks: Path) -> None:
    done = real("explain", str(breaks), COLUMNS=str(SHORT))
    assert done.returncode == 0 and done.stderr == ""
    text = " ".join(done.stdout.split())
    assert "dynamlir: 2 graphs compiled whole 2 graphs:" in text
    assert "compiled again, since this failed: L['name'] == 'a'" in text
    assert "Nothing that was to be compiled ran as plain Python." in text
    assert max(map(len, done.stdout.splitlines())) <= SHORT


# -- explain and bench of functions


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", sys.path[:])
    path = tmp_path / "functions_of_a_user.py"
    path.write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.linear = torch.nn.Linear(4, 4)\n"
        "    def forward(self, x, scale=1.0):\n"
        "        return self.linear(x).relu() * scale\n"
        "class Sized(Net):\n"
        "    def __init__(self, size): ...\n"
        "def fails(x):\n"
        "    raise ValueError('as it should')\n"
        "def wrong(x):\n"
        "    return x + torch.compiler.is_compiling()\n"
        "def make():\n"
        "    return Net(), (torch.ones(2, 4),), {'scale': 2.0}\n"
    )
    return path


def test_a_call_is_explained(functions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["explain", f"{functions}:Net", "--inputs", "torch.ones(2, 4), scale=3.0"]) == 0
    out = capsys.readouterr().out
    assert "graphs: 1, breaks: 0, operations: 3" in out and f"{functions}:7" in out


@pytest.mark.parametrize("options", [[], ["--train"], ["--torch-compile", "--json"]])
def test_a_benchmark(functions: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["bench", str(functions), "--seconds", "0.01", "--no-inductor", *options]) == 0
    out = capsys.readouterr().out
    if "--json" in options:
        made = json.loads(out)
        assert list(made["contestants"]) == ["eager", "dynamlir"] and made["plain"] == []
        assert all(len(one["seconds"]) == made["rounds"] >= 5 for one in made["contestants"].values())
        low, middle, high = made["ratios"]["eager"]
        assert 0 < low <= middle <= high
        return
    assert "2x4 float32, 2.0" in out and re.search(r"^dynamlir +[\d.]+ [µm]?s \(.*–.*\) +[\d.]+ s$", out, re.MULTILINE)
    assert re.search(r"dynamlir is [\d.]+ times as fast as eager \([\d.]+–[\d.]+\)", out)
    assert max(map(len, out.splitlines()[2:-2])) <= 48


def test_a_benchmark_without_a_compiler_for_inductor(
    functions: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from torch._inductor.exc import InvalidCxxCompiler

    def compiles_nothing(function: object, **options: object) -> object:
        def call(*arguments: object, **named: object) -> None:
            raise InvalidCxxCompiler

        return call

    monkeypatch.setattr(torch, "compile", compiles_nothing)
    assert command_line.main(["bench", str(functions), "--seconds", "0.01"]) == 0
    out = capsys.readouterr().out
    assert "inductor is left out: it needs a C++ compiler, and finds none that works (CXX)" in out
    assert "\ninductor  " not in out and "times as fast as eager" in out


def test_a_benchmark_of_a_wrong_result(functions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    function = [f"{functions}:wrong", "--inputs", "torch.ones(3)"]
    assert command_line.main(["bench", *function, "--seconds", "0.01", "--no-inductor"]) == 1
    assert "dynamlir's result differs from eager's by 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{file}:nothing"], "has no nothing; it has torch, Net"),
        (["{file}:Sized"], "needs arguments to be created"),
        (["{file}:fails"], "fails needs x: give --inputs"),
        (["{file}:torch"], "is not callable"),
        (["{file}:Net", "--inputs", "torch.ones("], "--inputs: SyntaxError"),
        (["{file}:Net", "--inputs", "torch.ones(2, 4)", "--mode", "fast"], "unknown mode 'fast'"),
        (["{file}", "--inputs", "3"], "`make` returns the inputs too"),
        (["missing.py:f"], "there is no file missing.py"),
        (["no_such_module:f"], "there is no module no_such_module"),
        (["no.such.module:f"], "there is no module no.such.module"),
        (["json"], "has no function `make`"),
        (["{file}", "--seconds", "0"], "has to be a positive number"),
    ],
)
def test_functions_that_cannot_be_called(
    functions: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["bench", *(part.format(file=functions) for part in arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and message in err and err.startswith("dynamlir: error: ") and err.count("\n") == 1


@pytest.mark.parametrize("command", ["bench", "explain"])
def test_the_function_s_own_error_has_no_frames_of_ours(
    functions: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main([command, f"{functions}:fails", "--inputs", "torch.ones(3)"]) == 1
    err = capsys.readouterr().err
    assert f'File "{functions}", line 11, in fails' in err and err.endswith("ValueError: as it should\n")
    assert os.path.dirname(callables.__file__) not in err


# -- the program, and completion


def test_the_installed_program_is_the_same() -> None:
    program = Path(__file__).resolve().parents[3] / "python" / "data" / "scripts" / "dynamlir"
    done = real(str(program), "--version", module=None)
    assert (done.returncode, done.stdout) == (0, real("--version").stdout) and done.stderr == ""


def test_bash_completes() -> None:
    script = real("completion", "bash").stdout
    for words, expected in [
        (["d"], "doctor"),
        (["run", "--r"], "--report"),
        (["completion", "z"], "zsh"),
        (["env", "--js"], "--json"),
        (["bench", "no"], ""),
    ]:
        line = f"COMP_WORDS=(dynamlir {' '.join(words)}); COMP_CWORD={len(words)}; _dynamlir; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(["bash", "-c", f"{script}\n{line}"], capture_output=True, text=True)
        assert (done.stdout.strip(), done.stderr) == (expected, "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_script(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = real("completion", shell).stdout
    check = {"zsh": "compdef() {}; ", "fish": ""}[shell] + script
    ask = {"zsh": "functions _dynamlir >/dev/null && echo there", "fish": "complete -C 'dynamlir doc'"}[shell]
    done = subprocess.run([shell, "-c", f"{check}\n{ask}"], capture_output=True, text=True)
    assert done.stderr == "" and {"zsh": "there", "fish": "doctor"}[shell] in done.stdout


# -- env


def test_env_has_what_a_report_needs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DYNAMLIR_AUDIT", "0.5")
    monkeypatch.setenv("TORCH_LOGS", "dynamo")
    monkeypatch.setenv("DYNAMLIR_TOKEN", "hidden-token")
    monkeypatch.setenv("DYNAMLIR_CACHE_DIR", os.path.expanduser("~/measured"))
    monkeypatch.setenv("CUDA_URL", "https://me:hidden-password@host/")
    with dynamlir.config.patch(unroll_limit=77):
        assert command_line.main(["env", "--json"]) == 0
        text = capsys.readouterr().out
        found = json.loads(text)
        assert command_line.main(["env"]) == 0
    out = capsys.readouterr().out
    assert re.fullmatch(rf"{re.escape(dynamlir.__version__)} \(LLVM \d+\.\d+\.\d+\)", found["dynamlir"])
    assert torch.__version__ in found["torch"] and "avx2" in found["instructions"] + " avx2 neon"
    assert found["settings"] == {"audit": 0.5, "cache_dir": "~/measured", "unroll_limit": 77}
    assert found["environment"]["TORCH_LOGS"] == "dynamo" and "hidden" not in text + out
    assert not any(str(value).startswith("unknown") for value in found.values())
    assert "unroll_limit=77" in out and f"packages      numpy={found['packages']['numpy']}" in out


def test_env_of_a_broken_installation(without_torch: Path) -> None:
    done = real("env", cwd=without_torch)
    assert done.returncode == 0 and done.stderr == ""
    assert "torch         unknown: RuntimeError: torch is broken" in done.stdout and "processor" in done.stdout


def test_names_and_values_below_each_other_where_it_is_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(SHORT))
    text = printing.pairs((name, str(value)) for name, value in [("a", "word " * 20), ("b", "one\ntwo")])
    assert max(map(len, text.splitlines())) <= SHORT and text.endswith("b\n  one\n  two")
    assert facts.shown(os.path.expanduser("~/x ~/y")) == "~/x ~/y"


# -- doctor


def test_a_healthy_installation() -> None:
    done = real("doctor", "--json", DYNAMLIR_CAHCE_DIR="x", OMP_NUM_THREADS="1")
    steps = {step["step"]: step for step in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0 and "problem" not in {step["level"] for step in steps.values()}, done.stdout
    for name in ("dynamlir.compile", "torch.compile"):
        assert steps[name]["text"].startswith("equals eager, with gradients")
    assert steps["variables"]["cure"] == "Did you mean DYNAMLIR_CACHE_DIR?"
    assert list(steps)[-1] == "folders"


def test_a_broken_installation(without_torch: Path) -> None:
    done = real("doctor", cwd=without_torch, COLUMNS=str(SHORT))
    assert done.returncode == 1 and done.stderr == ""
    assert "problem  import torch: RuntimeError:\n         torch is broken\n" in done.stdout
    assert done.stdout.endswith("\n1 problem, no warnings\n")
    assert max(map(len, done.stdout.splitlines())) <= SHORT


def test_an_installation_that_ends_the_process(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGILL)\n")
    done = real("doctor", cwd=tmp_path)
    assert done.returncode == 1
    assert "import torch: the process was ended by SIGILL during this step" in done.stdout
