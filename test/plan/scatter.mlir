// RUN: dynamlir-opt %s --split-input-file --dynamo-fuse --dynamo-plan | FileCheck %s

// A write by index goes into a copy of the base. The domain of its kernel is the source; one place may be written more than
// once along the dimensions that only the index depends on. A repeated index is a view.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: memref<9x4xf32>, %[[I:.*]]: memref<3xi64>, %[[S:.*]]: memref<3x4xf32>)
// CHECK: %[[OUT:.*]] = dynamo.output_buffer : memref<9x4xf32>
// CHECK: dynamo.launch @kernels::@copy(
// CHECK: %[[AT:.*]] = memref.reinterpret_cast %[[I]] {{.*}} to memref<3x4xi64, strided<[1, 0]>>
// CHECK: dynamo.launch @kernels::@scatter(%[[AT]], %[[S]], %[[OUT]])
// CHECK: func.func @scatter(%[[P:[^:]*]]: memref<3x4xi64, strided<[1, 0]>> {{.*}}, %[[Q:[^:]*]]: memref<3x4xf32> {{.*}}, %[[R:[^:]*]]: memref<9x4xf32>
// CHECK-SAME: dynamo.domain = array<i64: 3, 4>
// CHECK-SAME: dynamo.reduced_dims = array<i64: 0>
// CHECK: %[[NEW:.*]] = dynamo.scatter %{{.*}} into %{{.*}}[%{{.*}}] dims [-1, 1] by sum
// CHECK: bufferization.materialize_in_destination %[[NEW]] in restrict writable %[[R]]
module {
  func.func @main(%x: tensor<9x4xf32>, %i: tensor<3xi64>, %s: tensor<3x4xf32>) -> (tensor<9x4xf32> {dynamo.strides = array<i64: 4, 1>})
      attributes {dynamo.entry} {
    %at = dynamo.broadcast %i dims [0] : tensor<3xi64> -> tensor<3x4xi64>
    %r = dynamo.scatter %s into %x[%at] dims [-1, 1] by sum : tensor<9x4xf32>, tensor<3x4xi64>, tensor<3x4xf32> -> tensor<9x4xf32>
    return %r : tensor<9x4xf32>
  }
}

// -----

// A base that a kernel computed only for this is overwritten, at the destination of the result.

// CHECK-LABEL: func.func @main
// CHECK: %[[OUT:.*]] = dynamo.output_buffer : memref<9xi8>
// CHECK: dynamo.launch @kernels::@{{.*}}(%{{.*}}, %[[OUT]])
// CHECK-NOT: dynamo.launch @kernels::@copy
// CHECK: dynamo.launch @kernels::@scatter(%{{.*}}, %{{.*}}, %[[OUT]])
// CHECK-NEXT: return %[[OUT]]
module {
  func.func @main(%x: tensor<9xi8>, %i: tensor<3xi64>, %s: tensor<3xi8>) -> (tensor<9xi8> {dynamo.strides = array<i64: 1>})
      attributes {dynamo.entry} {
    %base = dynamo.not %x : tensor<9xi8>
    %r = dynamo.scatter %s into %base[%i] dims [-1] : tensor<9xi8>, tensor<3xi64>, tensor<3xi8> -> tensor<9xi8>
    return %r : tensor<9xi8>
  }
}

// -----

// Not if it has another use.

// CHECK-LABEL: func.func @main
// CHECK: dynamo.launch @kernels::@copy
// CHECK: dynamo.launch @kernels::@scatter
module {
  func.func @main(%x: tensor<9xi8>, %i: tensor<3xi64>, %s: tensor<3xi8>)
      -> (tensor<9xi8> {dynamo.strides = array<i64: 1>}, tensor<9xi8> {dynamo.strides = array<i64: 1>}) attributes {dynamo.entry} {
    %base = dynamo.not %x : tensor<9xi8>
    %r = dynamo.scatter %s into %base[%i] dims [-1] : tensor<9xi8>, tensor<3xi64>, tensor<3xi8> -> tensor<9xi8>
    return %r, %base : tensor<9xi8>, tensor<9xi8>
  }
}
