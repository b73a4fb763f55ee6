"""The supported CPythons, and those on this machine: for the scripts and tests that try several."""

import dataclasses
import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The versions whose bytecode and frames are known, oldest first.
KNOWN = ("3.11", "3.12", "3.13", "3.14", "3.15")
# Those on which both front doors are tested, and which the package declares.
SUPPORTED = KNOWN
# Those in Debian's testing suite; older ones come from the system or pyenv.
FETCHABLE = ("3.14", "3.15")
# The folder in which scripts/pythons puts those.
FETCHED = ROOT / "target" / "pythons"

# Prints an interpreter's CPython version; fails for another implementation.
ASK = "import sys; assert sys.implementation.name == 'cpython'; print('%d.%d' % sys.version_info[:2])"


@dataclasses.dataclass(frozen=True)
class Interpreter:
    """A CPython on this machine."""

    path: str
    version: str


def examine(path: str | os.PathLike[str] | None) -> Interpreter | None:
    """Returns the interpreter at this path; None if it is not one: an executable on the path may be a stand-in.

    A link is resolved to the file that it leads to: an environment created from a link in another folder would look for
    the standard library there, and not start. Links in environments are kept, because they lead to another interpreter.
    """
    if not path:
        return None
    try:
        asked = subprocess.run([path, "-I", "-S", "-c", ASK], capture_output=True, text=True)
    except OSError:
        return None
    if asked.returncode != 0:
        return None
    environment = any((Path(path).parent / up / "pyvenv.cfg").exists() for up in (".", ".."))
    return Interpreter(str(path) if environment else os.path.realpath(path), asked.stdout.strip())


def fetched(version: str) -> Path:
    """Returns the place of this version once scripts/pythons has fetched it."""
    return FETCHED / "root/usr/bin" / f"python{version}"


def found(versions: Iterable[str]) -> list[Interpreter]:
    """Returns every CPython of these versions that can be found: those that DYNAMLIR_PYTHONS names (with ``:``
    between), this checkout's, those on the path, pyenv's, and those that scripts/pythons has fetched, in this order."""
    versions = tuple(versions)
    paths = [*os.environ.get("DYNAMLIR_PYTHONS", "").split(":"), str(ROOT / ".venv/bin/python"), sys.executable]
    paths += [shutil.which(f"python{version}") or "" for version in versions]
    paths += sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python")))
    paths += [str(fetched(version)) for version in versions]
    return [one for one in map(examine, dict.fromkeys(paths)) if one is not None and one.version in versions]
