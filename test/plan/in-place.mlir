// RUN: dynamlir-opt %s --split-input-file --dynamo-plan | FileCheck %s

// The new value of an argument, computed pointwise from the old one: the launch runs after the commit and writes it in place. The
// memory that it reads and writes is one argument of the kernel.

// CHECK-LABEL: func.func @main
// CHECK: dynamo.workspace : memref<0xi8
// CHECK-NEXT: dynamo.commit
// CHECK-NEXT: dynamo.launch @kernels::@step(%arg1, %arg0) : (memref<4xf32>, memref<4xf32>) -> ()
// CHECK-NEXT: return
// CHECK: func.func @step(%[[GRAD:.*]]: memref<4xf32> {llvm.noalias}, %[[PARAM:.*]]: memref<4xf32> {llvm.noalias})
// CHECK: bufferization.to_tensor %[[PARAM]]
// CHECK: bufferization.to_tensor %[[GRAD]]
// CHECK: bufferization.materialize_in_destination %{{.*}} in restrict writable %[[PARAM]]
func.func @main(%param: tensor<4xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0}, %grad: tensor<4xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0})
    -> (tensor<4xf32> {dynamo.mutates = 0 : i64}) attributes {dynamo.entry, dynamo.outputs = []} {
  %0 = dynamo.launch @kernels::@step(%param, %grad) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
module @kernels {
  func.func @step(%p: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
    %0 = dynamo.sub %p, %g : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// Two launches, one of which reads what the other writes: the larger one is in place, the result of the other is copied after it.

// CHECK-LABEL: func.func @main
// CHECK: dynamo.launch @kernels::@count(%arg1, %[[NEW:.*]]) :
// CHECK: dynamo.commit
// CHECK: dynamo.launch @kernels::@step(%{{.*}}, %arg0) :
// CHECK-NEXT: dynamo.launch @kernels::@copy(%[[NEW]], %arg1)
// CHECK-NEXT: return
func.func @main(%param: tensor<4xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0}, %count: tensor<f32> {dynamo.strides = array<i64>, dynamo.offset = 0})
    -> (tensor<f32> {dynamo.mutates = 1 : i64}, tensor<4xf32> {dynamo.mutates = 0 : i64}) attributes {dynamo.entry, dynamo.outputs = []} {
  %0 = dynamo.launch @kernels::@count(%count) : (tensor<f32>) -> tensor<f32>
  %1 = dynamo.broadcast %count dims [] : tensor<f32> -> tensor<4xf32>
  %2 = dynamo.launch @kernels::@step(%param, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %2 : tensor<f32>, tensor<4xf32>
}
module @kernels {
  func.func @count(%n: tensor<f32>) -> tensor<f32> attributes {dynamo.kernel, dynamo.domain = array<i64>, dynamo.reduced_dims = array<i64>} {
    %0 = dynamo.neg %n : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func @step(%p: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
    %0 = dynamo.sub %p, %g : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// Not if it reads the old value in another order (`x.add_(x.T)`): elements would be overwritten before they are read.

// CHECK-LABEL: func.func @main
// CHECK: dynamo.launch @kernels::@step
// CHECK: dynamo.commit
// CHECK: dynamo.launch @kernels::@copy
func.func @main(%x: tensor<4x4xf32> {dynamo.strides = array<i64: 4, 1>, dynamo.offset = 0})
    -> (tensor<4x4xf32> {dynamo.mutates = 0 : i64}) attributes {dynamo.entry, dynamo.outputs = []} {
  %0 = dynamo.permute %x dims [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = dynamo.launch @kernels::@step(%x, %0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
module @kernels {
  func.func @step(%p: tensor<4x4xf32>, %g: tensor<4x4xf32>) -> tensor<4x4xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 4>, dynamo.reduced_dims = array<i64>} {
    %0 = dynamo.add %p, %g : tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
}

// -----

// Nor if another argument shares the memory, if the result has another use, or if rows are reduced first.

// CHECK-LABEL: func.func @main
// CHECK: dynamo.launch @kernels::@step
// CHECK: dynamo.commit
// CHECK-NEXT: dynamo.launch @kernels::@copy
func.func @main(%x: tensor<4xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0, dynamo.storage = 0 : i64},
                %y: tensor<4xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 2, dynamo.storage = 0 : i64})
    -> (tensor<4xf32> {dynamo.mutates = 0 : i64}) attributes {dynamo.entry, dynamo.outputs = []} {
  %0 = dynamo.launch @kernels::@step(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
module @kernels {
  func.func @step(%p: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
    %0 = dynamo.sub %p, %g : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// CHECK-LABEL: func.func @main
// CHECK: dynamo.launch @kernels::@step
// CHECK: dynamo.commit
// CHECK-NEXT: dynamo.launch @kernels::@copy
func.func @main(%x: tensor<4xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>}, tensor<4xf32> {dynamo.mutates = 0 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.launch @kernels::@step(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %0 : tensor<4xf32>, tensor<4xf32>
}
module @kernels {
  func.func @step(%p: tensor<4xf32>) -> tensor<4xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
    %0 = dynamo.neg %p : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// CHECK-LABEL: func.func @main
// CHECK: dynamo.launch @kernels::@step
// CHECK: dynamo.commit
// CHECK-NEXT: dynamo.launch @kernels::@copy
func.func @main(%x: tensor<4xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0})
    -> (tensor<4xf32> {dynamo.mutates = 0 : i64}) attributes {dynamo.entry, dynamo.outputs = []} {
  %0 = dynamo.launch @kernels::@step(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
module @kernels {
  func.func @step(%p: tensor<4xf32>) -> tensor<4xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64: 0>} {
    %0 = dynamo.reduce sum %p dims [0] : tensor<4xf32> -> tensor<f32>
    %1 = dynamo.broadcast %0 dims [] : tensor<f32> -> tensor<4xf32>
    %2 = dynamo.div %p, %1 : tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}
