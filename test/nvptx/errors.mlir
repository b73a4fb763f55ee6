// A schedule may be edited, and is checked: it must describe a valid block, and cover every element.

// RUN: sed 's/SCHEDULE/class = "rows", threads = 48 : i64, across = 1 : i64, vector = 4 : i64, chunks = 1 : i64, keep = 1 : i64/' %s \
// RUN:   | not dynamlir-opt --pass-pipeline='builtin.module(dynamo-to-gpu)' 2>&1 | FileCheck %s --check-prefix=BLOCK
// BLOCK: error: 48 by 1 threads are not a block for this class

// RUN: sed 's/SCHEDULE/class = "rows", threads = 32 : i64, across = 1 : i64, vector = 4 : i64, chunks = 1 : i64, keep = 1 : i64/' %s \
// RUN:   | not dynamlir-opt --pass-pipeline='builtin.module(dynamo-to-gpu)' 2>&1 | FileCheck %s --check-prefix=COVER
// COVER: error: 1 chunks of 32 vectors of 4 do not cover a row of 256

// RUN: sed 's/SCHEDULE/class = "columns", threads = 8 : i64, across = 32 : i64, vector = 3 : i64, chunks = 32 : i64, keep = 1 : i64/' %s \
// RUN:   | not dynamlir-opt --pass-pipeline='builtin.module(dynamo-to-gpu)' 2>&1 | FileCheck %s --check-prefix=VECTOR
// VECTOR: error: a row of 256 does not consist of vectors of 3

// RUN: sed 's/SCHEDULE/class = "points", threads = 32 : i64, across = 1 : i64, vector = 4 : i64, chunks = 1 : i64, keep = 1 : i64/' %s \
// RUN:   | not dynamlir-opt --pass-pipeline='builtin.module(dynamo-to-gpu)' 2>&1 | FileCheck %s --check-prefix=CLASS
// CLASS: error: the class of dynamo.gpu does not fit a kernel that reduces, or does not

// RUN: sed 's/SCHEDULE/class = "rows"/' %s | not dynamlir-opt --pass-pipeline='builtin.module(dynamo-to-gpu)' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=LACKS
// LACKS: error: dynamo.gpu lacks vector

// Two chunks instead of one are valid, and so is a loop.
// RUN: sed 's/SCHEDULE/class = "rows", threads = 32 : i64, across = 1 : i64, vector = 4 : i64, chunks = 2 : i64, keep = 0 : i64/' %s \
// RUN:   | dynamlir-opt --pass-pipeline='builtin.module(dynamo-to-gpu)' | FileCheck %s --check-prefix=LOOP
// LOOP: scf.for

// A chip that is too old, and a function that only libdevice has: f64's exp.
// RUN: sed 's/, dynamo.gpu = {SCHEDULE}//' %s | not dynamlir-opt \
// RUN:   --pass-pipeline='builtin.module(dynamlir-linalg-to-nvptx{chip=sm_60})' 2>&1 | FileCheck %s --check-prefix=CHIP
// CHIP: error: sm_60 is not a chip that code can be made for
// RUN: sed 's/, dynamo.gpu = {SCHEDULE}//' %s | not dynamlir-opt \
// RUN:   --pass-pipeline='builtin.module(dynamlir-linalg-to-nvptx{chip=sm_80 libdevice=none})' 2>&1 | FileCheck %s --check-prefix=MATH
// MATH: error: __nv_exp must come from libdevice.10.bc

module {
module @kernels {
  func.func @k(%a: memref<8x256xf32>, %c: memref<8xf64>) attributes {dynamo.kernel, dynamo.gpu = {SCHEDULE}} {
    %0 = bufferization.to_tensor %a restrict : memref<8x256xf32> to tensor<8x256xf32>
    %zero = arith.constant 0.0 : f64
    %e = tensor.empty() : tensor<8xf64>
    %f = linalg.fill ins(%zero : f64) outs(%e : tensor<8xf64>) -> tensor<8xf64>
    %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
        iterator_types = ["parallel", "reduction"]}
        ins(%0 : tensor<8x256xf32>) outs(%f : tensor<8xf64>) attrs = {dynamo.phase = 0 : i64} {
    ^bb0(%x: f32, %o: f64):
      %w = arith.extf %x : f32 to f64
      %y = math.exp %w : f64
      %s = arith.addf %o, %y : f64
      linalg.yield %s : f64
    } -> tensor<8xf64>
    bufferization.materialize_in_destination %r in restrict writable %c : (tensor<8xf64>, memref<8xf64>) -> ()
    return
  }
}
}
