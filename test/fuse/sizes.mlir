// RUN: dynamlir-opt %s --split-input-file --dynamo-select --dynamo-fuse --dynamo-verify-kernels | FileCheck %s
// RUN: dynamlir-opt %s --split-input-file --dynamo-select --dynamo-fuse --dynamo-at="symbols=s0=6" > %t.after
// RUN: dynamlir-opt %s --split-input-file --dynamo-at="symbols=s0=6" --dynamo-select --dynamo-fuse > %t.before
// RUN: diff %t.before %t.after
// RUN: echo 'func.func @f(%%x: tensor<?xf32>) -> tensor<f32> { %%0 = dynamo.reduce sum %%x dims [0] : tensor<?xf32> -> tensor<f32> return %%0 : tensor<f32> }' > %t.open
// RUN: not dynamlir-opt %t.open --dynamo-fuse 2>&1 | FileCheck %s --check-prefix=OPEN
// OPEN: error: dynamo-fuse needs to know sizes, as numbers or expressions

// Groups with sizes that are expressions are the same as with numbers. A kernel declares the symbols that it uses, and the facts about them.

// CHECK-LABEL: func.func @main
// CHECK: %[[Y:.*]] = dynamo.launch @kernels::@[[NORM:.*]](%arg0) : (tensor<?x8xf32, #dynamo.sizes<s0, 8>>) -> tensor<?x8xf32, #dynamo.sizes<s0, 8>>
// CHECK: %[[P:.*]] = dynamo.aten "aten.mm.default"(%[[Y]], %arg1)
// CHECK-NOT: code
// CHECK: return %[[P]]
// CHECK: func.func @[[NORM]](%{{.*}}: tensor<?x8xf32, #dynamo.sizes<s0, 8>>) -> tensor<?x8xf32, #dynamo.sizes<s0, 8>>
// CHECK-SAME: dynamo.domain = #dynamo.sizes<s0, 8>, dynamo.kernel, dynamo.reduced_dims = array<i64: 1>, dynamo.symbols = [#dynamo.symbol<s0, max = 64, hint = 6>]
// CHECK: dynamo.reduce sum %{{.*}} dims [1] : tensor<?x8xf32, #dynamo.sizes<s0, 8>> -> tensor<?xf32, #dynamo.sizes<s0>>
module {
  func.func @main(%x: tensor<?x8xf32, #dynamo.sizes<s0, 8>>, %w: tensor<8x4xf32>) -> tensor<?x4xf32, #dynamo.sizes<s0, 4>> attributes {
      dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0, max = 64, hint = 6>]} {
    %0 = dynamo.exp %x : tensor<?x8xf32, #dynamo.sizes<s0, 8>>
    %1 = dynamo.reduce sum %0 dims [1] : tensor<?x8xf32, #dynamo.sizes<s0, 8>> -> tensor<?xf32, #dynamo.sizes<s0>>
    %2 = dynamo.reshape %1 : tensor<?xf32, #dynamo.sizes<s0>> -> tensor<?x1xf32, #dynamo.sizes<s0, 1>>
    %3 = dynamo.broadcast %2 dims [0, 1] : tensor<?x1xf32, #dynamo.sizes<s0, 1>> -> tensor<?x8xf32, #dynamo.sizes<s0, 8>>
    %4 = dynamo.div %0, %3 : tensor<?x8xf32, #dynamo.sizes<s0, 8>>
    %5 = dynamo.aten "aten.mm.default"(%4, %w) args [#dynamo.operand<0>, #dynamo.operand<1>] code {
      %6 = dynamo.matmul %4, %w batch 0 : tensor<?x8xf32, #dynamo.sizes<s0, 8>>, tensor<8x4xf32> -> tensor<?x4xf32, #dynamo.sizes<s0, 4>>
      dynamo.yield %6 : tensor<?x4xf32, #dynamo.sizes<s0, 4>>
    } : (tensor<?x8xf32, #dynamo.sizes<s0, 8>>, tensor<8x4xf32>) -> tensor<?x4xf32, #dynamo.sizes<s0, 4>>
    return %5 : tensor<?x4xf32, #dynamo.sizes<s0, 4>>
  }
}

// -----

// A reshape moves over pointwise operations, and a broadcast is reshaped if its parts are known to fit.

// CHECK-LABEL: func.func @main
// CHECK: %[[ROWS:.*]] = dynamo.reshape %arg0 : tensor<?x2x4xf32, #dynamo.sizes<s0, 2, 4>> -> tensor<?x8xf32, #dynamo.sizes<s0, 8>>
// CHECK: dynamo.launch {{.*}}(%[[ROWS]]
// CHECK-NOT: dynamo.reshape
// CHECK: dynamo.domain = #dynamo.sizes<s0, 8>
module {
  func.func @main(%x: tensor<?x2x4xf32, #dynamo.sizes<s0, 2, 4>>) -> tensor<?xf32, #dynamo.sizes<s0>> attributes {
      dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
    %0 = dynamo.exp %x : tensor<?x2x4xf32, #dynamo.sizes<s0, 2, 4>>
    %1 = dynamo.reshape %0 : tensor<?x2x4xf32, #dynamo.sizes<s0, 2, 4>> -> tensor<?x8xf32, #dynamo.sizes<s0, 8>>
    %2 = dynamo.reduce sum %1 dims [1] : tensor<?x8xf32, #dynamo.sizes<s0, 8>> -> tensor<?xf32, #dynamo.sizes<s0>>
    return %2 : tensor<?xf32, #dynamo.sizes<s0>>
  }
}
