// RUN: dynamlir-opt %s --dynamo-to-linalg | FileCheck %s
//
// Kernels with reductions: one generic for each reduction on the way to the result; the last one yields the results.

module @kernels {

// Three phases. Two of them need the exponential, which is computed once: phase 1 yields it along with the sum.
// CHECK-LABEL: func.func @softmax
// CHECK: %[[X:.*]] = bufferization.to_tensor
// CHECK: %[[LOWEST:.*]] = linalg.fill {dynamo.init = 0 : i64} ins(%{{.*}} : f32) outs(%{{.*}} : tensor<64xf32>)
// CHECK: %[[MAX:.*]] = linalg.generic {indexing_maps = [#[[FULL:.*]], #[[ROW:.*]]], iterator_types = ["parallel", "reduction"]}
// CHECK-SAME: ins(%[[X]] : {{.*}}) outs(%[[LOWEST]] : {{.*}}) attrs = {dynamo.phase = 0 : i64}
// CHECK: arith.maximumf
// CHECK: %[[ZERO:.*]] = linalg.fill {dynamo.init = 1 : i64}
// CHECK: %[[EMPTY:.*]] = tensor.empty() {dynamo.out = 1 : i64} : tensor<64x128xf32>
// CHECK: %[[SUM:.*]]:2 = linalg.generic {indexing_maps = [#[[FULL]], #[[ROW]], #[[ROW]], #[[FULL]]], iterator_types = ["parallel", "reduction"]}
// CHECK-SAME: ins(%[[X]], %[[MAX]] : {{.*}}) outs(%[[ZERO]], %[[EMPTY]] : {{.*}}) attrs = {dynamo.phase = 1 : i64}
// CHECK-NEXT: ^bb0(%[[XI:[^:]*]]: f32, %[[MI:[^:]*]]: f32, %[[ACC:[^:]*]]: f32,
// CHECK-NEXT: %[[D:.*]] = arith.subf %[[XI]], %[[MI]] : f32
// CHECK-NEXT: %[[E:.*]] = math.exp %[[D]] : f32
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[ACC]], %[[E]] fastmath<reassoc> : f32
// CHECK-NEXT: linalg.yield %[[S]], %[[E]] : f32, f32
// CHECK: %[[Y:.*]] = linalg.generic {indexing_maps = [#[[FULL]], #[[ROW]], #[[FULL]]], iterator_types = ["parallel", "parallel"]}
// CHECK-SAME: ins(%[[SUM]]#1, %[[SUM]]#0 : {{.*}}) outs({{.*}}) attrs = {dynamo.phase = 2 : i64}
// CHECK-NOT: math.exp
// CHECK: bufferization.materialize_in_destination %[[Y]]
func.func @softmax(%in: memref<64x128xf32, strided<[256, 1]>>, %out: memref<64x128xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 64, 128>, dynamo.reduced_dims = array<i64: 1>} {
  %x = bufferization.to_tensor %in restrict : memref<64x128xf32, strided<[256, 1]>> to tensor<64x128xf32>
  %m = dynamo.reduce max %x dims [1] : tensor<64x128xf32> -> tensor<64xf32>
  %mb = dynamo.broadcast %m dims [0] : tensor<64xf32> -> tensor<64x128xf32>
  %d = dynamo.sub %x, %mb : tensor<64x128xf32>
  %e = dynamo.exp %d : tensor<64x128xf32>
  %s = dynamo.reduce sum %e dims [1] : tensor<64x128xf32> -> tensor<64xf32>
  %sb = dynamo.broadcast %s dims [0] : tensor<64xf32> -> tensor<64x128xf32>
  %y = dynamo.div %e, %sb : tensor<64x128xf32>
  bufferization.materialize_in_destination %y in restrict writable %out : (tensor<64x128xf32>, memref<64x128xf32>) -> ()
  return
}

