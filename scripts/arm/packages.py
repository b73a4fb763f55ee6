"""Sets up a folder with torch for Linux on 64-bit Arm, and stand-ins for the GPU libraries that it is linked with.

torch's wheel for Arm is the one for NVIDIA's GPUs. The loader looks up every function that torch could call in a dozen
libraries of several gigabytes, and without a GPU none is of use. A stand-in has these functions, all of which return 1,
an error in each of these libraries. Only the runtime, which torch asks whether there is a GPU, is the real one.
"""

import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterable
from pathlib import Path

# In addition to torch's dependencies that are not the GPU's.
PACKAGES = ("numpy", "expecttest", "hypothesis", "pytest", "pytest-timeout", "tqdm")
NOT_NEEDED = re.compile(r"cuda|nvidia|triton")
# The platform of the wheels for Linux, as uv names it.
PLATFORM = "aarch64-manylinux_2_28"


def output(*command: str | Path) -> str:
    """Returns the output of a command."""
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout


def asked_of_torch(site: Path) -> list[str]:
    """Returns the dependencies of the torch in a folder; of the GPU's only the runtime."""
    (about,) = site.glob("torch-*.dist-info/METADATA")
    text = about.read_text()
    asked = re.findall(r"^Requires-Dist: ([^;\n]+)$", text, re.MULTILINE)
    runtime = re.findall(r"^Requires-Dist: cuda-toolkit\[.*cudart.*\](==[^;\n]+)", text, re.MULTILINE)
    return [*(one for one in asked if not NOT_NEEDED.search(one)), *(f"cuda-toolkit[cudart]{one}" for one in runtime)]


def install(uv: Path, site: Path, cpython: str, torch: str) -> None:
    """Installs torch, of this version, with its dependencies and those of the tests."""
    command = [uv, "pip", "install", "--quiet", "--target", site, "--python-platform", PLATFORM]
    command += ["--python-version", cpython, "--only-binary", ":all:"]
    subprocess.run([*command, "--no-deps", f"torch=={torch}"], check=True)
    subprocess.run([*command, *asked_of_torch(site), *PACKAGES], check=True)


def symbols(nm: Path, libraries: Iterable[Path], kind: str) -> set[tuple[str, str]]:
    """Returns the names and versions of the symbols that libraries define or require, by nm's option."""
    listed = [output(nm, "-D", kind, library) for library in libraries]
    split = (line.split()[-1].partition("@") for lines in listed for line in lines.splitlines())
    return {(name, version.strip("@")) for name, _, version in split}


def needed(readelf: Path, libraries: Iterable[Path]) -> tuple[set[str], dict[str, str]]:
    """Returns the libraries that these require, and the library that each symbol version belongs to."""
    names, versions = set(), {}
    for library in libraries:
        names.update(re.findall(r"NEEDED.*\[(.+)\]", output(readelf, "-d", library)))
        file = ""
        for line in output(readelf, "-V", library).splitlines():
            if found := re.search(r"Version: \d+\s+File: (\S+)", line):
                file = found[1]
            elif file and (found := re.search(r"Name: (\S+)\s+Flags", line)):
                versions[found[1]] = file
    return names, versions


def write_library(clang: Path, path: Path, names: Iterable[str], version: str | None) -> None:
    """Writes a library of functions that return 1."""
    body = "".join(f".globl {name}\n.type {name},%function\n{name}:\n" for name in sorted(names))
    source, script = path.with_suffix(".S"), path.with_suffix(".map")
    source.write_text(f".text\n{body}mov w0, #1\nret\n")
    command = [clang, "-shared", "-nostdlib", f"-Wl,-soname,{path.name}", "-o", path, source]
    if version:
        script.write_text(f"{version} {{ global: *; }};\n")
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, check=True)
    for file in (source, script):
        file.unlink(missing_ok=True)


def write_stand_ins(tools: Path, system: Path, site: Path, out: Path) -> None:
    """Writes a stand-in into ``out`` for each library that torch requires and that is neither its own nor the system's.

    ``tools`` is the folder of LLVM's programs for the other system, ``system`` that system's root.
    """
    out.mkdir(parents=True, exist_ok=True)
    torch = [*site.glob("torch/lib/*.so*"), *site.glob("torch/_C*.so"), *site.glob("nvidia/**/lib/*.so*")]
    names, versions = needed(tools / "llvm-readelf", torch)
    folders = ("lib", "lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu")
    others = [system / folder / name for folder in folders for name in names if (system / folder / name).exists()]
    missing = names - {path.name for path in [*torch, *others]}
    nm = tools / "llvm-nm"
    interpreter = [path for path in (system / "usr/bin").glob("python3.*") if path.is_file()]
    defined = {name for name, _ in symbols(nm, [*torch, *others, *interpreter], "--defined-only")}
    asked = symbols(nm, torch, "--undefined-only")
    # Symbols without a version may be in any library without versions.
    loose = {name for name, version in asked if not version} - defined
    for library in missing:
        own = [version for version, file in versions.items() if file == library]
        theirs = {name for name, version in asked if version in own} if own else loose
        write_library(tools / "clang", out / library, theirs, own[0] if own else None)


def unpack(wheel: Path, site: Path) -> None:
    """Unpacks a wheel among the packages, replacing another version."""
    stamp = site / "dynamlir.wheel"
    version = f"{wheel.name} {wheel.stat().st_mtime_ns}\n"
    if stamp.exists() and stamp.read_text() == version:
        return
    stamp.unlink(missing_ok=True)
    for old in site.glob("dynamlir*"):
        shutil.rmtree(old)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    stamp.write_text(version)


def make(uv: Path, tools: Path, system: Path, folder: Path, cpython: str, torch: str) -> tuple[Path, list[Path]]:
    """Creates what is missing in ``folder``; returns the packages' folder and those that the loader has to search."""
    site, stand_ins, done = folder / "packages", folder / "stand-ins", folder / f"done-{torch}"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        install(uv, site, cpython, torch)
        write_stand_ins(tools, system, site, stand_ins)
        done.touch()
    return site, [stand_ins, site / "torch/lib", *site.glob("nvidia/*/lib")]
