// RUN: dynamlir-opt %s --dynamo-to-linalg -o %t.05.mlir
// RUN: FileCheck %s --check-prefix=LINALG < %t.05.mlir
// RUN: dynamlir-opt %t.05.mlir --pass-pipeline='builtin.module(builtin.module(dynamo-schedule,canonicalize,cse))' -o %t.06.mlir
// RUN: FileCheck %s --check-prefix=SCHEDULED < %t.06.mlir
// RUN: dynamlir-opt %t.06.mlir -o %t.07.mlir --pass-pipeline='builtin.module(builtin.module(canonicalize,cse, \
// RUN:   eliminate-empty-tensors,empty-tensor-to-alloc-tensor,one-shot-bufferize{bufferize-function-boundaries=0}, \
// RUN:   canonicalize,cse,canonicalize,func.func(promote-buffers-to-stack{max-alloc-size-in-bytes=131072 \
// RUN:   max-rank-of-allocated-memref=8},buffer-loop-hoisting),canonicalize))'
// RUN: FileCheck %s --check-prefix=BUFFERS < %t.07.mlir
// RUN: dynamlir-opt %t.07.mlir -o %t.08.mlir --pass-pipeline='builtin.module(builtin.module(dynamo-loop-locations, \
// RUN:   func.func(convert-linalg-to-loops),canonicalize,cse,scf-forall-to-parallel,convert-scf-to-openmp, \
// RUN:   dynamo-hoist-scratch,dynamo-approximate-math,dynamo-legalize-arith,canonicalize,expand-strided-metadata, \
// RUN:   lower-affine,canonicalize,cse,convert-scf-to-cf,arith-expand{include-bf16=1},convert-math-to-libm, \
// RUN:   convert-math-to-llvm,convert-func-to-llvm{use-bare-ptr-memref-call-conv=1},finalize-memref-to-llvm, \
// RUN:   convert-arith-to-llvm,convert-ub-to-llvm,convert-cf-to-llvm,convert-index-to-llvm,convert-openmp-to-llvm, \
// RUN:   reconcile-unrealized-casts,canonicalize,dynamo-alias-scopes))'
// RUN: FileCheck %s --check-prefix=LLVM < %t.08.mlir
// RUN: dynamlir-opt %s --dynamlir-planned-to-linalg | diff %t.05.mlir -
// RUN: dynamlir-opt %t.05.mlir --dynamlir-linalg-to-scheduled | diff %t.06.mlir -
// RUN: dynamlir-opt %t.06.mlir --dynamlir-scheduled-to-bufferized | diff %t.07.mlir -
// RUN: dynamlir-opt %t.07.mlir --dynamlir-bufferized-to-llvm | diff %t.08.mlir -

// A softmax from stage 04 to stage 08, stage by stage. Only module @kernels changes. Each step also has a name.

// Three phases: maximum, sum of exponentials, quotient.
// LINALG: dynamo.launch @kernels::@softmax
// LINALG: func.func @softmax
// LINALG: dynamo.phase = 0
// LINALG: dynamo.phase = 1
// LINALG: dynamo.phase = 2

// Blocks of rows for threads, inside them a loop over rows, and inside that the phases.
// SCHEDULED: dynamo.launch @kernels::@softmax
// SCHEDULED: scf.forall
// SCHEDULED: scf.for
// SCHEDULED: dynamo.phase = 0
// SCHEDULED: dynamo.phase = 1
// SCHEDULED: dynamo.phase = 2

// The output is written in place. The temporaries of a row are small and on the stack; nothing is on the heap.
// BUFFERS: func.func @softmax
// BUFFERS-NOT: tensor<
// BUFFERS-NOT: memref.alloc()
// BUFFERS-NOT: memref.copy
// BUFFERS: scf.forall
// BUFFERS: memref.alloca() {{.*}}: memref<1xf32>
// BUFFERS: scf.for
// BUFFERS-NOT: memref.copy
// BUFFERS: linalg.generic

// Bare pointers; each thread has its own scratch memory; no calls; accesses record the argument that they go through.
// LLVM: dynamo.launch @kernels::@softmax
// LLVM: llvm.func @softmax(%{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: !llvm.ptr {llvm.noalias})
// LLVM: omp.parallel
// LLVM-NEXT: llvm.alloca
// LLVM: omp.wsloop
// LLVM-NOT: llvm.call
// LLVM: llvm.load %{{.*}} {alias_scopes = {{.*}}, noalias_scopes = {{.*}}}
// LLVM: llvm.intr.maximum
// LLVM-NOT: llvm.call
// LLVM: llvm.fdiv
// LLVM-NOT: unrealized_conversion_cast
// LLVM: omp.terminator

module {
  func.func @main(%x: memref<512x128xf32>) -> memref<512x128xf32> attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
    %out = dynamo.output_buffer : memref<512x128xf32>
    dynamo.launch @kernels::@softmax(%x, %out) : (memref<512x128xf32>, memref<512x128xf32>) -> ()
    return %out : memref<512x128xf32>
  }
  module @kernels {
    func.func @softmax(%in: memref<512x128xf32> {llvm.noalias}, %out: memref<512x128xf32> {llvm.noalias})
        attributes {dynamo.kernel, dynamo.domain = array<i64: 512, 128>, dynamo.reduced_dims = array<i64: 1>} {
      %x = bufferization.to_tensor %in restrict : memref<512x128xf32> to tensor<512x128xf32>
      %m = dynamo.reduce max %x dims [1] : tensor<512x128xf32> -> tensor<512xf32>
      %mb = dynamo.broadcast %m dims [0] : tensor<512xf32> -> tensor<512x128xf32>
      %d = dynamo.sub %x, %mb : tensor<512x128xf32>
      %e = dynamo.exp %d : tensor<512x128xf32>
      %s = dynamo.reduce sum %e dims [1] : tensor<512x128xf32> -> tensor<512xf32>
      %sb = dynamo.broadcast %s dims [0] : tensor<512xf32> -> tensor<512x128xf32>
      %y = dynamo.div %e, %sb : tensor<512x128xf32>
      bufferization.materialize_in_destination %y in restrict writable %out : (tensor<512x128xf32>, memref<512x128xf32>) -> ()
      return
    }
  }
}
