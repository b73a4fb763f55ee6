"""Facts about the machine, the installation and the settings. What cannot be found out says so, and nothing is raised.

torch is imported here; the package is not, since that may be what fails.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import config
from ..version import __version__

PACKAGE = Path(__file__).resolve().parent.parent
OWN = "DYNAMLIR_"
OF_OTHERS = re.compile(
    r"(TORCH|TORCHDYNAMO|TORCHINDUCTOR|PYTORCH|CUDA|NVIDIA_VISIBLE|OMP|GOMP|KMP|MKL|OPENBLAS)(_.*)?|ATEN_.*"
    r"|LD_PRELOAD|LD_LIBRARY_PATH|PYTHON(PATH|HOME|OPTIMIZE|WARNINGS|_GIL|SAFEPATH)|CC|CXX|TRITON_.*"
)
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS(WORD|PHRASE)?|CREDENTIAL|AUTH")
_LOGIN = re.compile(r"//[^/@\s]+@")
VERSION = """
import importlib.util, sys
from importlib.machinery import ExtensionFileLoader
loader = ExtensionFileLoader("_native", sys.argv[1])
native = importlib.util.module_from_spec(importlib.util.spec_from_file_location("_native", sys.argv[1], loader=loader))
loader.exec_module(native)
native.opt_main(["dynamlir-opt", "--version"])
"""
"""Prints LLVM's version, and ends the process."""


def all_facts() -> dict[str, Any]:
    """Returns all facts, for people and as JSON."""
    made: dict[str, Callable[[], Any]] = {
        "dynamlir": lambda: f"{__version__} (LLVM {_try(llvm)})",
        "installed": installed,
        "torch": torch,
        "python": python,
        "packages": packages,
        "system": system,
        "processor": processor,
        "instructions": instructions,
        "memory": memory,
        "threads": threads,
        "gpu": gpu,
        "settings": settings,
        "environment": environment,
    }
    return {name: _try(find) for name, find in made.items()}


def _try(find: Callable[[], Any]) -> Any:
    try:
        return find()
    except Exception as error:
        return f"unknown: {type(error).__name__}: {shown(str(error))}"


def shown(text: str) -> str:
    """Returns text without the name of the user's home folder and without passwords in addresses."""
    home = os.path.expanduser("~")
    if len(home) > 1:
        text = re.sub(re.escape(home) + r"(?=/|:|$|\s)", "~", text)
    return _LOGIN.sub("//…@", text)


def extension() -> Path | None:
    """Returns the file of the extension module."""
    return next(iter(sorted(PACKAGE.glob("_native*.so"))), None)


