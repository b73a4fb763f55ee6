"""Sphinx extensions for these pages: text from other files of the tree, links into the repository, MLIR's colours."""
