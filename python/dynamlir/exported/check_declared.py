"""Compares the assumptions of a capture about declared sizes with the declarations, and names the sizes.

For a ``Dim`` with a name nothing may be assumed beyond its declaration. For ``Dim.DYNAMIC`` the assumptions are found
out, and a call has to satisfy them; such a size must not turn out to be one number, as that of ``Dim.AUTO`` may. If no
sizes tried here violate a rule, it may always hold: it is not an error, and calls are checked against it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .. import expressions, source_lines
from ..capture.session import Session
from ..reasons import Fallback, Location
from .binding import told
from .declared import MOST, Declaration, Number
from .signature import Size

_MANY, _FEW, _MOST = 256, 24, 20000
"""The count of small numbers tried for a rule's only name, and for each of several; the maximum of combinations."""


class Judged:
    """The sizes of a captured call; raises torch's ``ConstraintViolationError`` for undeclared assumptions."""

    def __init__(self, declared: Declaration, session: Session, leaves: Sequence[str]) -> None:
        sizes = session.sizes
        if sizes is not None and len(sizes) != len(session.bound):
            raise Fallback("dynamic-shape", "a size that varies is read nowhere")
        self._leaves = leaves
        numbers = [*declared.numbers.values()]
        self._numbers = dict(declared.numbers)
        self._now = {name: declared.value(name) for name in declared.numbers}
        met = [] if sizes is None else sizes.declared
        promised = frozenset() if sizes is None else frozenset(sizes.promised)
        guards = [] if sizes is None else [(at, *one) for at, one in enumerate(sizes.guards) if at not in promised]
        settled = {numbers[at].name: now for at, _, now in met if now.isdigit()}
        lines = {symbol: str(numbers[at].found[1]) for at, symbol, _ in met}
        self._words = {symbol: now if now.isdigit() else lines[symbol] for _, symbol, now in met}
        # The requirement that a computed size fits in 64 bits is not a rule of the program.
        rules = [(text, where) for at, text, where in guards if not sizes.is_about_range(at)]
        self._rules: list[tuple[str, Location]] = [(expressions.of_native(text, lines), where) for text, where in rules]
        if faults := [fault for number in numbers for fault in self._faults(number, settled.get(number.name))]:
            raise _violation(faults)
        for name in settled:
            declared.drop(name)
        declared.forget_ints(declared.met(session))
        symbols = {numbers[at].name: symbol for at, symbol, _ in met}
        self.numbers = tuple(_size(number, symbols.get(number.name, "")) for number in declared.numbers.values())
        texts = (expressions.of_native(text, self._words) for _, text, _ in guards)
        self.assumed = tuple(dict.fromkeys(text for text in texts if expressions.names_in(text)))
        """The conditions for a call besides the declared ones."""

    def text(self, size: Any) -> int | str:
        """Returns a size of the capture in terms of the names."""
        if not isinstance(size, torch.SymInt):
            return int(size)
        node: Any = size.node
        found = expressions.of_native(str(node), self._words)
        return int(found) if re.fullmatch(r"-?\d+", found) else found

    def _faults(self, number: Number, settled: str | None) -> Iterator[tuple[str, str, str]]:
        """Yields undeclared assumptions about a number: its name, the problem, and a fix."""
        if number.kind == "auto":
            return
        (leaf, dim), line = number.found
        place, is_named = told(self._leaves[leaf], dim), number.kind == "named"
        declared = f"{place} was declared as {line if is_named else 'Dim.DYNAMIC'}"
        about = [rule for rule in self._rules if number.name in expressions.names_in(rule[0])]
        if settled is not None:
            now = line.number(int(settled))
            where = next((rule for rule in about if "==" in rule[0]), ("", []))[1]
            fix = f"{number.name} = {now}" if is_named else f"Dim.STATIC or Dim.AUTO for {place}"
            yield (
                number.name,
                f"{declared}, but the program takes it for {settled}{source_lines.described(tuple(where))}",
                fix,
            )
        elif is_named:
            for text, where in about:
                if all(self._numbers[name].kind == "named" for name in expressions.names_in(text)):
                    if not (refuted := self._refuted(text)):
                        continue
                    told_ = ", ".join(f"{name} = {value}" for name, value in refuted[0].items())
                    wrong = f"{declared}, but the program is right only where {text}, not for {told_}"
                    yield (
                        number.name,
                        f"{wrong}{source_lines.described(tuple(where))}",
                        self._fix(text, number, refuted),
                    )

    def _refuted(self, rule: str) -> list[dict[str, int]]:
        """Returns those of the tried sizes that violate a rule."""
        names = sorted(expressions.names_in(rule))
        tried = [self._samples(self._numbers[name], rule, _MANY if len(names) == 1 else _FEW) for name in names]
        values = (dict(zip(names, one)) for one in itertools.islice(itertools.product(*tried), _MOST))
        return [one for one in values if not expressions.at(rule, one)]

    def _fix(self, rule: str, number: Number, refuted: Sequence[dict[str, int]]) -> str:
        """Returns a declaration under which a rule is true."""
        name, now = number.name, self._now[number.name]
        if expressions.names_in(rule) == {name}:
            wrong = [one[name] for one in refuted]
            if found := re.fullmatch(rf"{re.escape(name)} % (\d+) == 0", rule):
                return f"{name} = {found[1]}*_{name}"
            if max(wrong) < now:
                return f"{name} = {_dim(name, max(wrong) + 1, number.most)}"
            if min(wrong) > now:
                return f"{name} = {_dim(name, number.least, min(wrong) - 1)}"
        elif found := re.fullmatch(r"([A-Za-z_]\w*) == ([A-Za-z_]\w*)", rule):
            return f"{found[2]} = {found[1]}"
        return f"Dim.DYNAMIC in the place of {name}: what it has to keep to is found then, and checked at each call"

    @staticmethod
    def _samples(number: Number, rule: str, few: int) -> list[int]:
        """Returns numbers to try: small ones, those in the rule and their neighbours, the largest."""
        named = {int(text) + by for text in re.findall(r"\d+", rule) for by in (-1, 0, 1)}
        small = range(number.least, number.least + few)
        found = [*small, *sorted(named), *(1 << power for power in range(5, 20)), number.most - 1, number.most]
        return [value for value in dict.fromkeys(found) if number.least <= value <= number.most]


def _size(number: Number, symbol: str) -> Size:
    (leaf, dim), line = number.found
    return Size(number.name, leaf, dim, line.factor, line.offset, number.least, number.most, symbol)


def _dim(name: str, least: int, most: int) -> str:
    bounds = [f"min={least}"] * (least > 2) + [f"max={most}"] * (most <= MOST >> 12)
    return f"Dim({', '.join([repr(name), *bounds])})"


def _violation(faults: Sequence[tuple[str, str, str]]) -> Exception:
    # This imports sympy, which few programs need.
    from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

    names, wrong, fixes = (dict.fromkeys(part) for part in zip(*faults))
    return ConstraintViolationError(
        "\n".join(
            [
                f"Constraints violated ({', '.join(names)})!",
                *(f"  - {one}" for one in wrong),
                "Suggested fixes:",
                *(f"  {one}" for one in fixes),
            ]
        )
    )
