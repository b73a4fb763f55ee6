"""The steps of `doctor`, as a program: it writes a JSON line before and after each step to a file descriptor.

It is not a part of the imported package, which is what the steps try out.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

OLDEST, NEWEST = (3, 11), (3, 15)
TORCHS = ((2, 11), (2, 16))
"""The first supported version of torch, and the first that is not."""
INSTALL_TORCH = "pip install 'torch>=2.11,<2.16'"
REINSTALL = "Install dynamlir again; its wheel has to be for this processor and this Python."

KNOWN = {
    "DYNAMLIR_LOGS",
    "DYNAMLIR_LOG_FORMAT",
    "DYNAMLIR_CAPTURE",
    "DYNAMLIR_CUDA_CHIP",
    "DYNAMLIR_CUDA_LIBRARY",
    "DYNAMLIR_LIBDEVICE",
    "DYNAMLIR_REPORT",
    "DYNAMLIR_TORCH_LIB",
    "DYNAMLIR_STATIC_LLVM",
}
"""Variables besides those of settings."""


class Problem(Exception):
    """A step failed. Its arguments are the message and the cure."""


class Doubt(Exception):
    """A step found something that need not be a mistake. Its arguments are the message and the cure."""


def python() -> str:
    """Checks the interpreter."""
    version = sys.version_info[:2]
    name = ".".join(map(str, sys.version_info[:3]))
    if sys.implementation.name != "cpython":
        raise Problem(f"this is {sys.implementation.name}", "Use CPython 3.11 to 3.15.")
    if version < OLDEST:
        raise Problem(f"CPython {name} is too old", "Use CPython 3.11 to 3.15.")
    if version > NEWEST:
        raise Doubt(
            f"CPython {name} is newer than this version of dynamlir knows: dynamlir.compile runs plain Python",
            "Use torch.compile(backend='dynamlir'), or CPython 3.11 to 3.15.",
        )
    import sysconfig  # only here

    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise Doubt(
            f"CPython {name} without the GIL: dynamlir.compile runs plain Python, and torch.compile enables the GIL",
            "Use a CPython with the GIL.",
        )
    return f"CPython {name}"


def torch_version() -> str:
    """Checks that a supported version of torch is installed."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        raise Problem("it is not installed", INSTALL_TORCH) from None
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if not TORCHS[0] <= numbers < TORCHS[1]:
        raise Problem(f"torch {version} is not supported", INSTALL_TORCH)
    return f"torch {version}"


def torch_import() -> str:
    """Imports torch."""
    try:
        import torch  # a step
    except Exception as error:
        raise Problem(f"{type(error).__name__}: {error}", f"Install torch again: {INSTALL_TORCH}") from error
    return str(os.path.dirname(torch.__file__))


def package() -> str:
    """Imports the package."""
    try:
        import dynamlir  # a step
    except Exception as error:
        raise Problem(f"{type(error).__name__}: {error}", REINSTALL) from error
    place = os.path.dirname(dynamlir.__file__)
    try:
        installed = importlib.metadata.version("dynamlir")
    except importlib.metadata.PackageNotFoundError:
        return f"dynamlir {dynamlir.__version__} in {place}"
    if installed != dynamlir.__version__:
        raise Doubt(
            f"dynamlir {dynamlir.__version__} in {place} is imported, while {installed} is installed",
            "Another copy comes first on sys.path: look at PYTHONPATH and at the current folder.",
        )
    return f"dynamlir {installed} in {place}"


def extension() -> str:
    """Loads the extension module, which the package does when it compiles."""
    try:
        native = importlib.import_module("dynamlir._native")
    except ImportError as error:
        raise Problem(f"{type(error).__name__}: {error}", REINSTALL) from error
    return f"code for {native.processor()[0]}"


