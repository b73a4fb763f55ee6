// RUN: dynamlir-opt %s --dynamo-loop-locations --convert-scf-to-cf --mlir-print-debuginfo | FileCheck %s

// A loop's variable has the loop's location, which is visible once it is a block argument.

// CHECK: ^bb1(%{{.*}}: index loc("model.py":7:0))
func.func @loop(%n: index, %m: memref<?xf32>, %x: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    memref.store %x, %m[%i] : memref<?xf32>
  } loc("model.py":7:0)
  return
}
