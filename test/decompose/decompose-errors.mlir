// RUN: dynamlir-opt %s --split-input-file --dynamo-decompose | FileCheck %s

// Arguments that no recorder would emit are not lowered: the op stays, and eager reports the error.

// CHECK-LABEL: func.func @dimension_out_of_range
// CHECK-NEXT: dynamo.aten "aten.sum.dim_IntList"
func.func @dimension_out_of_range(%x: tensor<3xf32>) -> tensor<f32> {
  %0 = dynamo.aten "aten.sum.dim_IntList"(%x) args [#dynamo.operand<0>, [7], false, unit] : (tensor<3xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @no_broadcast
// CHECK-NEXT: dynamo.aten "aten.mul.Tensor"
func.func @no_broadcast(%x: tensor<3xf32>, %y: tensor<2xf32>) -> tensor<3xf32> {
  %0 = dynamo.aten "aten.mul.Tensor"(%x, %y) args [#dynamo.operand<0>, #dynamo.operand<1>]
    : (tensor<3xf32>, tensor<2xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// CHECK-LABEL: func.func @missing_arguments
// CHECK-NEXT: dynamo.aten "aten.leaky_relu.default"
func.func @missing_arguments(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = dynamo.aten "aten.leaky_relu.default"(%x) args [#dynamo.operand<0>] : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// CHECK-LABEL: func.func @number_does_not_fit
// CHECK-NEXT: dynamo.aten "aten.full.default"
func.func @number_does_not_fit() -> tensor<2xui8> {
  %0 = dynamo.aten "aten.full.default"() args [[2], 300 : i64, ui8, unit, unit, unit] : () -> tensor<2xui8>
  return %0 : tensor<2xui8>
}

// -----

// CHECK-LABEL: func.func @unknown_size
// CHECK-NEXT: dynamo.aten "aten.exp.default"
func.func @unknown_size(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = dynamo.aten "aten.exp.default"(%x) args [#dynamo.operand<0>] : (tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