def settings() -> str:
    """Checks the environment variables of dynamlir."""
    from dynamlir import config  # a step before has imported it

    try:
        config.read_all()
    except ValueError as error:
        raise Problem(str(error).removeprefix("dynamlir: "), "Correct or unset the variable.") from error
    known = KNOWN | {setting.environment for setting in config.SETTINGS.values()}
    given = [name for name in os.environ if name.startswith("DYNAMLIR_") and name != "DYNAMLIR_PROGRESS"]
    for name in sorted(given):
        if name not in known and not name.startswith("DYNAMLIR_CUDA_MOCK"):
            close = difflib.get_close_matches(name, sorted(known), 1)
            raise Doubt(f"{name} is set, which nothing reads", f"Did you mean {close[0]}?" if close else "Unset it.")
    if os.environ.get("DYNAMLIR_CAPTURE") == "0":
        raise Doubt("DYNAMLIR_CAPTURE=0: dynamlir.compile compiles nothing", "Unset it.")
    for name in ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"):
        if os.environ.get(name) == "1":
            raise Doubt(f"{name}=1: torch.compile and dynamlir.compile compile nothing", "Unset it.")
    return ", ".join(sorted(given)) or "none are set"


def own_door() -> str:
    """Compiles by `dynamlir.compile`."""
    import dynamlir  # a step before has imported it

    return _compiled(dynamlir.compile, "cpu")


def entry_point() -> str:
    """Looks for torch's way to the backend."""
    found = importlib.metadata.entry_points(group="torch_dynamo_backends")
    if not any(point.name == "dynamlir" for point in found):
        raise Doubt(
            "torch.compile(backend='dynamlir') does not find the backend: the package is not installed, only imported",
            "Install it with pip, or pass backend=dynamlir.backend.",
        )
    return "torch finds the backend 'dynamlir'"


def torchs_door() -> str:
    """Compiles by `torch.compile`."""
    import torch  # as above

    import dynamlir  # a step before has imported it

    return _compiled(lambda function: torch.compile(function, backend=dynamlir.backend), "cpu")


