"""Whole programs that leave the process: `dynamlir.export`, and saving and loading its results."""
