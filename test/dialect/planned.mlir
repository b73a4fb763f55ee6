// RUN: dynamlir-opt %s | FileCheck %s
// RUN: dynamlir-opt %s | dynamlir-opt | FileCheck %s
// RUN: dynamlir-opt %s --mlir-print-op-generic | dynamlir-opt | FileCheck %s
// RUN: dynamlir-opt %s --emit-bytecode | dynamlir-opt | FileCheck %s

// The graph after outlining, and after planning.

// CHECK-LABEL: func.func @outlined
func.func @outlined(%x: tensor<4xf32>) {
  // CHECK: dynamo.launch @kernels::@add_0(%arg0, %arg0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dynamo.launch @kernels::@add_0(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: dynamo.launch @kernels::@iota_0() : () -> (tensor<4xi64>, tensor<4xi64>)
  %0:2 = dynamo.launch @kernels::@iota_0() : () -> (tensor<4xi64>, tensor<4xi64>)
  return
}

// Ops that rely on the check use its result.
// CHECK-LABEL: func.func @checked
func.func @checked(%table: tensor<10xf32>, %i: tensor<4xi64>) -> tensor<4xf32> {
  // CHECK: %[[C:.*]] = dynamo.check_range %arg1 in{{ ?}}[0, 10) "index out of range" : (tensor<4xi64>) -> tensor<4xi64>
  %checked = dynamo.check_range %i in [0, 10) "index out of range" : (tensor<4xi64>) -> tensor<4xi64>
  // CHECK: dynamo.gather %arg0[%[[C]]]
  %r = dynamo.gather %table[%checked] : tensor<10xf32>, tensor<4xi64> -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// CHECK-LABEL: func.func @planned
func.func @planned(%x: memref<4x8xf32, strided<[1, 4], offset: 2>>) -> memref<4x8xf32> {
  // CHECK: %[[WS:.*]] = dynamo.workspace : memref<256xi8>
  %ws = dynamo.workspace : memref<256xi8>
  // The last buffer ends at the end of the workspace.
  // CHECK: %[[A:.*]] = dynamo.buffer %[[WS]][0] : memref<256xi8> -> memref<4x8xf32>
  %a = dynamo.buffer %ws[0] : memref<256xi8> -> memref<4x8xf32>
  // CHECK: dynamo.buffer %[[WS]][128] : memref<256xi8> -> memref<4x8xf32, strided<[1, 4]>>
  dynamo.buffer %ws[128] : memref<256xi8> -> memref<4x8xf32, strided<[1, 4]>>
  // CHECK: dynamo.buffer %[[WS]][256] : memref<256xi8> -> memref<0x8xf32>
  dynamo.buffer %ws[256] : memref<256xi8> -> memref<0x8xf32>
  // CHECK: %[[O:.*]] = dynamo.output_buffer : memref<4x8xf32>
  %o = dynamo.output_buffer : memref<4x8xf32>
  // CHECK: dynamo.launch @kernels::@k(%arg0, %[[A]]) : (memref<4x8xf32, strided<[1, 4], offset: 2>>, memref<4x8xf32>) -> ()
  dynamo.launch @kernels::@k(%x, %a) : (memref<4x8xf32, strided<[1, 4], offset: 2>>, memref<4x8xf32>) -> ()
  // Results in the graph's memory, and results that the operator allocates; one space before the route.
  // CHECK: dynamo.extern c_shim "aten.sin.out"(%[[A]]) outs(%[[O]]) args [#dynamo.operand<0>] : (memref<4x8xf32>) -> (), (memref<4x8xf32>)
  dynamo.extern c_shim "aten.sin.out"(%a) outs(%o) args [#dynamo.operand<0>] : (memref<4x8xf32>) -> (), (memref<4x8xf32>)
  // CHECK: dynamo.extern dispatcher "aten.nonzero.default"(%[[A]]) args [#dynamo.operand<0>] : (memref<4x8xf32>) -> memref<7x2xi64>
  dynamo.extern dispatcher "aten.nonzero.default"(%a) args [#dynamo.operand<0>] : (memref<4x8xf32>) -> memref<7x2xi64>
  // CHECK: dynamo.extern python "mylib.now.default"() args [] : () -> memref<i64>
  dynamo.extern python "mylib.now.default"() args [] : () -> memref<i64>
  // CHECK: dynamo.check_range %[[I:.*]] in{{ ?}}[-3, 3) "index out of range" : (memref<4xi64>) -> ()
  %i = dynamo.buffer %ws[0] : memref<256xi8> -> memref<4xi64>
  dynamo.check_range %i in [-3, 3) "index out of range" : (memref<4xi64>) -> ()
  // CHECK: dynamo.commit
  dynamo.commit
  // CHECK: return %[[O]]
  return %o : memref<4x8xf32>
}

// If a kernel takes bare pointers, its signature gives the memory they point to: here a bool, which is a byte, at any offset.
// CHECK-LABEL: func.func @lowered
func.func @lowered(%x: memref<4x1xi1, strided<[2, 9], offset: 5>>, %y: memref<4x1xui8>) {
  dynamo.launch @kernels::@lowered(%x, %y) : (memref<4x1xi1, strided<[2, 9], offset: 5>>, memref<4x1xui8>) -> ()
  return
}

module @kernels {
  func.func @add_0(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %0 = dynamo.add %x, %y : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func @iota_0() -> (tensor<4xi64>, tensor<4xi64>) {
    %0 = dynamo.iota 0 : tensor<4xi64>
    return %0, %0 : tensor<4xi64>, tensor<4xi64>
  }
  func.func private @k(memref<4x8xf32, strided<[1, 4]>>, memref<4x8xf32>)
  // CHECK: llvm.func @lowered
  // CHECK-SAME: dynamo.signature = (memref<4x1xi8, strided<[2, 1]>>) -> memref<4x1xi8>
  llvm.func @lowered(!llvm.ptr, !llvm.ptr) attributes {dynamo.signature = (memref<4x1xi8, strided<[2, 1]>>) -> memref<4x1xi8>}
}
