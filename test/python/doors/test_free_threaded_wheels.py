"""The wheels for CPythons without the global interpreter lock: their names, and their exported and needed symbols.

``scripts/wheel --free-threaded 3.14 --free-threaded 3.15 --test`` builds them and runs this file on them;
``DYNAMLIR_FREE_THREADED_WHEELS`` lists the existing ones (paths separated by ``:``). The one for 3.15 also runs with
the lock, and is tested that way where a CPython 3.15 with torch exists.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest
import test_wheel
from interpreters import found
from test_wheel import LARGEST, SYSTEM, run

WHEELS = [Path(path) for path in os.environ.get("DYNAMLIR_FREE_THREADED_WHEELS", "").split(":") if path]

pytestmark = pytest.mark.skipif(
    not WHEELS,
    reason="no DYNAMLIR_FREE_THREADED_WHEELS: scripts/wheel --free-threaded 3.14 --test builds one",
)

# By the wheel's tag: the extension's file name, the function that CPython calls, and the CPython version.
KINDS = {
    "cp314-cp314t": ("dynamlir/_native.cpython-314t-x86_64-linux-gnu.so", "PyInit__native", "3.14"),
    "cp315-abi3.abi3t": ("dynamlir/_native.abi3t-x86_64-linux-gnu.so", "PyModExport__native", "3.15"),
}


@pytest.fixture(params=WHEELS, ids=[path.name for path in WHEELS])
def wheel(request: pytest.FixtureRequest) -> Iterator[Path]:
    yield request.param


def kind_of(wheel: Path) -> str:
    """The tags in a wheel's name, without the system."""
    name = re.fullmatch(r"dynamlir-[^-]+-([^-]+-[^-]+)-manylinux_2_\d+_x86_64\.whl", wheel.name)
    assert name, wheel.name
    return name[1]


def extension(wheel: Path, folder: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.extract(KINDS[kind_of(wheel)][0], folder)


def symbols(file: str, which: str) -> set[str]:
    """The dynamic symbols of a file that are CPython's, judging by their names."""
    listed = subprocess.run(["nm", "-D", which, file], capture_output=True, text=True, check=True).stdout
    names = (line.split()[-1].split("@")[0] for line in listed.splitlines())
    return {name for name in names if re.match(r"_?Py[A-Z_]", name)}


def test_the_name_says_what_it_is_for(wheel: Path) -> None:
    kind = kind_of(wheel)
    name, _, _ = KINDS[kind]
    with zipfile.ZipFile(wheel) as archive:
        (about,) = [path for path in archive.namelist() if path.endswith(".dist-info/WHEEL")]
        tags = Parser().parsestr(archive.read(about).decode()).get_all("Tag") or []
        extensions = [path for path in archive.namelist() if path.endswith(".so")]
        glibc = max(map(int, re.findall(rb"GLIBC_2\.(\d+)", archive.read(name))))
    interpreter, abis = kind.split("-")
    assert {tag.rsplit("-", 1)[0] for tag in tags} == {f"{interpreter}-{abi}" for abi in abis.split(".")}
    assert extensions == [name] and wheel.stat().st_size <= LARGEST
    assert all(int(tag.split("_")[-3]) >= glibc for tag in tags), tags


def test_metadata_is_that_of_the_other_wheel(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_wheel, "WHEEL", str(wheel))
    test_wheel.test_metadata()
    monkeypatch.setattr(test_wheel, "NATIVE", KINDS[kind_of(wheel)][0])
    test_wheel.test_the_wheel_holds_the_package_and_nothing_else()


def test_the_extension_is_entered_as_its_name_says(wheel: Path, tmp_path: Path) -> None:
    assert symbols(extension(wheel, tmp_path), "--defined-only") == {KINDS[kind_of(wheel)][1]}


def test_the_extension_wants_what_cpython_exports(wheel: Path, tmp_path: Path) -> None:
    """It needs nothing that only a CPython without the lock exports: one with the lock is checked."""
    _, _, version = KINDS[kind_of(wheel)]
    here = found([version])
    if not here:
        pytest.skip(f"no CPython {version}: scripts/pythons fetches one")
    wanted = symbols(extension(wheel, tmp_path), "--undefined-only")
    exported = symbols(os.path.realpath(here[0].path), "--defined-only")
    assert "PyObject_GetAttr" in wanted and wanted - exported == set()


def test_the_extension_needs_the_system_only(wheel: Path, tmp_path: Path) -> None:
    listed = subprocess.run(["ldd", extension(wheel, tmp_path)], capture_output=True, text=True, check=True).stdout
    assert {Path(line.split()[0]).name for line in listed.splitlines()} <= SYSTEM, listed


def test_with_the_lock_both_doors_are_open(wheel: Path, tmp_path: Path) -> None:
    _, _, version = KINDS[kind_of(wheel)]
    if version == "3.14":
        pytest.skip("it loads without the lock only")
    python, torch_folder = test_wheel.lender(version)
    subprocess.run([python, "-m", "venv", "--without-pip", tmp_path], check=True)
    site = tmp_path / "lib" / f"python{version}" / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (site / "lent.pth").write_text(f"{torch_folder}\n")
    done = run(tmp_path / "bin" / "python", test_wheel.USE)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["fallbacks"] == [] and all(eager is None and kernels for eager, kernels in said["compiles"])
    assert max(said["torch.compile"], said["dynamlir.compile"]) < 1e-6