def llvm() -> str:
    """Returns the version of LLVM in the extension module."""
    file = extension()
    if file is None:
        return "unknown: the extension module is missing"
    command = [sys.executable, "-c", VERSION, str(file)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    found = re.search(r"LLVM (?:version )?(\d[\w.+-]*)", said.stdout)
    return found[1] if found else f"unknown: {(said.stderr.strip().splitlines() or ['no answer'])[-1]}"


def distribution() -> importlib.metadata.Distribution | None:
    """Returns what was installed under our name; None if nothing was."""
    try:
        return importlib.metadata.distribution("dynamlir")
    except importlib.metadata.PackageNotFoundError:
        return None


def installed() -> list[str]:
    """Returns how the package was installed, and where it was imported from."""
    found = distribution()
    place = f"imported from {shown(str(PACKAGE))}"
    if found is None:
        return [place, "not installed: found on the path"]
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    source = origin.get("url", "")
    if origin.get("dir_info", {}).get("editable"):
        lines = [f"editable, from {shown(source.removeprefix('file://'))}"]
        is_this = Path(source.removeprefix("file://")) in PACKAGE.parents
    else:
        wheel = re.findall(r"^Tag: (.*)$", found.read_text("WHEEL") or "", re.MULTILINE)
        installer = (found.read_text("INSTALLER") or "").strip()
        lines = ["wheel " + ", ".join(wheel) if wheel else "not from a wheel"]
        lines[0] += f" by {installer}" * bool(installer) + f", from {shown(source)}" * bool(source)
        is_this = Path(str(found.locate_file("dynamlir"))).resolve() == PACKAGE
    if found.version != __version__:
        lines.append(f"its version is {found.version}")
    return [*lines, place] if is_this else [*lines, f"{place}, which is another copy"]


def torch() -> str:
    """Returns torch's version and what it was built for."""
    import torch  # also where the package is not

    cuda = torch.version.cuda
    built = f"CUDA {cuda}" if cuda else "ROCm " + torch.version.hip if torch.version.hip else "no GPU support"
    return f"{torch.__version__} ({built}, {shown(os.path.dirname(torch.__file__))})"


def python() -> str:
    """Returns the interpreter's version."""
    import sysconfig  # only here

    free = ", without the GIL" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    debug = ", debug build" if hasattr(sys, "gettotalrefcount") else ""
    compiler = platform.python_compiler()
    return (
        f"{platform.python_implementation()} {platform.python_version()}{free}{debug} "
        f"({compiler}, {shown(sys.executable)})"
    )


def packages() -> dict[str, str]:
    """Returns the versions of packages that matter to compiled programs, if they are installed."""
    found = {}
    for name in ("numpy", "triton", "tqdm", "safetensors", "transformers", "accelerate", "lightning", "torchvision"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def system() -> str:
    """Returns the operating system."""
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "unknown distribution")
    except OSError:
        name = platform.system()
    libc = " ".join(platform.libc_ver()) or "unknown libc"
    return f"{name}, {platform.system()} {platform.release()}, {libc}, {platform.machine()}"


def native() -> Any:
    """Returns the extension module."""
    return importlib.import_module("dynamlir._native")


def processor() -> str:
    """Returns the processor's name, as the system and the compiler call it, and the number of its cores."""
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            name = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), name)
    known = _try(lambda: native().processor()[0])
    return f"{name} ({known}), {len(os.sched_getaffinity(0))} of {os.cpu_count()} cores"


def instructions() -> str:
    """Returns the instruction sets that code is generated for."""
    present = [feature[1:] for feature in native().processor()[1].split(",") if feature.startswith("+")]
    return " ".join(sorted(present))


def memory() -> str:
    """Returns the size of the main memory."""
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB"


def threads() -> str:
    """Returns the numbers of threads that compute and that compile."""
    import torch  # also where the package is not

    compiling = config.read("threads") or len(os.sched_getaffinity(0))
    return f"{torch.get_num_threads()} compute, {compiling} compile"


def gpu() -> list[str] | str:
    """Returns the GPUs that torch sees."""
    import torch  # also where the package is not

    if not torch.cuda.is_available():
        return "none that torch can use"
    found = []
    for index in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(index)
        found.append(f"{about.name}, sm_{about.major}{about.minor}, {about.total_memory / 2**30:.1f} GiB")
    try:
        version = Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
        found.append(re.sub(r"^NVRM version: ", "driver ", " ".join(version.split())))
    except (OSError, IndexError):
        found.append("driver unknown")
    return found


def settings() -> dict[str, Any] | str:
    """Returns the settings that are not at their defaults."""
    found: dict[str, Any] = {}
    for name, setting in config.SETTINGS.items():
        value = _try(lambda name=name: config.read(name))  # type: ignore[misc]
        if value != setting.default:
            found[name] = shown(value) if isinstance(value, str) else value
    return found or "all are the defaults"


def environment() -> dict[str, str]:
    """Returns the variables that matter to dynamlir and torch, without secrets."""
    found = {}
    for name, value in sorted(os.environ.items()):
        if name.startswith(OWN) or OF_OTHERS.fullmatch(name):
            found[name] = "(not shown)" if _SECRET.search(name) else shown(value)
    return found