def _compiled(door: Callable[[Any], Any], device: str) -> str:
    """Compiles a small program with gradients and compares it with eager."""
    import torch  # as above

    import dynamlir  # a step before has imported it

    def program(x: Any, w: Any) -> Any:
        return torch.nn.functional.layer_norm((x @ w).relu() + 1, (16,)).sum(0)

    def results(function: Any) -> list[Any]:
        torch.manual_seed(0)
        x, w = torch.randn(8, 16).to(device), torch.randn(16, 16).to(device).requires_grad_()
        made = function(x, w)
        made.square().sum().backward()
        return [made.detach(), w.grad]

    dynamlir.reset()
    expected = results(program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = results(door(program))
        except Exception as error:
            first = str(error).strip().splitlines()[:1]
            raise Problem(f"{type(error).__name__}: {''.join(first)}", "Report this.") from error
    why = dynamlir.fallbacks()
    if why:
        raise Problem(f"it runs as plain Python: {why[0]}", "Look at the reason above.")
    made = dynamlir.last_compile()
    if made is None:
        raise Doubt("nothing was compiled", "torch.compile may be disabled: look at the environment.")
    for one, other in zip(found, expected):
        if not torch.allclose(one, other, rtol=1e-3, atol=1e-3):
            worst = (one - other).abs().max().item()
            raise Problem(f"the result differs from eager's by {worst:.3g}", "Report this, with `dynamlir env`.")
    return f"equals eager, with gradients; compiled in {made.seconds:.2f} s"


def threads() -> str:
    """Checks the number of threads, and that only one OpenMP runtime is loaded."""
    import torch  # a step before has imported it

    cores, used = len(os.sched_getaffinity(0)), torch.get_num_threads()
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        loaded = {line.split(maxsplit=5)[5].strip() for line in maps if line.count(" ") >= 5 and ".so" in line}
    runtimes = sorted(file for file in loaded if re.search(r"/lib(g?omp|iomp5)[-.\w]*\.so", file))
    if len(runtimes) > 1:
        raise Doubt(
            f"several OpenMP runtimes are loaded, whose threads compete: {', '.join(runtimes)}",
            "Look at LD_PRELOAD, and install packages that use torch's own.",
        )
    if used > cores:
        raise Doubt(f"{used} threads on {cores} cores", f"Set OMP_NUM_THREADS={cores}.")
    if used == 1 and cores > 1:
        why = " (OMP_NUM_THREADS)" if os.environ.get("OMP_NUM_THREADS") == "1" else ""
        raise Doubt(f"1 thread{why}, although there are {cores} cores", f"Set OMP_NUM_THREADS={cores} if that is slow.")
    return f"{used} of {cores} cores" + (f", by {os.path.basename(runtimes[0])}" if runtimes else "")


def preload() -> str:
    """Checks what is loaded into each process."""
    given = [name for name in re.split(r"[:\s]+", os.environ.get("LD_PRELOAD", "")) if name]
    for name in given:
        if re.search(r"lib(g?omp|iomp5)\b", name):
            raise Doubt(f"LD_PRELOAD has an OpenMP runtime, {name}", "Unset it: torch brings the one that it needs.")
        if re.search(r"lib(a|t|m|ub)san\b|libclang_rt", name):
            raise Doubt(f"LD_PRELOAD has a sanitizer, {name}", "Unset it, unless you are looking for errors.")
    return ", ".join(given) or "nothing"


def gpu() -> str:
    """Compiles for the GPU, if there is one."""
    import torch  # as above

    import dynamlir  # a step before has imported it

    present = os.path.exists("/dev/nvidia0") or os.path.exists("/dev/dxg")
    if not torch.cuda.is_available():
        if not present:
            return "there is none; the CPU is used"
        if torch.version.cuda is None:
            raise Doubt("there is an NVIDIA GPU, but this torch is for CPUs only", "Install a torch built for CUDA.")
        raise Problem("there is an NVIDIA GPU that torch cannot use", "Look at the driver: nvidia-smi.")
    name = torch.cuda.get_device_name()
    if torch.cuda.get_device_capability() < (8, 0):
        raise Doubt(f"{name} is older than compute capability 8.0, so its graphs run as torch's operators", "")
    return f"{name}: {_compiled(dynamlir.compile, 'cuda')}"


def folders() -> str:
    """Checks that the folders to write to can be written to."""
    from dynamlir import config  # a step before has imported it

    cache = config.cache_dir or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "dynamlir")
    asked = {"DYNAMLIR_DUMP": config.dump, "DYNAMLIR_REPORT": os.environ.get("DYNAMLIR_REPORT")}
    asked["DYNAMLIR_REPRODUCERS"] = config.reproducers
    for name, folder in {"DYNAMLIR_CACHE_DIR": cache, **asked}.items():
        if not folder:
            continue
        existing = folder = os.path.abspath(os.path.expanduser(folder))
        while not os.path.lexists(existing):
            existing = os.path.dirname(existing)
        try:
            with tempfile.TemporaryFile(dir=existing):
                pass
        except OSError as error:
            level = Doubt if name == "DYNAMLIR_CACHE_DIR" else Problem
            raise level(
                f"nothing can be written to {folder}: {error.strerror}", f"Set {name} to another folder."
            ) from error
    return f"{os.path.expanduser(cache)} can be written to"


STEPS: dict[str, Callable[[], str]] = {
    "interpreter": python,
    "preloaded libraries": preload,
    "torch": torch_version,
    "import torch": torch_import,
    "import dynamlir": package,
    "load the compiler": extension,
    "variables": settings,
    "dynamlir.compile": own_door,
    "torch's backends": entry_point,
    "torch.compile": torchs_door,
    "GPU": gpu,
    "threads": threads,
    "folders": folders,
}
NEEDED = ("interpreter", "torch", "import torch", "import dynamlir", "load the compiler")
"""Steps after whose failure no later one is tried."""


def main(channel: int) -> None:
    """Runs the steps."""
    with open(channel, "w", encoding="utf-8") as out:

        def tell(**said: str) -> None:
            out.write(json.dumps(said) + "\n")
            out.flush()

        for name, step in STEPS.items():
            tell(step=name)
            level, cure = "OK", ""
            try:
                text = step()
            except (Problem, Doubt) as found:
                level = "problem" if isinstance(found, Problem) else "warning"
                text, cure = found.args
            except Exception as error:
                level, text = "problem", f"{type(error).__name__}: {error}"
                cure = "This is unexpected. Report it, with what `python -m dynamlir env` prints."
            tell(step=name, level=level, text=" ".join(text.split()), cure=cure)
            if level == "problem" and name in NEEDED:
                return


if __name__ == "__main__":
    main(int(sys.argv[-1]))
