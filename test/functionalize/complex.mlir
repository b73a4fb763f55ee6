// RUN: dynamlir-opt %s --split-input-file --dynamo-functionalize --dynamo-verify-functional | FileCheck %s
// RUN: dynamlir-opt %s --split-input-file --dynamo-functionalize --dynamo-decompose --dynamo-fuse --dynamo-plan | FileCheck %s --check-prefix=PLAN

// Complex numbers have neither primitives nor kernels: they are values of torch's operators. Operators with a window read what a view
// contains, and put back what is written through it.

// CHECK-LABEL: func.func @main(%arg0: tensor<2x3xcomplex<f32>>
// CHECK: %[[Y:.*]] = dynamo.aten "aten.mul.Tensor"(%arg0, %arg0)
// CHECK: %[[R:.*]] = dynamo.aten "aten.as_strided_scatter.default"(%[[Y]], %arg1) args [#dynamo.operand<0>, #dynamo.operand<1>, [3], [1], 3]
// CHECK-SAME: operand_strides = [array<i64: 3, 1>, array<i64: 1>], result_strides = [array<i64: 3, 1>]
// CHECK: return %[[R]]

// PLAN-LABEL: func.func @main(
// PLAN: %[[Y:.*]] = dynamo.extern c_shim "aten.mul.Tensor"
// PLAN: dynamo.extern c_shim "aten.as_strided_scatter.default"(%[[Y]],
// PLAN-NOT: dynamo.launch
// PLAN-NOT: as_strided_copy
func.func @main(%x: !dynamo.tensor<2x3xcomplex<f32>, [3, 1]> {dynamo.name = "x"}, %r: !dynamo.tensor<3xcomplex<f32>, [1]> {dynamo.name = "r"})
    -> !dynamo.tensor<2x3xcomplex<f32>, [3, 1]> attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %y = dynamo.aten "aten.mul.Tensor"(%x, %x) args [#dynamo.operand<0>, #dynamo.operand<1>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<2x3xcomplex<f32>, [3, 1]>, !dynamo.tensor<2x3xcomplex<f32>, [3, 1]>) -> !dynamo.tensor<2x3xcomplex<f32>, [3, 1]>
  %row = dynamo.aten "aten.select.int"(%y) args [#dynamo.operand<0>, 0, 1] {aliases = array<i64: 0>}
    : (!dynamo.tensor<2x3xcomplex<f32>, [3, 1]>) -> !dynamo.tensor<3xcomplex<f32>, [1], 3>
  %0 = dynamo.aten "aten.copy_.default"(%row, %r) args [#dynamo.operand<0>, #dynamo.operand<1>, false]
    {aliases = array<i64: 0>, functional = "aten.copy.default", mutates = array<i64: 0>}
    : (!dynamo.tensor<3xcomplex<f32>, [1], 3>, !dynamo.tensor<3xcomplex<f32>, [1]>) -> !dynamo.tensor<3xcomplex<f32>, [1], 3>
  return %y : !dynamo.tensor<2x3xcomplex<f32>, [3, 1]>
}

// -----

// If a value must have another layout, torch copies it: into the memory of a result, and densely if eager's value is transposed.

// PLAN-LABEL: func.func @main(
// PLAN: %[[N:.*]] = dynamo.extern c_shim "aten.neg.default"(%arg0)
// PLAN: %[[OUT:.*]] = dynamo.output_buffer : memref<2x3xcomplex<f64>>
// PLAN: dynamo.extern dispatcher "aten.alias_copy.default"(%[[N]]) outs(%[[OUT]])
func.func @main(%x: !dynamo.tensor<2x3xcomplex<f64>, [1, 2]> {dynamo.name = "x"}, %y: !dynamo.tensor<2x3xcomplex<f64>, [3, 1]> {dynamo.name = "y"})
    -> !dynamo.tensor<2x3xcomplex<f64>, [3, 1]> attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.aten "aten.neg.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<2x3xcomplex<f64>, [1, 2]>) -> !dynamo.tensor<2x3xcomplex<f64>, [1, 2]>
  %1 = dynamo.aten "aten.clone.default"(%y) args [#dynamo.operand<0>, unit] {aliases = array<i64: -1>}
    : (!dynamo.tensor<2x3xcomplex<f64>, [3, 1]>) -> !dynamo.tensor<2x3xcomplex<f64>, [3, 1]>
  %2 = dynamo.aten "aten.copy_.default"(%1, %0) args [#dynamo.operand<0>, #dynamo.operand<1>, false]
    {aliases = array<i64: 0>, functional = "aten.copy.default", mutates = array<i64: 0>}
    : (!dynamo.tensor<2x3xcomplex<f64>, [3, 1]>, !dynamo.tensor<2x3xcomplex<f64>, [1, 2]>) -> !dynamo.tensor<2x3xcomplex<f64>, [3, 1]>
  return %1 : !dynamo.tensor<2x3xcomplex<f64>, [3, 1]>
}

// -----

// A view of a result as real numbers becomes a view of a real result, if the complex result is not returned.

// CHECK-LABEL: func.func @main(%arg0: tensor<3xcomplex<f32>>
// CHECK-SAME: dynamo.outputs = [#dynamo.output<result_view 0, [6], [1], 0>]
// CHECK: %[[Y:.*]] = dynamo.aten "aten.mul.Tensor"(%arg0, %arg0)
// CHECK: %[[R:.*]] = dynamo.aten "aten.view_as_real.default"(%[[Y]]) args [#dynamo.operand<0>]
// CHECK-SAME: operand_strides = [array<i64: 1>], result_strides = [array<i64: 2, 1>]
// CHECK-NEXT: return %[[R]] : tensor<3x2xf32>
func.func @main(%x: !dynamo.tensor<3xcomplex<f32>, [1]> {dynamo.name = "x"})
    -> !dynamo.tensor<6xf32, [1]> attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %y = dynamo.aten "aten.mul.Tensor"(%x, %x) args [#dynamo.operand<0>, #dynamo.operand<1>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<3xcomplex<f32>, [1]>, !dynamo.tensor<3xcomplex<f32>, [1]>) -> !dynamo.tensor<3xcomplex<f32>, [1]>
  %0 = dynamo.aten "aten.view_as_real.default"(%y) args [#dynamo.operand<0>] {aliases = array<i64: 0>}
    : (!dynamo.tensor<3xcomplex<f32>, [1]>) -> !dynamo.tensor<3x2xf32, [2, 1]>
  %1 = dynamo.aten "aten.view.default"(%0) args [#dynamo.operand<0>, [6]] {aliases = array<i64: 0>}
    : (!dynamo.tensor<3x2xf32, [2, 1]>) -> !dynamo.tensor<6xf32, [1]>
  return %1 : !dynamo.tensor<6xf32, [1]>
}

// -----

// A storage that is written and viewed in both types consists of real numbers.

// CHECK-LABEL: func.func @main(%arg0: tensor<3xcomplex<f32>>
// CHECK: %[[Y:.*]] = dynamo.aten "aten.mul.Tensor"(%arg0, %arg0)
// CHECK: %[[BASE:.*]] = dynamo.aten "aten.view_as_real.default"(%[[Y]])
// CHECK: %[[WRITTEN:.*]] = dynamo.as_strided_scatter %[[BASE]]
// CHECK: %[[R:.*]] = dynamo.aten "aten.view_as_complex.default"(%[[WRITTEN]])
// CHECK: return %[[R]] : tensor<3xcomplex<f32>>
func.func @main(%x: !dynamo.tensor<3xcomplex<f32>, [1]> {dynamo.name = "x"})
    -> !dynamo.tensor<3xcomplex<f32>, [1]> attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %y = dynamo.aten "aten.mul.Tensor"(%x, %x) args [#dynamo.operand<0>, #dynamo.operand<1>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<3xcomplex<f32>, [1]>, !dynamo.tensor<3xcomplex<f32>, [1]>) -> !dynamo.tensor<3xcomplex<f32>, [1]>
  %0 = dynamo.aten "aten.view_as_real.default"(%y) args [#dynamo.operand<0>] {aliases = array<i64: 0>}
    : (!dynamo.tensor<3xcomplex<f32>, [1]>) -> !dynamo.tensor<3x2xf32, [2, 1]>
  %1 = dynamo.aten "aten.select.int"(%0) args [#dynamo.operand<0>, 1, 1] {aliases = array<i64: 0>}
    : (!dynamo.tensor<3x2xf32, [2, 1]>) -> !dynamo.tensor<3xf32, [2], 1>
  %2 = dynamo.aten "aten.zero_.default"(%1) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<3xf32, [2], 1>) -> !dynamo.tensor<3xf32, [2], 1>
  return %y : !dynamo.tensor<3xcomplex<f32>, [1]>
}
