#!/usr/bin/env python3
"""Decompiles code objects of this interpreter, compiles the result and compares.

Usage: PYTHON scripts/bytecode_roundtrip.py TOOL [--sample] [--stdlib [--tests]] [--show N] [FILE...]

--sample takes the modules of the standard library named by SAMPLE, which every version has; they serve to compare
versions.

TOOL is crates/decompile's example `roundtrip`. Each function, class and module gets one of these verdicts: identical
(the same bytes), equivalent (the same steps in the same order on every path), unknown (left as disassembly), inside (in
one that is unknown), different (wrong, or right in a way that the comparison does not see), syntax (the module's source
does not compile).
"""

import collections
import json
import pathlib
import subprocess
import sys
import sysconfig
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from bytecode_dump import dump_code

# Parsers, coroutines, descriptors, classes created by classes, long functions, many `try`: one module of each kind.
SAMPLE = [
    "argparse",
    "ast",
    "asyncio/base_events",
    "asyncio/tasks",
    "collections/__init__",
    "contextlib",
    "dataclasses",
    "enum",
    "functools",
    "inspect",
    "json/decoder",
    "logging/__init__",
    "pickle",
    "subprocess",
    "tarfile",
    "threading",
    "typing",
]


def files(arguments):
    """Returns the files to take."""
    found = [pathlib.Path(argument) for argument in arguments if argument.endswith(".py")]
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    if "--sample" in arguments:
        found += [root / f"{name}.py" for name in SAMPLE]
    if "--stdlib" in arguments:
        tests = "--tests" in arguments
        for path in sorted(root.rglob("*.py")):
            parts = set(path.relative_to(root).parts)
            if "site-packages" in parts or bool(parts & {"test", "tests", "idle_test"}) != tests:
                continue
            if path.is_file():
                found.append(path)
    return found


def main():
    """Runs the tool over the files."""
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(20_000)
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    tool, *arguments = sys.argv[1:]
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    process = subprocess.Popen([tool, version], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    show = int(arguments[arguments.index("--show") + 1]) if "--show" in arguments else 5
    counts = collections.Counter()
    reasons = collections.defaultdict(list)
    # The number of code objects left out, by reason.
    lost = collections.Counter()

    def ask(value):
        process.stdin.write(json.dumps(value) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    for path in files(arguments):
        try:
            code = compile(path.read_bytes(), path.name, "exec", dont_inherit=True)
        except (SyntaxError, UnicodeDecodeError, ValueError):
            continue
        text = ask({"code": dump_code(code, False)})["text"]
        try:
            made = {"code": dump_code(compile(text, path.name, "exec", dont_inherit=True), False)}
        except (SyntaxError, ValueError, RecursionError) as error:
            counts["syntax"] += 1
            reasons["syntax", f"{type(error).__name__}: {error.args[0]}"].append(f"{path}")
            made = {}
        short = ""
        for qualname, line, verdict, reason in ask(made):
            counts[verdict] += 1
            if verdict == "inside":
                lost[short] += 1
            if verdict in ("unknown", "different"):
                short = reason.split(": ", 1)[-1].split(" at unit ")[0] if verdict == "unknown" else reason
                reasons[verdict, short].append(f"{path.name}:{line} {qualname}")
    process.stdin.close()
    total = sum(counts.values()) - counts["syntax"]
    print(version, total, "code objects;", ", ".join(f"{name} {count}" for name, count in counts.most_common()))
    good = counts["identical"] + counts["equivalent"]
    print(f"proven equal: {100 * good / max(total, 1):.2f}%")
    by_number = sorted(reasons.items(), key=lambda item: (item[0][0], -len(item[1]) - lost[item[0][1]]))
    shown = collections.Counter()
    for (verdict, reason), places in by_number:
        shown[verdict] += 1
        if shown[verdict] <= show:
            inside = f" (and {lost[reason]} inside)" if verdict == "unknown" else ""
            print(f"{len(places):6} {verdict}: {reason}{inside}\n         {'; '.join(places[:3])}")
    return counts["different"] + counts["syntax"]


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
