"""Whole programs that leave the process: `dynamlir.export`, and what it makes saved and loaded."""
