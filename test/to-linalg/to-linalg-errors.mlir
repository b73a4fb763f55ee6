// RUN: dynamlir-opt %s --dynamo-to-linalg --split-input-file --verify-diagnostics

// expected-error @+1 {{a kernel needs the attribute 'dynamo.domain'}}
func.func @no_domain() attributes {dynamo.kernel} {
  return
}

// -----

// expected-error @+1 {{a kernel needs the attribute 'dynamo.reduced_dims'}}
func.func @no_reduced_dims() attributes {dynamo.kernel, dynamo.domain = array<i64: 4>} {
  return
}

// -----

// expected-error @+1 {{a kernel's domain needs sizes of at least 1}}
func.func @empty() attributes {dynamo.kernel, dynamo.domain = array<i64: 0>, dynamo.reduced_dims = array<i64>} {
  return
}

// -----

func.func @shape_primitive(%x: memref<4xf32>, %out: memref<4xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %a = bufferization.to_tensor %x restrict : memref<4xf32> to tensor<4xf32>
  // expected-error @+1 {{'dynamo.reverse' cannot stand in a kernel}}
  %0 = dynamo.reverse %a dims [0] : tensor<4xf32> -> tensor<4xf32>
  bufferization.materialize_in_destination %0 in restrict writable %out : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

// A kernel that has not been planned.
func.func @unplanned(%x: tensor<4xf32>) -> tensor<4xf32>
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  // expected-error @+1 {{expected operands that the kernel defines or loads, got an argument of type tensor<4xf32>}}
  %0 = dynamo.neg %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @other_dims(%x: memref<4x8xf32>, %out: memref<8xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64: 1>} {
  %a = bufferization.to_tensor %x restrict : memref<4x8xf32> to tensor<4x8xf32>
  // expected-error @+1 {{expected the kernel's reduced dimensions [1], got [0]}}
  %0 = dynamo.reduce sum %a dims [0] : tensor<4x8xf32> -> tensor<8xf32>
  bufferization.materialize_in_destination %0 in restrict writable %out : (tensor<8xf32>, memref<8xf32>) -> ()
  return
}

// -----

func.func @row_reduced_again(%x: memref<4x8xf32>, %out: memref<f32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64: 1>} {
  %a = bufferization.to_tensor %x restrict : memref<4x8xf32> to tensor<4x8xf32>
  %0 = dynamo.reduce sum %a dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  // expected-error @+1 {{expected an operand of the kernel's domain [4, 8], got tensor<4xf32>}}
  %1 = dynamo.reduce sum %0 dims [0] : tensor<4xf32> -> tensor<f32>
  bufferization.materialize_in_destination %1 in restrict writable %out : (tensor<f32>, memref<f32>) -> ()
  return
}

// -----

func.func @other_shape(%x: memref<3xf32>, %out: memref<3xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64: 1>} {
  %a = bufferization.to_tensor %x restrict : memref<3xf32> to tensor<3xf32>
  // expected-error @+1 {{expected a value of the domain [4, 8] or of its rows [4], got tensor<3xf32>}}
  bufferization.materialize_in_destination %a in restrict writable %out : (tensor<3xf32>, memref<3xf32>) -> ()
  return
}

// -----

func.func @unsigned_memory(%x: memref<4xui8>, %out: memref<4xui8>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  // expected-error @+1 {{expected a signless element type in memory, got tensor<4xui8>}}
  %a = bufferization.to_tensor %x restrict : memref<4xui8> to tensor<4xui8>
  bufferization.materialize_in_destination %a in restrict writable %out : (tensor<4xui8>, memref<4xui8>) -> ()
  return
}

// -----

// The number after an f16, computed in f32, would round back to the f16.
func.func @no_lowering(%x: memref<4xf16>, %out: memref<4xf16>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %a = bufferization.to_tensor %x restrict : memref<4xf16> to tensor<4xf16>
  // expected-error @+1 {{'dynamo.nextafter' has no lowering at element type f16}}
  %0 = dynamo.nextafter %a, %a : tensor<4xf16>
  bufferization.materialize_in_destination %0 in restrict writable %out : (tensor<4xf16>, memref<4xf16>) -> ()
  return
}

// -----

func.func @computed_table(%x: memref<4xf32>, %i: memref<4xi64>, %out: memref<4xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %a = bufferization.to_tensor %x restrict : memref<4xf32> to tensor<4xf32>
  %b = bufferization.to_tensor %i restrict : memref<4xi64> to tensor<4xi64>
  %t = dynamo.neg %a : tensor<4xf32>
  // expected-error @+1 {{expected a table that the kernel loads}}
  %0 = dynamo.gather %t[%b] : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
  bufferization.materialize_in_destination %0 in restrict writable %out : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

// The signature has the memory that is read first and the memory that is written last.
// expected-error @+1 {{expected a kernel that writes its last arguments and loads only the others}}
func.func @written_first(%out: memref<4xf32>, %x: memref<4xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %a = bufferization.to_tensor %x restrict : memref<4xf32> to tensor<4xf32>
  bufferization.materialize_in_destination %a in restrict writable %out : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

// A pointwise kernel may overwrite its operands. Other kernels would read elements after they were overwritten.
// expected-error @+1 {{expected a kernel that writes its last arguments and loads only the others}}
func.func @read_and_written(%out: memref<4xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64: 0>} {
  %a = bufferization.to_tensor %out restrict : memref<4xf32> to tensor<4xf32>
  %s = dynamo.reduce sum %a dims [0] : tensor<4xf32> -> tensor<f32>
  %w = dynamo.broadcast %s dims [] : tensor<f32> -> tensor<4xf32>
  %0 = dynamo.mul %a, %w : tensor<4xf32>
  bufferization.materialize_in_destination %0 in restrict writable %out : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

func.func @scatter_elsewhere(%i: memref<2xi64>, %s: memref<2xf32>, %x: memref<4xf32>, %out: memref<4xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 2>, dynamo.reduced_dims = array<i64: 0>} {
  %0 = bufferization.to_tensor %i restrict : memref<2xi64> to tensor<2xi64>
  %1 = bufferization.to_tensor %s restrict : memref<2xf32> to tensor<2xf32>
  %2 = bufferization.to_tensor %x restrict : memref<4xf32> to tensor<4xf32>
  // expected-error @+1 {{expected a kernel that loads indices, source and base, writes into the base, and does nothing else}}
  %3 = dynamo.scatter %1 into %2[%0] dims [-1] : tensor<4xf32>, tensor<2xi64>, tensor<2xf32> -> tensor<4xf32>
  bufferization.materialize_in_destination %3 in restrict writable %out : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}
