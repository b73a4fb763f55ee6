"""The passes, from their sources: name, description, header, options and statistics, as Markdown."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from . import tree

FOLDERS = ("crates/passes/src", "crates/codegen/src", "crates/nvptx/src")
PASS = re.compile(r"pub(?:\(crate\))? (?:const|static) \w+: Pass = Pass \{(.*?)^\};", re.DOTALL | re.MULTILINE)
STATISTIC = re.compile(r'Statistic \{ name: "(.+?)",\s+description: "(.+?)" \}', re.DOTALL)


@dataclasses.dataclass
class Pass:
    """One pass, as its source declares it."""

    name: str
    description: str
    file: Path
    header: str
    options: list[tuple[str, str, str]]
    statistics: list[tuple[str, str]]


def _header(text: str) -> str:
    """Returns the file's own documentation, without rustdoc's links."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//!"):
            break
        lines.append(line.removeprefix("//!").removeprefix(" "))
    header = "\n".join(lines)
    header = re.sub(r"\[(`[^`\]]+`)\](?:\([^)]*\))?", r"\1", header)
    return header


def _options(text: str, body: str) -> list[tuple[str, str, str]]:
    """Returns name, type and help of each option, from the `pass_options!` of the struct that the pass names."""
    named = re.search(r"options: (\w+)::DECLARED", body)
    if named is None:
        return []
    struct = re.search(rf"pub(?:\(\w+\))? struct {named[1]} \{{(.*?)\n    \}}", text, re.DOTALL)
    if struct is None:
        raise ValueError(f"no struct {named[1]} next to its pass")
    found = re.findall(r"/// ([^\n]+(?:\n +/// [^\n]+)*)\n +(\w+): ([\w<>]+) = ", struct[1])
    return [(name.replace("_", "-"), kind, re.sub(r"\s+/// ", " ", help)) for help, name, kind in found]


def all_passes() -> list[Pass]:
    """Returns the passes, in the order of their names."""
    found = []
    for folder in FOLDERS:
        for file in sorted((tree.ROOT / folder).rglob("*.rs")):
            text = file.read_text(encoding="utf-8")
            for body in PASS.findall(text):
                name = re.search(r'name: "(dynamo-[\w-]+)"', body)
                description = re.search(r'description: "(.+?)",$', body, re.MULTILINE | re.DOTALL)
                if name is None or description is None:
                    raise ValueError(f"{file}: a Pass without a name or a description")
                counted = re.search(r"statistics: &\[(.*?)\]", body, re.DOTALL)
                names = set(re.findall(r"\w+", counted[1])) if counted else set()
                constants = re.findall(r"(?:const|static) (\w+): Statistic = (.*?);", text, re.DOTALL)
                statistics = [found for name, value in constants if name in names for found in STATISTIC.findall(value)]
                said = re.sub(r"\\\n\s*", "", description[1])
                found.append(Pass(name[1], said, file, _header(text), _options(text, body), statistics))
    return sorted(found, key=lambda entry: entry.name)


def _section(entry: Pass) -> str:
    where = entry.file.relative_to(tree.ROOT)
    parts = [f"## {entry.name}", f"Source: [{where}]({tree.REPOSITORY}/blob/main/{where})"]
    parts.append(re.sub(r"^(#+) ", r"##\1 ", entry.header, flags=re.MULTILINE))
    if entry.options:
        rows = [f"| `{name}` | `{kind}` | {help} |" for name, kind, help in entry.options]
        parts.append("\n".join(["| option | type | |", "|---|---|---|", *rows]))
    if entry.statistics:
        rows = [f"| `{name}` | {text} |" for name, text in entry.statistics]
        parts.append("\n".join(["| statistic | counts |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def passes() -> str:
    """Returns a table of the passes, and a section for each of them."""
    found = all_passes()
    rows = [f"| [{entry.name}](#{entry.name}) | {entry.description} |" for entry in found]
    return "\n\n".join(["\n".join(["| pass | |", "|---|---|", *rows]), *map(_section, found)])
