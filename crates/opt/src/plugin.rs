//! The plugin: `mlir-opt --load-dialect-plugin=… --load-pass-plugin=…` finds these two functions.
