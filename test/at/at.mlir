// RUN: dynamlir-opt %s --dynamo-at="symbols=s0=3,s1=8" | FileCheck %s

// Numbers replace symbols in types, in attributes and their nested attributes, and in kernels. The result has no symbols to declare.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<3x8xf32> {dynamo.offset = 24 : i64, dynamo.strides = array<i64: 8, 1>})
// CHECK-SAME: -> (tensor<24xf32> {dynamo.strides = array<i64: 1>})
// CHECK-SAME: attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<arg_view 0, [2, 8], [8, 1], 32>]}
// CHECK: %[[V:.*]] = dynamo.aten "aten.view.default"(%[[X]]) args [#dynamo.operand<0>, [24]] {operand_strides = [array<i64: 8, 1>], result_strides = [array<i64: 1>]}
// CHECK: %[[PART:.*]] = dynamo.slice %[[V]] starts [2] steps [1] : tensor<24xf32> -> tensor<22xf32>
// CHECK: dynamo.pad %[[PART]] low [2] high [0]
// CHECK: dynamo.full 24 : i64 -> tensor<i64>
// CHECK: dynamo.launch @kernels::@exp_0
// CHECK: func.func @exp_0(%{{.*}}: tensor<24xf32>) -> tensor<24xf32> attributes {dynamo.domain = array<i64: 24>, dynamo.kernel, dynamo.reduced_dims = array<i64>}
module {
  func.func @main(%x: tensor<?x?xf32, #dynamo.sizes<s0, s1>> {dynamo.offset = #dynamo.expr<s0*s1>, dynamo.strides = #dynamo.sizes<s1, 1>})
      -> (tensor<?xf32, #dynamo.sizes<s0*s1>> {dynamo.strides = array<i64: 1>}) attributes {
      dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<arg_view 0, [s0 - 1, s1], [s1, 1], s0*s1 + s1>],
      dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>, #dynamo.symbol<s1, argument = 0, dim = 1, divisor = 4>]} {
    %0 = dynamo.aten "aten.view.default"(%x) args [#dynamo.operand<0>, [#dynamo.expr<s0*s1>]]
      {operand_strides = [#dynamo.sizes<s1, 1>], result_strides = [array<i64: 1>]}
      : (tensor<?x?xf32, #dynamo.sizes<s0, s1>>) -> tensor<?xf32, #dynamo.sizes<s0*s1>>
    %1 = dynamo.slice %0 starts [s0 - 1] steps [1] : tensor<?xf32, #dynamo.sizes<s0*s1>> -> tensor<?xf32, #dynamo.sizes<s0*s1 - s0 + 1>>
    %2 = dynamo.pad %1 low [s0 - 1] high [0] value 0.0 : f32 : tensor<?xf32, #dynamo.sizes<s0*s1 - s0 + 1>> -> tensor<?xf32, #dynamo.sizes<s0*s1>>
    %3 = dynamo.full #dynamo.expr<s0*s1> -> tensor<i64>
    %4 = dynamo.launch @kernels::@exp_0(%2) : (tensor<?xf32, #dynamo.sizes<s0*s1>>) -> tensor<?xf32, #dynamo.sizes<s0*s1>>
    return %4 : tensor<?xf32, #dynamo.sizes<s0*s1>>
  }
  module @kernels {
    func.func @exp_0(%x: tensor<?xf32, #dynamo.sizes<s0*s1>>) -> tensor<?xf32, #dynamo.sizes<s0*s1>> attributes {
        dynamo.kernel, dynamo.domain = #dynamo.sizes<s0*s1>, dynamo.reduced_dims = array<i64>, dynamo.symbols = [#dynamo.symbol<s0>, #dynamo.symbol<s1>]} {
      %0 = dynamo.exp %x : tensor<?xf32, #dynamo.sizes<s0*s1>>
      return %0 : tensor<?xf32, #dynamo.sizes<s0*s1>>
    }
  }
}
