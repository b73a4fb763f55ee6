"""The tests without the source tree next to them, so that they can only import an installed package."""

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def copy_tests(folder: Path) -> Path:
    """Copies the tests, and their imports from scripts, into ``folder``; returns it, to run in."""
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("test/python", "scripts/bench"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "scripts/interpreters.py", folder / "scripts")
    return folder


def find_test(test: str) -> str:
    """Returns the path of a test that is given by its file's name or path, with or without ``::name``."""
    name, separator, of_file = test.partition("::")
    found = [path.relative_to(ROOT).as_posix() for path in (ROOT / "test/python").rglob(Path(name).name)]
    matching = [path for path in found if path.endswith(name)]
    if len(matching) != 1:
        raise SystemExit(f"no test file {name} below test/python")
    return matching[0] + separator + of_file
