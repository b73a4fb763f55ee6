"""The wheel: its contents, and that it works with nothing but torch installed.

``scripts/wheel --test`` builds one and runs this file on it; ``DYNAMLIR_WHEEL`` names an existing one. An interpreter
takes part if it has torch, which its environment provides: ``DYNAMLIR_PYTHONS`` (paths with ``:`` between) names
interpreters in addition to those on the search path.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest
from interpreters import KNOWN, SUPPORTED

ROOT = Path(__file__).resolve().parents[3]
WHEEL = os.environ.get("DYNAMLIR_WHEEL", "")
LARGEST = 36_000_000
NATIVE = "dynamlir/_native.abi3.so"

needs_wheel = pytest.mark.skipif(not WHEEL, reason="no DYNAMLIR_WHEEL: scripts/wheel --test builds one and tests it")

# Libraries that every glibc system has, and that torch needs as well.
SYSTEM = {"linux-vdso.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libc.so.6", "libm.so.6", "libgcc_s.so.1"}
SYSTEM |= {"libdl.so.2", "libpthread.so.0", "librt.so.1"}

# Prints whether an interpreter has torch, and its location; importing torch would take seconds.
LENDS = """
import importlib.util, json, sys
spec = importlib.util.find_spec("torch")
print(json.dumps({"version": "%d.%d" % sys.version_info[:2], "torch": spec and spec.origin}))
"""

# One model through both front doors, and the state of the process afterwards.
USE = """
import json, re
import dynamlir, torch

torch.manual_seed(0)
layers = torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Softmax(-1)
model = torch.nn.Sequential(*layers).eval()
x = torch.randn(8, 64)
with torch.no_grad():
    eager = model(x)
    by_name = torch.compile(model, backend="dynamlir")(x)
    own = dynamlir.compile(model, fullgraph=True)(x)
print(json.dumps({
    "file": dynamlir.__file__,
    "torch.compile": (by_name - eager).abs().max().item(),
    "dynamlir.compile": (own - eager).abs().max().item(),
    "compiles": [[made.eager, made.kernels] for made in dynamlir.compiles()],
    "fallbacks": [str(event) for event in dynamlir.fallbacks()],
    "llvm": sorted(set(re.findall(r"/\\S*lib(?:LLVM|MLIR)\\S*", open("/proc/self/maps").read()))),
}))
"""


def run(python: Path | str, code: str) -> subprocess.CompletedProcess[str]:
    """Runs a program like a user without a compiler, and with nothing from this checkout on any path."""
    environment = {"PATH": os.devnull, "HOME": os.devnull, "LANG": "C.UTF-8"}
    return subprocess.run([str(python), "-I", "-c", code], env=environment, capture_output=True, text=True, timeout=300)


def candidates(version: str) -> list[str]:
    """Interpreters that may have this version."""
    named = os.environ.get("DYNAMLIR_PYTHONS", "").split(":")
    return [path for path in [sys.executable, *named, shutil.which(f"python{version}")] if path]


def lender(version: str) -> tuple[str, Path]:
    """An interpreter of this version, and the folder that contains its torch."""
    for path in candidates(version):
        done = run(path, LENDS)
        found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
        if found.get("version") == version and found["torch"]:
            return path, Path(found["torch"]).parents[1]
    pytest.skip(f"no CPython {version} with torch: name one in DYNAMLIR_PYTHONS")


def metadata(name: str) -> Message:
    """A file of headers from the wheel's dist-info."""
    with zipfile.ZipFile(WHEEL) as wheel:
        (path,) = [path for path in wheel.namelist() if path.endswith(f".dist-info/{name}")]
        return Parser().parsestr(wheel.read(path).decode())


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def version() -> str:
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


# ---- without a wheel: the package's own statements


def test_without_torch_the_error_says_what_to_install() -> None:
    source = str(ROOT / "python")
    code = f"import sys; sys.path.insert(0, {source!r}); import dynamlir"
    # -S: without site-packages, so without torch.
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    requirement, *_ = project()["dependencies"]
    assert f"ImportError: dynamlir needs torch, which is not installed: pip install '{requirement}'" in done.stderr


def test_supported_interpreters_are_the_same_everywhere() -> None:
    """The scripts try the interpreters that the package names, and the texts name those that the package knows."""
    said_in = {"README.md": SUPPORTED, "docs/start/install.md": SUPPORTED, "python/dynamlir/reasons.toml": KNOWN}
    for path, versions in said_in.items():
        said = re.findall(r"3\.\d+ to 3\.\d+", (ROOT / path).read_text())
        assert set(said) == {f"{versions[0]} to {versions[-1]}"}, path
    named = re.findall(r"Python :: (3\.\d+)", " ".join(project()["classifiers"]))
    assert set(SUPPORTED) <= set(named) and f">={named[0]}" == project()["requires-python"] == f">={SUPPORTED[0]}"


def test_the_version_is_said_once() -> None:
    import dynamlir

    assert dynamlir.__version__ == version()


