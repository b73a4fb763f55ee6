"""The version of the package, which Cargo.toml names too."""

__version__ = "0.1.0"
