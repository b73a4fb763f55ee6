"""Colours for MLIR, for which Pygments has no lexer."""

from __future__ import annotations

from typing import Any, ClassVar

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text
from sphinx.application import Sphinx


class MlirLexer(RegexLexer):
    """Operations, values, symbols, types and attributes by their first characters."""

    name = "MLIR"
    aliases: ClassVar[list[str]] = ["mlir"]
    tokens: ClassVar[dict[str, list[Any]]] = {
        "root": [
            (r"\s+", Text),
            (r"//.*", Comment.Single),
            (r'"(\\.|[^"\\])*"', String),
            (r"%[\w$.-]+(:\d+)?(#\d+)?", Name.Variable),
            (r"@[\w$.-]+", Name.Function),
            (r"\^\w+", Name.Label),
            (r"[#!][\w.]+", Keyword.Type),
            (r"\b(tensor|memref|vector|index|none|[su]?i\d+|bf16|f\d+)\b", Keyword.Type),
            (r"-?\b\d+(\.\d*)?([eE][+-]?\d+)?", Number),
            (r"\b(true|false|unit|dense|loc|affine_map|array)\b", Keyword.Constant),
            (r"[A-Za-z_][\w$]*(\.[\w$]+)+", Name.Builtin),
            (r"[A-Za-z_]\w*", Name),
            (r"->|=|[-+*]", Operator),
            (r".", Punctuation),
        ]
    }


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_lexer("mlir", MlirLexer)
    return {"parallel_read_safe": True}