def test_the_matrix_says_what_it_could_not_try(tmp_path: Path) -> None:
    """A missing CPython 3.9 is not counted as tried: the table and the exit status show it."""
    command = [sys.executable, ROOT / "scripts" / "test-matrix", "--wheel", tmp_path / "none.whl"]
    done = subprocess.run([*command, "--python", "3.9", "--torch", "2.11"], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(r"3\.9 +2\.11 +not tried +\d+  no CPython 3\.9 here", done.stdout.splitlines()[-1])


# ---- contents of the wheel


@needs_wheel
def test_the_wheel_is_small_enough() -> None:
    assert Path(WHEEL).stat().st_size <= LARGEST


@needs_wheel
def test_the_wheel_holds_the_package_and_nothing_else() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "python"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    # Files that pip installs outside of the Python packages are in a separate folder.
    data = f"dynamlir-{version()}.data"
    files = [path.removeprefix("python/") for path in listed.stdout.split()]
    package = {path.replace("data/", f"{data}/", 1) for path in files} | {NATIVE}
    info = f"dynamlir-{version()}.dist-info"
    with zipfile.ZipFile(WHEEL) as wheel:
        names = {name for name in wheel.namelist() if not name.endswith("/")}
    about = {name.removeprefix(f"{info}/") for name in names if name.startswith(f"{info}/")}
    assert {name for name in names if not name.startswith(f"{info}/")} == package
    needed = {
        "METADATA",
        "WHEEL",
        "RECORD",
        "entry_points.txt",
        *(f"licenses/{path}" for path in project()["license-files"]),
    }
    # maturin adds a list of the linked crates.
    assert {name for name in about if not name.startswith("sboms/")} == needed


@needs_wheel
def test_metadata() -> None:
    found = metadata("METADATA")
    assert (found["Name"], found["Version"]) == ("dynamlir", version())
    assert found["Requires-Python"] == project()["requires-python"]
    needed = [requirement.replace(" ", "") for requirement in project()["dependencies"]]
    for extra, requirements in project()["optional-dependencies"].items():
        needed += [f"{requirement} ; extra == '{extra}'" for requirement in requirements]
    assert found.get_all("Requires-Dist") == needed
    assert found["License-Expression"] == project()["license"]
    assert (ROOT / "README.md").read_text().strip() in str(found.get_payload())


@needs_wheel
def test_the_tag_is_no_newer_than_the_symbols() -> None:
    """One extension for all CPythons from 3.11 on, and for the glibc whose symbols it needs."""
    found = re.fullmatch(rf"cp311-abi3-manylinux_2_(\d+)_{platform.machine()}", metadata("WHEEL")["Tag"])
    assert found, metadata("WHEEL")["Tag"]
    with zipfile.ZipFile(WHEEL) as wheel:
        symbols = re.findall(rb"GLIBC_2\.(\d+)", wheel.read(NATIVE))
    assert max(map(int, symbols)) <= int(found[1])


@needs_wheel
def test_the_extension_needs_the_system_only(tmp_path: Path) -> None:
    with zipfile.ZipFile(WHEEL) as wheel:
        extension = wheel.extract(NATIVE, tmp_path)
    listed = subprocess.run(["ldd", extension], capture_output=True, text=True, check=True).stdout
    assert {Path(line.split()[0]).name for line in listed.splitlines()} <= SYSTEM, listed


# ---- the installed wheel


@needs_wheel
@pytest.mark.parametrize("version", SUPPORTED)
def test_an_environment_with_torch_alone(version: str, tmp_path: Path) -> None:
    python, torch_folder = lender(version)
    subprocess.run([python, "-m", "venv", "--without-pip", tmp_path], check=True)
    python = tmp_path / "bin" / "python"
    site = tmp_path / "lib" / f"python{version}" / "site-packages"
    # Uses our pip for the other interpreter, since not every interpreter has one.
    install = ["install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    install += ["--target", str(site), "--python-version", version, "--only-binary=:all:", WHEEL]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    assert "ImportError: dynamlir needs torch" in run(python, "import dynamlir").stderr

    (site / "lent.pth").write_text(f"{torch_folder}\n")
    done = run(python, USE)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert Path(found["file"]) == site / "dynamlir" / "__init__.py"
    assert found["fallbacks"] == [] and len(found["compiles"]) == 2
    assert all(eager is None and kernels for eager, kernels in found["compiles"])
    assert max(found["torch.compile"], found["dynamlir.compile"]) < 1e-6
    assert found["llvm"] == []


@needs_wheel
def test_the_wheel_brings_dynamlir_opt(tmp_path: Path) -> None:
    """With our pipelines, and without torch."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    install = ["install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", WHEEL]
    subprocess.run([tmp_path / "bin" / "python", "-m", "pip", *install], check=True)
    opt, example = tmp_path / "bin" / "dynamlir-opt", ROOT / "test" / "codegen" / "named-pipelines.mlir"

    def lowered(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([opt, *arguments], capture_output=True, text=True, timeout=300)

    whole = lowered(str(example), "--dynamlir-to-llvm")
    assert whole.returncode == 0 and "llvm.func" in whole.stdout, whole.stderr
    assert "--dynamo-fuse" in lowered("--help").stdout
    wrong = lowered(str(example), "--dynamlir-to-nowhere")
    assert wrong.returncode == 1 and "Unknown command line argument" in wrong.stderr
    text = tmp_path / "bad.mlir"
    text.write_text("func.func @f(")
    bad = lowered(str(text))
    assert bad.returncode == 1 and "bad.mlir:1:" in bad.stderr

    # The command line tells what is missing.
    command = tmp_path / "bin" / "dynamlir"
    broken = subprocess.run([command, "doctor"], capture_output=True, text=True, timeout=300)
    assert broken.returncode == 1 and "problem  torch: it is not installed" in broken.stdout, broken.stderr
    found = subprocess.run([command, "env"], capture_output=True, text=True, timeout=300)
    assert found.returncode == 0 and "installed     wheel cp311-abi3" in found.stdout, found.stderr
    assert "torch         unknown: ModuleNotFoundError" in found.stdout
