// RUN: dynamlir-opt %s --dynamo-fuse --dynamo-plan | FileCheck %s

// The table of a gather keeps its own sizes and strides regardless of the kernel's loops; only the elements that are read are
// converted from their form in memory. A check reads the indices in place.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[TABLE:.*]]: memref<10x1x8xi1, strided<[1, 80, 10], offset: 3>>
// CHECK-SAME: %[[I:[^:]*]]: memref<4xi64
// CHECK: dynamo.check_range %[[I]] in{{ ?}}[0, 10) "out" : (memref<4xi64>) -> ()
// CHECK: dynamo.launch @kernels::@[[K:.*]](%{{.*}}, %[[TABLE]], %{{.*}})
// CHECK: func.func @[[K]](
// CHECK-SAME: %[[MEMORY:[^:]*]]: memref<10x1x8xi8, strided<[1, 80, 10]>>
// CHECK: %[[T:.*]] = bufferization.to_tensor %[[MEMORY]] restrict : {{.*}} to tensor<10x1x8xi8>
// CHECK-NOT: convert
// CHECK: %[[G:.*]] = dynamo.gather %[[T]]{{.*}} -> tensor<4x8xi8>
// CHECK-NEXT: dynamo.convert %[[G]] : tensor<4x8xi8> -> tensor<4x8xi1>
module {
  func.func @main(%table: tensor<10x1x8xi1> {dynamo.strides = array<i64: 1, 80, 10>, dynamo.offset = 3 : i64}, %i: tensor<4xi64>) -> tensor<4x8xi1>
      attributes {dynamo.entry} {
    %c = dynamo.check_range %i in [0, 10) "out" : (tensor<4xi64>) -> tensor<4xi64>
    %row = dynamo.broadcast %c dims [0] : tensor<4xi64> -> tensor<4x8xi64>
    %zero = dynamo.full 0 : i64 -> tensor<4x8xi64>
    %column = dynamo.iota 1 : tensor<4x8xi64>
    %g = dynamo.gather %table[%row, %zero, %column] : tensor<10x1x8xi1>, tensor<4x8xi64>, tensor<4x8xi64>, tensor<4x8xi64> -> tensor<4x8xi1>
    %r = dynamo.not %g : tensor<4x8xi1>
    return %r : tensor<4x8xi1>
  }
}
