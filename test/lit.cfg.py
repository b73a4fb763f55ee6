"""lit's configuration: where the tools are and which files are tests.

``lit test`` runs everything, ``lit test/fuse`` one folder. ``DYNAMLIR_BIN`` names the folder of the binaries to
test; without it the newer of ``target/debug`` and ``target/release`` is taken. ``MLIR_SYS_220_PREFIX`` names LLVM.
"""

import os
import pathlib
import shutil
import sys

import lit.formats

# ruff: noqa: F821 – lit defines `config` and `lit_config`.

root = pathlib.Path(__file__).resolve().parent.parent
llvm = pathlib.Path(os.environ.get("MLIR_SYS_220_PREFIX", "/usr/lib/llvm-22"))
tool = "dynamlir-opt"


def binaries() -> pathlib.Path:
    """The folder that holds `dynamlir-opt` and the plugin."""
    if chosen := os.environ.get("DYNAMLIR_BIN"):
        folders = [pathlib.Path(chosen).resolve()]
    else:
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
        folders = [target / profile for profile in ("debug", "release")]
    built = [folder for folder in folders if (folder / tool).is_file()]
    if not built:
        places = " or ".join(map(str, folders))
        lit_config.fatal(f"no {tool} in {places}: run `cargo build -p dynamlir-opt`")
    return max(built, key=lambda folder: (folder / tool).stat().st_mtime)


bin_dir = binaries()

config.name = "dynamlir"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["python", "Inputs"]
config.test_source_root = str(root / "test")
# Outputs go below target/, so that the source tree stays as it is.
config.test_exec_root = str(root / "target" / "lit")

path = [str(bin_dir), str(llvm / "bin"), config.environment.get("PATH", os.environ.get("PATH", ""))]
config.environment["PATH"] = os.pathsep.join(path)
config.environment["MLIR_SYS_220_PREFIX"] = str(llvm)
for name in ("HOME", "CMAKE_PREFIX_PATH"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

config.substitutions += [
    ("%plugin", str(bin_dir / "libdynamlir_plugin.so")),
    ("%python", sys.executable),
    ("%root", str(root)),
    ("%llvm", str(llvm)),
]

if shutil.which("g++"):
    config.available_features.add("g++")
