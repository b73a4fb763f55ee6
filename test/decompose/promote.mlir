// RUN: dynamlir-opt %s --split-input-file --dynamo-decompose --dynamo-verify-prims | FileCheck %s

// A 0-d tensor of the same category does not widen a tensor with dimensions.

// CHECK-LABEL: func.func @zero_dim
// CHECK: %[[NARROW:.*]] = dynamo.convert %{{.*}} : tensor<f64> -> tensor<f32>
// CHECK-NEXT: %[[WHOLE:.*]] = dynamo.broadcast %[[NARROW]] dims [] : tensor<f32> -> tensor<3xf32>
// CHECK-NEXT: dynamo.add %{{.*}}, %[[WHOLE]] : tensor<3xf32>
func.func @zero_dim(%x: tensor<3xf32>, %s: tensor<f64>) -> tensor<3xf32> {
  %0 = dynamo.aten "aten.add.Tensor"(%x, %s) args [#dynamo.operand<0>, #dynamo.operand<1>, 1 : i64]
    : (tensor<3xf32>, tensor<f64>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// A Python float promotes integers to the default dtype, in which they are compared.

// CHECK-LABEL: func.func @number_above_category
// CHECK-DAG: %[[X:.*]] = dynamo.convert %{{.*}} : tensor<3xi64> -> tensor<3xf32>
// CHECK-DAG: %[[HALF:.*]] = dynamo.full 5.0{{.*}}e-01 : f32 -> tensor<3xf32>
// CHECK: dynamo.compare lt %[[X]], %[[HALF]] : tensor<3xf32> -> tensor<3xi1>
func.func @number_above_category(%x: tensor<3xi64>) -> tensor<3xi1> {
  %0 = dynamo.aten "aten.lt.Scalar"(%x) args [#dynamo.operand<0>, 0.5 : f64] : (tensor<3xi64>) -> tensor<3xi1>
  return %0 : tensor<3xi1>
}

// -----

// A Python int is wrapped to the tensor's type: -1 is 255 as ui8.

// CHECK-LABEL: func.func @wrapped
// CHECK: dynamo.full 255 : ui8 -> tensor<3xui8>
func.func @wrapped(%x: tensor<3xui8>) -> tensor<3xi1> {
  %0 = dynamo.aten "aten.eq.Scalar"(%x) args [#dynamo.operand<0>, -1 : i64] : (tensor<3xui8>) -> tensor<3xi1>
  return %0 : tensor<3xi1>
}

// -----

// Tensors with dimensions: ui8 and i8 are promoted to i16, bf16 and f16 to f32.

// CHECK-LABEL: func.func @join
// CHECK: dynamo.add %{{.*}}, %{{.*}} : tensor<3xi16>
// CHECK: dynamo.add %{{.*}}, %{{.*}} : tensor<3xf32>
func.func @join(%a: tensor<3xui8>, %b: tensor<3xi8>, %c: tensor<3xbf16>, %d: tensor<3xf16>) -> (tensor<3xi16>, tensor<3xf32>) {
  %0 = dynamo.aten "aten.add.Tensor"(%a, %b) args [#dynamo.operand<0>, #dynamo.operand<1>, 1 : i64]
    : (tensor<3xui8>, tensor<3xi8>) -> tensor<3xi16>
  %1 = dynamo.aten "aten.add.Tensor"(%c, %d) args [#dynamo.operand<0>, #dynamo.operand<1>, 1 : i64]
    : (tensor<3xbf16>, tensor<3xf16>) -> tensor<3xf32>
  return %0, %1 : tensor<3xi16>, tensor<3xf32>
}

// -----

// An in-place op with a narrower result: computed in the promoted type, then converted.

// CHECK-LABEL: func.func @narrower_result
// CHECK: %[[SUM:.*]] = dynamo.add %{{.*}}, %{{.*}} : tensor<3xf64>
// CHECK-NEXT: dynamo.convert %[[SUM]] : tensor<3xf64> -> tensor<3xf32>
func.func @narrower_result(%x: tensor<3xf32>, %y: tensor<3xf64>) -> tensor<3xf32> {
  %0 = dynamo.aten "aten.add.Tensor"(%x, %y) args [#dynamo.operand<0>, #dynamo.operand<1>, 1 : i64]
    : (tensor<3xf32>, tensor<3xf64>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// Eager multiplies a bf16 tensor by the Python number itself, but adds the number rounded to bf16.

// CHECK-LABEL: func.func @number_with_half
// CHECK: dynamo.full 3.000000e-01 : f32 -> tensor<3xf32>
// CHECK: dynamo.full 0.30078125 : f32 -> tensor<3xf32>
func.func @number_with_half(%x: tensor<3xbf16>) -> (tensor<3xbf16>, tensor<3xbf16>) {
  %0 = dynamo.aten "aten.mul.Scalar"(%x) args [#dynamo.operand<0>, 0.3 : f64] : (tensor<3xbf16>) -> tensor<3xbf16>
  %1 = dynamo.aten "aten.add.Scalar"(%x) args [#dynamo.operand<0>, 0.3 : f64, 1 : i64] : (tensor<3xbf16>) -> tensor<3xbf16>
  return %0, %1 : tensor<3xbf16>, tensor<3xbf16>
}

// -----

// True division converts integers to floats; for bools a sum is an or.

// CHECK-LABEL: func.func @categories
// CHECK: dynamo.div %{{.*}}, %{{.*}} : tensor<3xf32>
// CHECK: dynamo.or %{{.*}}, %{{.*}} : tensor<3xi1>
func.func @categories(%x: tensor<3xi32>, %b: tensor<3xi1>) -> (tensor<3xf32>, tensor<3xi1>) {
  %0 = dynamo.aten "aten.div.Tensor"(%x, %x) args [#dynamo.operand<0>, #dynamo.operand<1>]
    : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xf32>
  %1 = dynamo.aten "aten.add.Tensor"(%b, %b) args [#dynamo.operand<0>, #dynamo.operand<1>, 1 : i64]
    : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
  return %0, %1 : tensor<3xf32>, tensor<3xi1>
}
