// RUN: dynamlir-opt %s --dynamo-to-linalg | FileCheck %s
//
// Kernels whose sizes are arguments. A memory argument whose type has a `?` becomes a pointer, with its window; reads go through a slice
// that has the sizes as values.

module @kernels {

// CHECK-LABEL: func.func @pointwise
// CHECK-SAME: (%[[IN:.*]]: memref<f32>, %[[BIAS:.*]]: memref<128xf32>, %[[OUT:.*]]: memref<f32>, %[[N:.*]]: index)
// CHECK-SAME: dynamo.signature = (memref<?x128xf32>, memref<128xf32>) -> memref<?x128xf32>
// CHECK-DAG: %[[X:.*]] = memref.reinterpret_cast %[[IN]] to offset: [0], sizes: [%[[N]], 128], strides: [128, 1] : memref<f32> to memref<?x128xf32>
// CHECK-DAG: %[[Y:.*]] = memref.reinterpret_cast %[[OUT]] to offset: [0], sizes: [%[[N]], 128], strides: [128, 1] : memref<f32> to memref<?x128xf32>
// CHECK: %[[WHOLE:.*]] = bufferization.to_tensor %[[X]] restrict : memref<?x128xf32> to tensor<?x128xf32>
// CHECK: %[[ROWS:.*]] = tensor.extract_slice %[[WHOLE]][0, 0] [%[[N]], 128] [1, 1] : tensor<?x128xf32> to tensor<?x128xf32>
// CHECK: %[[EMPTY:.*]] = tensor.empty(%[[N]]) {dynamo.out = 0 : i64} : tensor<?x128xf32>
// CHECK: linalg.generic {{.*}} ins(%[[ROWS]], %{{.*}} : tensor<?x128xf32>, tensor<128xf32>) outs(%[[EMPTY]] : tensor<?x128xf32>)
// CHECK-SAME: dynamo.domain = #dynamo.sizes<s0, 128>
// CHECK: bufferization.materialize_in_destination %{{.*}} in restrict writable %[[Y]] : (tensor<?x128xf32>, memref<?x128xf32>)
func.func @pointwise(%in: memref<?x128xf32>, %bias: memref<128xf32>, %out: memref<?x128xf32>, %n: index) attributes {
    dynamo.kernel, dynamo.domain = #dynamo.sizes<s0, 128>, dynamo.reduced_dims = array<i64>,
    dynamo.symbols = [#dynamo.symbol<s0, argument = 3>]} {
  %x = bufferization.to_tensor %in restrict : memref<?x128xf32> to tensor<?x128xf32, #dynamo.sizes<s0, 128>>
  %b = bufferization.to_tensor %bias restrict : memref<128xf32> to tensor<128xf32>
  %rows = dynamo.broadcast %b dims [1] : tensor<128xf32> -> tensor<?x128xf32, #dynamo.sizes<s0, 128>>
  %sum = dynamo.add %x, %rows : tensor<?x128xf32, #dynamo.sizes<s0, 128>>
  bufferization.materialize_in_destination %sum in restrict writable %out : (tensor<?x128xf32, #dynamo.sizes<s0, 128>>, memref<?x128xf32>) -> ()
  return
}

// Sizes are computed from the arguments, once. Rows have a size of their own, which is an expression of the domain's.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: %[[N:[^:]*]]: index, %[[M:[^:]*]]: index
// CHECK: %[[TWO:.*]] = arith.constant 2 : index
// CHECK: %[[ROWS:.*]] = arith.muli %[[N]], %[[TWO]] : index
// CHECK: %[[ONE:.*]] = arith.constant 1 : index
// CHECK: %[[COLUMNS:.*]] = arith.addi %[[M]], %[[ONE]] : index
// CHECK: memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%[[ROWS]], %[[COLUMNS]]], strides: [%[[COLUMNS]], 1] : memref<f32> to memref<?x?xf32>
// CHECK-NOT: arith.muli
// CHECK: tensor.empty(%[[ROWS]]) {dynamo.init = 0 : i64} : tensor<?xf32>
// CHECK: iterator_types = ["parallel", "reduction"]
func.func @rows(%in: memref<?x?xf32>, %out: memref<?xf32>, %n: index, %m: index) attributes {
    dynamo.kernel, dynamo.domain = #dynamo.sizes<s0*2, s1 + 1>, dynamo.reduced_dims = array<i64: 1>,
    dynamo.symbols = [#dynamo.symbol<s0, argument = 2>, #dynamo.symbol<s1, argument = 3>]} {
  %x = bufferization.to_tensor %in restrict : memref<?x?xf32> to tensor<?x?xf32, #dynamo.sizes<s0*2, s1 + 1>>
  %max = dynamo.reduce max %x dims [1] : tensor<?x?xf32, #dynamo.sizes<s0*2, s1 + 1>> -> tensor<?xf32, #dynamo.sizes<s0*2>>
  bufferization.materialize_in_destination %max in restrict writable %out : (tensor<?xf32, #dynamo.sizes<s0*2>>, memref<?xf32>) -> ()
  return
}

// Strides that are neither numbers nor follow from the sizes are recorded on the argument, until the window exists.
// CHECK-LABEL: func.func @columns_first
// CHECK-NOT: dynamo.strides
// CHECK: memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%[[N:.*]], 4], strides: [1, %[[N]]] : memref<f32> to memref<?x4xf32, strided<[1, ?]>>
func.func @columns_first(%in: memref<?x4xf32, strided<[1, ?]>> {dynamo.strides = #dynamo.sizes<1, s0>}, %out: memref<?x4xf32>, %n: index) attributes {
    dynamo.kernel, dynamo.domain = #dynamo.sizes<s0, 4>, dynamo.reduced_dims = array<i64>, dynamo.symbols = [#dynamo.symbol<s0, argument = 2>]} {
  %x = bufferization.to_tensor %in restrict : memref<?x4xf32, strided<[1, ?]>> to tensor<?x4xf32, #dynamo.sizes<s0, 4>>
  %minus = dynamo.neg %x : tensor<?x4xf32, #dynamo.sizes<s0, 4>>
  bufferization.materialize_in_destination %minus in restrict writable %out : (tensor<?x4xf32, #dynamo.sizes<s0, 4>>, memref<?x4xf32>) -> ()
  return
}

// Nothing is read here: the destination, viewed with strides of 0, gives the bounds of the loops.
// CHECK-LABEL: func.func @sum_of_positions
// CHECK: %[[SEEN:.*]] = memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%[[N:.*]]], strides: [0]
// CHECK: %[[WHOLE:.*]] = bufferization.to_tensor %[[SEEN]] restrict
// CHECK: tensor.extract_slice %[[WHOLE]][0] [%[[N]]] [1]
func.func @sum_of_positions(%out: memref<i64>, %n: index) attributes {
    dynamo.kernel, dynamo.domain = #dynamo.sizes<s0>, dynamo.reduced_dims = array<i64: 0>, dynamo.symbols = [#dynamo.symbol<s0, argument = 1>]} {
  %at = dynamo.iota 0 : tensor<?xi64, #dynamo.sizes<s0>>
  %sum = dynamo.reduce sum %at dims [0] : tensor<?xi64, #dynamo.sizes<s0>> -> tensor<i64>
  bufferization.materialize_in_destination %sum in restrict writable %out : (tensor<i64>, memref<i64>) -> ()
  return
}

// A size as a number in the body: the mean divides by it.
// CHECK-LABEL: func.func @mean
// CHECK-SAME: %[[N:[^:]*]]: index)
// CHECK: linalg.generic
// CHECK: linalg.yield
// CHECK: %[[SIZE:.*]] = arith.index_cast %[[N]] : index to i64
// CHECK: arith.sitofp %[[SIZE]] : i64 to f32
func.func @mean(%in: memref<4x?xf32>, %out: memref<4xf32>, %n: index) attributes {
    dynamo.kernel, dynamo.domain = #dynamo.sizes<4, s0>, dynamo.reduced_dims = array<i64: 1>, dynamo.symbols = [#dynamo.symbol<s0, argument = 2>]} {
  %x = bufferization.to_tensor %in restrict : memref<4x?xf32> to tensor<4x?xf32, #dynamo.sizes<4, s0>>
  %sum = dynamo.reduce sum %x dims [1] : tensor<4x?xf32, #dynamo.sizes<4, s0>> -> tensor<4xf32>
  %size = dynamo.full #dynamo.expr<s0> -> tensor<4xi64>
  %count = dynamo.convert %size : tensor<4xi64> -> tensor<4xf32>
  %mean = dynamo.div %sum, %count : tensor<4xf32>
  bufferization.materialize_in_destination %mean in restrict writable %out : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// The position of a maximum: two reductions over operands of the same sizes.
// CHECK-LABEL: func.func @position
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<?xf32>)
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<?xi64>)
func.func @position(%in: memref<?x?xf32>, %out: memref<?xi64>, %n: index, %m: index) attributes {
    dynamo.kernel, dynamo.domain = #dynamo.sizes<s0, s1>, dynamo.reduced_dims = array<i64: 1>,
    dynamo.symbols = [#dynamo.symbol<s0, argument = 2>, #dynamo.symbol<s1, argument = 3>]} {
  %x = bufferization.to_tensor %in restrict : memref<?x?xf32> to tensor<?x?xf32, #dynamo.sizes<s0, s1>>
  %at = dynamo.arg_reduce max %x dim 1 : tensor<?x?xf32, #dynamo.sizes<s0, s1>> -> tensor<?xi64, #dynamo.sizes<s0>>
  bufferization.materialize_in_destination %at in restrict writable %out : (tensor<?xi64, #dynamo.sizes<s0>>, memref<?xi64>) -> ()
  return
}

// Writes by index, distributed along the dimension that both have. The kernel records the condition for enough work for threads.
// CHECK-LABEL: func.func @by_index
// CHECK-SAME: (%[[I:[^:]*]]: memref<i64>, %[[S:[^:]*]]: memref<f32>, %[[OUT:[^:]*]]: memref<f32>, %[[N:[^:]*]]: index, %[[M:[^:]*]]: index)
// CHECK-SAME: dynamo.parallel = #dynamo.expr<s0*s1 - 16384>
// CHECK-SAME: dynamo.signature = (memref<?x?xi64, strided<[1, 0]>>, memref<?x?xf32>) -> memref<9x?xf32>
// CHECK: %[[AT:.*]] = memref.reinterpret_cast %[[I]] to offset: [0], sizes: [%[[N]], %[[M]]], strides: [1, 0]
// CHECK: %[[SOURCE:.*]] = memref.reinterpret_cast %[[S]] to offset: [0], sizes: [%[[N]], %[[M]]], strides: [%[[M]], 1]
// CHECK: %[[TABLE:.*]] = memref.reinterpret_cast %[[OUT]] to offset: [0], sizes: [9, %[[M]]], strides: [%[[M]], 1]
// CHECK: scf.forall (%[[NUMBER:.*]]) in (%{{.*}}) {
// CHECK: %[[FIRST:.*]] = arith.muli %[[NUMBER]], %[[BLOCK:.*]] : index
// CHECK: %[[END:.*]] = arith.minui %{{.*}}, %[[M]] : index
// CHECK: scf.for %[[P:.*]] = %{{.*}} to %[[N]]
// CHECK: scf.for %[[Q:.*]] = %[[FIRST]] to %[[END]]
// CHECK: %[[ROW:.*]] = memref.load %[[AT]][%[[P]], %[[Q]]]
// CHECK: memref.load %[[SOURCE]][%[[P]], %[[Q]]]
// CHECK: memref.store %{{.*}}, %[[TABLE]]
func.func @by_index(%i: memref<?x?xi64, strided<[1, 0]>>, %s: memref<?x?xf32>, %out: memref<9x?xf32>, %n: index, %m: index) attributes {
    dynamo.kernel, dynamo.domain = #dynamo.sizes<s0, s1>, dynamo.reduced_dims = array<i64: 0>,
    dynamo.symbols = [#dynamo.symbol<s0, argument = 3>, #dynamo.symbol<s1, argument = 4>]} {
  %0 = bufferization.to_tensor %i restrict : memref<?x?xi64, strided<[1, 0]>> to tensor<?x?xi64, #dynamo.sizes<s0, s1>>
  %1 = bufferization.to_tensor %s restrict : memref<?x?xf32> to tensor<?x?xf32, #dynamo.sizes<s0, s1>>
  %2 = bufferization.to_tensor %out restrict : memref<9x?xf32> to tensor<9x?xf32, #dynamo.sizes<9, s1>>
  %3 = dynamo.scatter %1 into %2[%0] dims [-1, 1] by sum
    : tensor<9x?xf32, #dynamo.sizes<9, s1>>, tensor<?x?xi64, #dynamo.sizes<s0, s1>>, tensor<?x?xf32, #dynamo.sizes<s0, s1>> -> tensor<9x?xf32, #dynamo.sizes<9, s1>>
  bufferization.materialize_in_destination %3 in restrict writable %out : (tensor<9x?xf32, #dynamo.sizes<9, s1>>, memref<9x?xf32>) -> ()
  return
}

}
