// RUN: split-file %s %t
// RUN: not dynamlir-opt %t/rows.mlir --dynamo-at="symbols=s0=3" 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not dynamlir-opt %t/rows.mlir --dynamo-at="symbols=s0=40" 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not dynamlir-opt %t/rows.mlir --dynamo-at="symbols=s1=8" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not dynamlir-opt %t/rows.mlir --dynamo-at="symbols=rows=8" 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: not dynamlir-opt %t/memory.mlir --dynamo-at="symbols=s0=8" 2>&1 | FileCheck %s --check-prefix=MEMORY

// Values that the declaration does not allow: one that is not a multiple of 4, and one that is too large.
// RANGE: rows.mlir:1:1: error: what it declares of its symbols does not allow s0=

// A symbol without a value.
// UNKNOWN: rows.mlir:1:1: error: {{.*}}s0

// TEXT: error: expected s0=3,s1=4, got rows=8

// From stage 04 on, sizes are arguments.
// MEMORY: memory.mlir:1:1: error: memref<?xf32> is memory, whose sizes are arguments

//--- rows.mlir
func.func @main(%x: tensor<?xf32, #dynamo.sizes<s0>>) -> tensor<?xf32, #dynamo.sizes<s0>> attributes {
    dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0, max = 32, divisor = 4>]} {
  return %x : tensor<?xf32, #dynamo.sizes<s0>>
}
//--- memory.mlir
func.func @kernel(%x: memref<?xf32>, %n: index) attributes {dynamo.kernel, dynamo.symbols = [#dynamo.symbol<s0, argument = 1>]} {
  return
}
