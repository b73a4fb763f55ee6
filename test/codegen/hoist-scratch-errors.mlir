// RUN: dynamlir-opt %s --verify-diagnostics --dynamo-hoist-scratch

// A temporary that moves may not depend on what stood before it.

func.func @dynamic(%n: index) {
  // expected-error @+1 {{a kernel's temporary must have a static size}}
  %row = memref.alloca(%n) : memref<?xf32>
  return
}
