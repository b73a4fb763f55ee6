// RUN: dynamlir-opt %s | FileCheck %s
// RUN: dynamlir-opt %s | dynamlir-opt | FileCheck %s
// RUN: dynamlir-opt %s --mlir-print-op-generic | dynamlir-opt | FileCheck %s
// RUN: dynamlir-opt %s --emit-bytecode | dynamlir-opt | FileCheck %s

// The type and the attributes on their own.

// Sizes, strides, and the storage offset if it is not 0. Sizes and strides may be unknown.
// CHECK-LABEL: func.func private @tensors
// CHECK-SAME: (!dynamo.tensor<2x3xf32, [3, 1]>, !dynamo.tensor<2x3xf32, [1, 2], 4>, !dynamo.tensor<f64, []>,
// CHECK-SAME: !dynamo.tensor<f64, [], 7>, !dynamo.tensor<0x2xi1, [2, 1]>, !dynamo.tensor<5xui8, [0]>,
// CHECK-SAME: !dynamo.tensor<?x3xbf16, [?, 1]>, !dynamo.tensor<2xcomplex<f32>, [1]>)
func.func private @tensors(!dynamo.tensor<2x3xf32, [3, 1], 0>, !dynamo.tensor<2x3xf32, [1, 2], 4>,
  !dynamo.tensor<f64, []>, !dynamo.tensor<f64, [], 7>, !dynamo.tensor<0x2xi1, [2, 1]>, !dynamo.tensor<5xui8, [0]>,
  !dynamo.tensor<?x3xbf16, [?, 1]>, !dynamo.tensor<2xcomplex<f32>, [1]>)

// CHECK-LABEL: func.func private @arguments
// CHECK-SAME: device = #dynamo.device<"cuda:0">, layout = #dynamo.layout<"strided">,
// CHECK-SAME: memory_format = #dynamo.memory_format<"channels_last">, operand = #dynamo.operand<3>
func.func private @arguments() attributes {test = {
  operand = #dynamo.operand<3>, device = #dynamo.device<"cuda:0">,
  memory_format = #dynamo.memory_format<"channels_last">, layout = #dynamo.layout<"strided">}}

// CHECK-LABEL: func.func private @outputs
// CHECK-SAME: [#dynamo.output<result 0>, #dynamo.output<arg 1>, #dynamo.output<arg_view 1, [2, 3], [3, 1], 4>,
// CHECK-SAME: #dynamo.output<result_view 0, [], [], 0>, #dynamo.output<none>, #dynamo.output<same 2>, #dynamo.output<constant -3>]
func.func private @outputs(tensor<4xf32>, tensor<8xf32>) -> tensor<f32> attributes {dynamo.outputs = [
  #dynamo.output<result 0>, #dynamo.output<arg 1>, #dynamo.output<arg_view 1, [2, 3], [3, 1], 4>,
  #dynamo.output<result_view 0, [], [], 0>, #dynamo.output<none>, #dynamo.output<same 2>, #dynamo.output<constant -3>]}

// The bases of outputs; unit for those that have the right base as they are built.
// CHECK-LABEL: func.func private @bases
// CHECK-SAME: [#dynamo.base<none>, #dynamo.base<arg 0>, #dynamo.base<output 0>, #dynamo.base<hidden 3>, unit]
func.func private @bases(tensor<4xf32>) attributes {
  dynamo.outputs = [#dynamo.output<arg_view 0, [4], [1], 0>, #dynamo.output<arg_view 0, [2], [1], 0>, #dynamo.output<arg_view 0, [2], [1], 0>,
                    #dynamo.output<arg_view 0, [3], [1], 0>, #dynamo.output<none>],
  dynamo.bases = [#dynamo.base<none>, #dynamo.base<arg 0>, #dynamo.base<output 0>, #dynamo.base<hidden 3>, unit]}

// The enums of ops, as Rust writes them.
// CHECK-LABEL: func.func private @enums
// CHECK-SAME: [#dynamo<reduce_kind sum>, #dynamo<reduce_kind and>, #dynamo<predicate lt>, #dynamo<route c_shim>]
func.func private @enums() attributes {test =
  [#dynamo<reduce_kind sum>, #dynamo<reduce_kind and>, #dynamo<predicate lt>, #dynamo<route c_shim>]}

// The machine that kernels are compiled for: the processor, and the chip if it is a GPU. Values that are 0 or missing are not printed.
// CHECK-LABEL: func.func private @targets
// CHECK-SAME: all = #dynamo.target<"x86_64-unknown-linux-gnu", "znver4", "+avx2,+fma", vector_bits = 512, library_vector_bits = 256, chip = "sm_90">
// CHECK-SAME: plain = #dynamo.target<"aarch64-unknown-linux-gnu", "generic", "">
func.func private @targets() attributes {test = {
  all = #dynamo.target<"x86_64-unknown-linux-gnu", "znver4", "+avx2,+fma", library_vector_bits = 256, chip = "sm_90", vector_bits = 512>,
  plain = #dynamo.target<"aarch64-unknown-linux-gnu", "generic", "", vector_bits = 0>}}
