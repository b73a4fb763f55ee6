"""Sphinx's configuration of the documentation, which `scripts/docs` builds into `target/docs/html`.

The pages are Markdown that reads well in the repository too. They do not repeat what other files of the tree know, such
as settings and reasons: `docs/extensions` puts that in place of comments such as ``<!-- generated: settings -->``.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "python")]

project = "dynamlir"
author = "the authors of dynamlir"
project_copyright = author
release = version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "extensions.docstrings",
    "extensions.mlir_lexer",
    "extensions.pages",
]

html_theme = "furo"
html_title = f"dynamlir {release}"
html_theme_options = {"source_repository": "https://github.com/dynamlir/dynamlir/", "source_branch": "main"}
html_theme_options["source_directory"] = "docs/"
html_show_sphinx = False
html_copy_source = False

# Fenced code without a language is text. Quotes stay as they are, since they may be code.
highlight_language = "none"
smartquotes = False
# GitHub's anchors, so that one link works here and there.
myst_heading_anchors = 4
# Each reference in a page has to lead somewhere. Types of other packages, and of modules that are not public, have no
# pages here.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!dynamlir\.).*"), ("py:class", r"dynamlir\.\w+\..*")]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