// Mean and deviation are cheap per row: they are computed in the loops. The last phase returns them, and for that iterates
// over the reduced dimension as a reduction.
// CHECK-LABEL: func.func @layer_norm
// CHECK: linalg.generic {{.*}} attrs = {dynamo.phase = 0 : i64}
// CHECK: linalg.generic {{.*}} attrs = {dynamo.phase = 1 : i64}
// CHECK: arith.divf
// CHECK: arith.subf
// CHECK: %[[R:.*]]:3 = linalg.generic {indexing_maps = [#[[FULL]], #[[FULL]], #[[ROW]], #[[ROW]], #[[FULL]], #[[ROW]], #[[ROW]]]
// CHECK-SAME: iterator_types = ["parallel", "reduction"]
// CHECK-SAME: dynamo.phase = 2 : i64
// CHECK: %[[MEAN:.*]] = arith.divf
// CHECK: math.sqrt
// CHECK: %[[RSTD:.*]] = arith.divf
// CHECK: linalg.yield %{{.*}}, %[[MEAN]], %[[RSTD]] : f32, f32, f32
// CHECK: bufferization.materialize_in_destination %[[R]]#0 in restrict writable %arg2
// CHECK: bufferization.materialize_in_destination %[[R]]#1 in restrict writable %arg3
// CHECK: bufferization.materialize_in_destination %[[R]]#2 in restrict writable %arg4
func.func @layer_norm(%in: memref<64x128xf32>, %weight: memref<64x128xf32, strided<[0, 1]>>, %out: memref<64x128xf32>,
                      %out_mean: memref<64xf32>, %out_rstd: memref<64xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 64, 128>, dynamo.reduced_dims = array<i64: 1>} {
  %x = bufferization.to_tensor %in restrict : memref<64x128xf32> to tensor<64x128xf32>
  %w = bufferization.to_tensor %weight restrict : memref<64x128xf32, strided<[0, 1]>> to tensor<64x128xf32>
  %n = dynamo.full 128.0 : f32 -> tensor<64xf32>
  %sum = dynamo.reduce sum %x dims [1] : tensor<64x128xf32> -> tensor<64xf32>
  %mean = dynamo.div %sum, %n : tensor<64xf32>
  %meanb = dynamo.broadcast %mean dims [0] : tensor<64xf32> -> tensor<64x128xf32>
  %c = dynamo.sub %x, %meanb : tensor<64x128xf32>
  %sq = dynamo.mul %c, %c : tensor<64x128xf32>
  %ssq = dynamo.reduce sum %sq dims [1] : tensor<64x128xf32> -> tensor<64xf32>
  %var = dynamo.div %ssq, %n : tensor<64xf32>
  %eps = dynamo.full 1.0e-5 : f32 -> tensor<64xf32>
  %vare = dynamo.add %var, %eps : tensor<64xf32>
  %rstd = dynamo.rsqrt %vare : tensor<64xf32>
  %rstdb = dynamo.broadcast %rstd dims [0] : tensor<64xf32> -> tensor<64x128xf32>
  %h = dynamo.mul %c, %rstdb : tensor<64x128xf32>
  %y = dynamo.mul %h, %w : tensor<64x128xf32>
  bufferization.materialize_in_destination %y in restrict writable %out : (tensor<64x128xf32>, memref<64x128xf32>) -> ()
  bufferization.materialize_in_destination %mean in restrict writable %out_mean : (tensor<64xf32>, memref<64xf32>) -> ()
  bufferization.materialize_in_destination %rstd in restrict writable %out_rstd : (tensor<64xf32>, memref<64xf32>) -> ()
  return
}

// A logarithm per row is not part of a loop over the domain: it is a phase of its own, before the one that uses it.
// CHECK-LABEL: func.func @log_softmax
// CHECK: linalg.generic {{.*}} attrs = {dynamo.phase = 0 : i64}
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} attrs = {dynamo.phase = 1 : i64}
// CHECK: %[[LOG:.*]] = linalg.generic {indexing_maps = [#[[ID:.*]], #[[ID]]], iterator_types = ["parallel"]} ins(%[[SUM]] : tensor<4xf32>)
// CHECK-SAME: dynamo.phase = 2 : i64
// CHECK-NEXT: ^bb0
// CHECK-NEXT: math.log
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%{{.*}}, %{{.*}}, %[[LOG]] :
// CHECK-SAME: dynamo.phase = 3 : i64
func.func @log_softmax(%x: memref<4x8xf32>, %out: memref<4x8xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64: 1>} {
  %a = bufferization.to_tensor %x restrict : memref<4x8xf32> to tensor<4x8xf32>
  %m = dynamo.reduce max %a dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  %mb = dynamo.broadcast %m dims [0] : tensor<4xf32> -> tensor<4x8xf32>
  %d = dynamo.sub %a, %mb : tensor<4x8xf32>
  %e = dynamo.exp %d : tensor<4x8xf32>
  %s = dynamo.reduce sum %e dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  %l = dynamo.log %s : tensor<4xf32>
  %lb = dynamo.broadcast %l dims [0] : tensor<4xf32> -> tensor<4x8xf32>
  %y = dynamo.sub %d, %lb : tensor<4x8xf32>
  bufferization.materialize_in_destination %y in restrict writable %out : (tensor<4x8xf32>, memref<4x8xf32>) -> ()
  return
}

