"""Recordings in which one size is a symbol: stage 00 of a graph with constant sizes, rewritten for all sizes.

A size is recognized by its value, a prime that nothing else in the graph is a multiple of. This makes it suitable for
tests only, in place of a recorder that knows the sources of sizes.
"""

from __future__ import annotations

import re

TENSOR = re.compile(r"!dynamo\.tensor<((?:\d+x)*)(\w+), \[([^\]]*)\](?:, (\d+))?>")
ARGS = re.compile(r"(\) args \[)(.*?)(\](?: \{| :))")


def expression(number: int, prime: int) -> str:
    """``number`` as an expression over s0, which represents ``prime``; the number itself if it is not a multiple."""
    if abs(number - prime) == 1:
        return "s0 + 1" if number > prime else "s0 - 1"
    powers = 0
    while number and number % prime == 0:
        number //= prime
        powers += 1
    return "*".join([*["s0"] * powers, *([str(number)] if number != 1 or not powers else [])])


def symbolized(text: str, prime: int, most: int) -> str:
    """The text of a recording at stage 00, with ``prime`` replaced by s0. It is declared to be at most ``most``."""

    def tensor(match: re.Match[str]) -> str:
        sizes = [expression(int(size), prime) for size in match[1].split("x") if size]
        strides = [expression(int(stride), prime) for stride in match[3].split(", ") if stride]
        offset = f", {expression(int(match[4]), prime)}" if match[4] else ""
        shape = f"[{', '.join(sizes)}]x" if any("s0" in size for size in sizes) else match[1]
        return f"!dynamo.tensor<{shape}{match[2]}, [{', '.join(strides)}]{offset}>"

    def argument(match: re.Match[str]) -> str:
        made = expression(int(match[0]), prime)
        return f"#dynamo.expr<{made}>" if "s0" in made else match[0]

    def arguments(match: re.Match[str]) -> str:
        # Only separate numbers: not those of operands, nor of floats.
        return match[1] + re.sub(r"(?<![<\w.])\d+(?![\w.>])", argument, match[2]) + match[3]

    text = ARGS.sub(arguments, TENSOR.sub(tensor, text))
    signature = re.search(r"func\.func @main\((.*?)\) -> ", text)
    assert signature is not None
    bound = [
        (place, sizes.split(", ").index("s0"))
        for place, sizes in enumerate(re.findall(r"!dynamo\.tensor<(?:\[([^\]]*)\]x)?", signature[1]))
        if "s0" in sizes.split(", ")
    ]
    assert bound, "no argument has the size"
    (place, dim), *_ = bound
    symbol = f"#dynamo.symbol<s0, argument = {place}, dim = {dim}, max = {most}, hint = {prime}>"
    entry, rest = text[: signature.end()], text[signature.end() :]
    return entry + rest.replace("attributes {", f"attributes {{dynamo.symbols = [{symbol}], ", 1)
