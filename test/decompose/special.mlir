// RUN: dynamlir-opt %s --split-input-file --dynamo-decompose --dynamo-select --dynamo-verify-prims | FileCheck %s

// Two ranges, each with its own formula, and a select between them.

// CHECK-LABEL: func.func @spherical
// CHECK-DAG: dynamo.sin
// CHECK-DAG: dynamo.compare lt
// CHECK: dynamo.select
// CHECK-NOT: dynamo.aten
func.func @spherical(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dynamo.aten "aten.special_spherical_bessel_j0.default"(%x) args [#dynamo.operand<0>] : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Eager raises for 16-bit floats, so these are left to eager.

// CHECK-LABEL: func.func @half
// CHECK: dynamo.aten
func.func @half(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = dynamo.aten "aten.special_bessel_j0.default"(%x) args [#dynamo.operand<0>] : (tensor<4xbf16>) -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}
