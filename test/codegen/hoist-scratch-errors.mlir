// RUN: dynamlir-opt %s --verify-diagnostics --dynamo-hoist-scratch

// A temporary that moves must not depend on operations that it moves past.

func.func @dynamic(%n: index) {
  // expected-error @+1 {{a kernel's temporary must have a static size}}
  %row = memref.alloca(%n) : memref<?xf32>
  return
}