// If only rows are returned, the last phase iterates over rows; the sum passes through it.
// CHECK-LABEL: func.func @row_root
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} attrs = {dynamo.phase = 0 : i64}
// CHECK: %[[R:.*]]:2 = linalg.generic {{.*}} iterator_types = ["parallel"]} ins(%[[SUM]] : tensor<4xf32>)
// CHECK-SAME: dynamo.phase = 1 : i64
// CHECK-NEXT: ^bb0(%[[S:[^:]*]]: f32,
// CHECK-NEXT: %[[ROOT:.*]] = math.sqrt %[[S]] : f32
// CHECK-NEXT: linalg.yield %[[ROOT]], %[[S]] : f32, f32
func.func @row_root(%x: memref<4x8xf32>, %out: memref<4xf32>, %sum: memref<4xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64: 1>} {
  %a = bufferization.to_tensor %x restrict : memref<4x8xf32> to tensor<4x8xf32>
  %s = dynamo.reduce sum %a dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  %r = dynamo.sqrt %s : tensor<4xf32>
  bufferization.materialize_in_destination %r in restrict writable %out : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %s in restrict writable %sum : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// If there are only reductions, no further phase is needed. Leading dimensions are reduced: the loops keep their order.
// CHECK-LABEL: func.func @columns
// CHECK: %[[R:.*]]:2 = linalg.generic {{.*}} iterator_types = ["reduction", "parallel"]
// CHECK-NOT: linalg.generic
// CHECK: bufferization.materialize_in_destination %[[R]]#0
// CHECK: bufferization.materialize_in_destination %[[R]]#1
func.func @columns(%x: memref<4x8xf32>, %sum: memref<8xf32>, %squares: memref<8xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64: 0>} {
  %a = bufferization.to_tensor %x restrict : memref<4x8xf32> to tensor<4x8xf32>
  %s = dynamo.reduce sum %a dims [0] : tensor<4x8xf32> -> tensor<8xf32>
  %q = dynamo.mul %a, %a : tensor<4x8xf32>
  %r = dynamo.reduce sum %q dims [0] : tensor<4x8xf32> -> tensor<8xf32>
  bufferization.materialize_in_destination %s in restrict writable %sum : (tensor<8xf32>, memref<8xf32>) -> ()
  bufferization.materialize_in_destination %r in restrict writable %squares : (tensor<8xf32>, memref<8xf32>) -> ()
  return
}

// Largest element and its index: the maximum, shared, then its first place. A NaN is a maximum.
// CHECK-LABEL: func.func @max_with_index
// CHECK: %[[MAX:.*]] = linalg.generic {{.*}} attrs = {dynamo.phase = 0 : i64}
// CHECK: arith.maximumf
// CHECK: %[[NEVER:.*]] = arith.constant 2147483647 : i32
// CHECK: linalg.fill {dynamo.init = 1 : i64} ins(%[[NEVER]] : i32)
// CHECK: %[[PLACE:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[MAX]] : {{.*}} attrs = {dynamo.phase = 1 : i64}
// CHECK-NEXT: ^bb0(%[[X:[^:]*]]: f32, %[[M:[^:]*]]: f32, %[[FIRST:[^:]*]]: i32):
// CHECK-DAG: %[[EQUAL:.*]] = arith.cmpf oeq, %[[X]], %[[M]] : f32
// CHECK-DAG: %[[NAN:.*]] = arith.cmpf une, %[[X]], %[[X]] : f32
// CHECK: %[[HIT:.*]] = arith.ori %[[EQUAL]], %[[NAN]] : i1
// CHECK: linalg.index 1 : index
// CHECK: %[[ELSEWHERE:.*]] = arith.select %[[HIT]],
// CHECK: %[[INDEX:.*]] = arith.ori %{{.*}}, %[[ELSEWHERE]] : i32
// CHECK: %[[LEAST:.*]] = arith.minsi %[[FIRST]], %[[INDEX]] : i32
// CHECK: linalg.yield %[[LEAST]] : i32
// CHECK: linalg.generic {{.*}} ins(%[[MAX]], %[[PLACE]] : {{.*}} attrs = {dynamo.phase = 2 : i64}
// CHECK: arith.extsi %{{.*}} : i32 to i64
func.func @max_with_index(%x: memref<4x8xf32>, %max: memref<4xf32>, %index: memref<4xi64>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64: 1>} {
  %a = bufferization.to_tensor %x restrict : memref<4x8xf32> to tensor<4x8xf32>
  %m = dynamo.reduce max %a dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  %i = dynamo.arg_reduce max %a dim 1 : tensor<4x8xf32> -> tensor<4xi64>
  bufferization.materialize_in_destination %m in restrict writable %max : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %i in restrict writable %index : (tensor<4xi64>, memref<4xi64>) -> ()
  return
}

// Rows that are too long for the stack: the hyperbolic tangent is computed twice.
// CHECK-LABEL: func.func @long_rows
// CHECK: linalg.generic
// CHECK: math.tanh
// CHECK: linalg.generic
// CHECK: math.tanh
func.func @long_rows(%x: memref<2x40000xf32>, %out: memref<2x40000xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 2, 40000>, dynamo.reduced_dims = array<i64: 1>} {
  %a = bufferization.to_tensor %x restrict : memref<2x40000xf32> to tensor<2x40000xf32>
  %t = dynamo.tanh %a : tensor<2x40000xf32>
  %s = dynamo.reduce sum %t dims [1] : tensor<2x40000xf32> -> tensor<2xf32>
  %sb = dynamo.broadcast %s dims [0] : tensor<2xf32> -> tensor<2x40000xf32>
  %y = dynamo.div %t, %sb : tensor<2x40000xf32>
  bufferization.materialize_in_destination %y in restrict writable %out : (tensor<2x40000xf32>, memref<2x40000xf32>) -> ()
  return
}

// No operand has the shape of the domain: the destination, viewed with strides of 0, gives the bounds of the loops.
// CHECK-LABEL: func.func @sum_of_indices
// CHECK: %[[VIEW:.*]] = memref.reinterpret_cast %arg0 to offset: [0], sizes: [4, 8], strides: [0, 0]
// CHECK: %[[EXTENT:.*]] = bufferization.to_tensor %[[VIEW]] restrict
// CHECK: linalg.generic {{.*}} ins(%[[EXTENT]] : tensor<4x8xi64>)
// CHECK: linalg.index 1
func.func @sum_of_indices(%out: memref<4xi64>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64: 1>} {
  %i = dynamo.iota 1 : tensor<4x8xi64>
  %s = dynamo.reduce sum %i dims [1] : tensor<4x8xi64> -> tensor<4xi64>
  bufferization.materialize_in_destination %s in restrict writable %out : (tensor<4xi64>, memref<4xi64>) -> ()
  return
}

// A reduction that depends on the position may be split like any other full reduction.
// CHECK-LABEL: func.func @sum_of_all_indices
// CHECK: linalg.generic {{.*}} {dynamo.phase = 0 : i64}
// CHECK: linalg.index 0
func.func @sum_of_all_indices(%out: memref<i64>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 100000>, dynamo.reduced_dims = array<i64: 0>} {
  %i = dynamo.iota 0 : tensor<100000xi64>
  %s = dynamo.reduce sum %i dims [0] : tensor<100000xi64> -> tensor<i64>
  bufferization.materialize_in_destination %s in restrict writable %out : (tensor<i64>, memref<i64>) -> ()
  return
}

// The initial value of each reduction, and its step. Bools have their own.
// CHECK-LABEL: func.func @kinds_float
func.func @kinds_float(%x: memref<4x8xf32>, %out: memref<4xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64: 1>} {
  %a = bufferization.to_tensor %x restrict : memref<4x8xf32> to tensor<4x8xf32>
  // CHECK: arith.constant 0.000000e+00 : f32
  // CHECK: linalg.fill {dynamo.init = 0 : i64}
  %0 = dynamo.reduce sum %a dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  // CHECK: arith.constant 1.000000e+00 : f32
  // CHECK: linalg.fill {dynamo.init = 0 : i64}
  %1 = dynamo.reduce prod %a dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  // CHECK: arith.constant 0xFF800000 : f32
  // CHECK: linalg.fill {dynamo.init = 0 : i64}
  %2 = dynamo.reduce max %a dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  // CHECK: arith.constant 0x7F800000 : f32
  // CHECK: linalg.fill {dynamo.init = 0 : i64}
  %3 = dynamo.reduce min %a dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  // CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]
  // CHECK: arith.addf {{.*}} fastmath<reassoc> : f32
  // CHECK: arith.mulf {{.*}} fastmath<reassoc> : f32
  // CHECK: arith.maximumf %{{[^ ]*}}, %{{[^ ]*}} : f32
  // CHECK: arith.minimumf %{{[^ ]*}}, %{{[^ ]*}} : f32
  bufferization.materialize_in_destination %0 in restrict writable %out : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %1 in restrict writable %out : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %2 in restrict writable %out : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %3 in restrict writable %out : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// CHECK-LABEL: func.func @kinds_int
func.func @kinds_int(%x: memref<4x8xi32>, %out: memref<4xi32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64: 1>} {
  %a = bufferization.to_tensor %x restrict : memref<4x8xi32> to tensor<4x8xi32>
  // CHECK: arith.constant 0 : i32
  // CHECK: linalg.fill {dynamo.init = 0 : i64}
  %0 = dynamo.reduce sum %a dims [1] : tensor<4x8xi32> -> tensor<4xi32>
  // CHECK: arith.constant 1 : i32
  // CHECK: linalg.fill {dynamo.init = 0 : i64}
  %1 = dynamo.reduce prod %a dims [1] : tensor<4x8xi32> -> tensor<4xi32>
  // CHECK: arith.constant -2147483648 : i32
  // CHECK: linalg.fill {dynamo.init = 0 : i64}
  %2 = dynamo.reduce max %a dims [1] : tensor<4x8xi32> -> tensor<4xi32>
  // CHECK: arith.constant 2147483647 : i32
  // CHECK: linalg.fill {dynamo.init = 0 : i64}
  %3 = dynamo.reduce min %a dims [1] : tensor<4x8xi32> -> tensor<4xi32>
  // CHECK: arith.constant -1 : i32
  // CHECK: linalg.fill {dynamo.init = 0 : i64}
  %4 = dynamo.reduce and %a dims [1] : tensor<4x8xi32> -> tensor<4xi32>
  // CHECK: arith.constant 0 : i32
  // CHECK: linalg.fill {dynamo.init = 0 : i64}
  %5 = dynamo.reduce or %a dims [1] : tensor<4x8xi32> -> tensor<4xi32>
  // CHECK: arith.constant 0 : i32
  // CHECK: linalg.fill {dynamo.init = 0 : i64}
  %6 = dynamo.reduce xor %a dims [1] : tensor<4x8xi32> -> tensor<4xi32>
  // CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]
  // CHECK: arith.addi
  // CHECK: arith.muli
  // CHECK: arith.maxsi
  // CHECK: arith.minsi
  // CHECK: arith.andi
  // CHECK: arith.ori
  // CHECK: arith.xori
  bufferization.materialize_in_destination %0 in restrict writable %out : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %1 in restrict writable %out : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %2 in restrict writable %out : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %3 in restrict writable %out : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %4 in restrict writable %out : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %5 in restrict writable %out : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %6 in restrict writable %out : (tensor<4xi32>, memref<4xi32>) -> ()
  return
}

// Sums of columns whose result has another order in memory are computed in a separate buffer, and then copied.
// CHECK-LABEL: func.func @written_across
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} iterator_types = ["reduction", "parallel", "parallel"]} {{.*}} attrs = {dynamo.phase = 0 : i64}
// CHECK: arith.addf
// CHECK: %[[COPY:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%[[SUM]]{{.*}} attrs = {dynamo.phase = 1 : i64}
// CHECK-NEXT: ^bb0(%[[IN:[^:]*]]: f32
// CHECK-NEXT: linalg.yield %[[IN]]
// CHECK: bufferization.materialize_in_destination %[[COPY]]
func.func @written_across(%in: memref<4x8x16xf32>, %out: memref<8x16xf32, strided<[1, 8]>>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8, 16>, dynamo.reduced_dims = array<i64: 0>} {
  %x = bufferization.to_tensor %in restrict : memref<4x8x16xf32> to tensor<4x8x16xf32>
  %s = dynamo.reduce sum %x dims [0] : tensor<4x8x16xf32> -> tensor<8x16xf32>
  bufferization.materialize_in_destination %s in restrict writable %out : (tensor<8x16xf32>, memref<8x16xf32, strided<[1, 8]>>) -> ()
  return
}
}
