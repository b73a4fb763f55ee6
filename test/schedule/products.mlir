// RUN: dynamlir-opt %s --split-input-file --dynamo-attach-target=vector-bits=512 --dynamo-plan --dynamo-to-linalg | FileCheck %s --check-prefix=PLAN
// RUN: dynamlir-opt %s --split-input-file --dynamo-attach-target=vector-bits=512 --dynamo-plan --dynamo-to-linalg --dynamo-schedule | FileCheck %s
// RUN: dynamlir-opt %s --split-input-file --dynamo-attach-target=vector-bits=0 --dynamo-plan --dynamo-to-linalg --dynamo-schedule | FileCheck %s --check-prefix=NONE

// A product gets its schedule once layouts are known: data on the kernel, which may be edited. `dynamo-schedule` turns it
// into loops, on memory.

// A layer: x is copied to panels, weights are read in place, line by line. The sums of a block are transposed, and the
// epilogue is a generic on the block. The panels are the kernel's last argument.

// PLAN-LABEL: func.func @main
// PLAN: dynamo.launch @kernels::@layer(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : {{.*}}memref<12288xf32>) -> ()
// PLAN: func.func @layer({{.*}} memref<12288xf32> {dynamo.scratch, llvm.noalias})
// PLAN-SAME: dynamo.matmul = {chunk = 1 : i64, copied = false, depth = 256 : i64, form = "panels"
// PLAN-SAME: lanes = "lhs", rows = 8 : i64, vectors = 3 : i64, width = 16 : i64}
// PLAN: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]} {{.*}} attrs = {dynamo.batch = 0 : i64}
// PLAN: arith.mulf
// PLAN: linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]} {{.*}} attrs = {dynamo.phase = 0 : i64}

// CHECK-LABEL: func.func @layer
// CHECK: vector.shuffle
// CHECK: vector.store %{{.*}}, %[[PANELS:.*]][%{{.*}}] : memref<12288xf32>, vector<16xf32>
// CHECK: scf.forall
// CHECK: %[[SUMS:.*]] = memref.alloca() {alignment = 64 : i64}
// CHECK: %[[ACC:.*]]:24 = scf.for
// CHECK: vector.load %[[PANELS]]
// CHECK: memref.load
// CHECK: vector.broadcast %{{.*}} : f32 to vector<16xf32>
// CHECK: vector.fma
// CHECK: vector.store %{{.*}}, %[[SUMS]]
// CHECK: vector.shuffle
// CHECK: linalg.generic
// CHECK: arith.maximumf
// CHECK-NOT: tensor
// CHECK: return

// Without vectors it is an ordinary loop nest, and the reason is recorded.
// NONE-LABEL: func.func @layer
// NONE-SAME: dynamo.unscheduled = "a product without a schedule"
// NONE: linalg.generic
module {
  func.func @main(%x: tensor<48x256xf32>, %w: tensor<1024x256xf32>, %b: tensor<1024xf32>)
      -> (tensor<48x1024xf32> {dynamo.strides = array<i64: 1024, 1>}) attributes {dynamo.entry} {
    %t = dynamo.permute %w dims [1, 0] : tensor<1024x256xf32> -> tensor<256x1024xf32>
    %bias = dynamo.broadcast %b dims [1] : tensor<1024xf32> -> tensor<48x1024xf32>
    %r = dynamo.launch @kernels::@layer(%bias, %x, %t) : (tensor<48x1024xf32>, tensor<48x256xf32>, tensor<256x1024xf32>) -> tensor<48x1024xf32>
    return %r : tensor<48x1024xf32>
  }
  module @kernels {
    func.func @layer(%b: tensor<48x1024xf32>, %x: tensor<48x256xf32>, %w: tensor<256x1024xf32>) -> tensor<48x1024xf32>
        attributes {dynamo.kernel, dynamo.domain = array<i64: 48, 1024>, dynamo.reduced_dims = array<i64>} {
      %p = dynamo.matmul %x, %w batch 0 : tensor<48x256xf32>, tensor<256x1024xf32> -> tensor<48x1024xf32>
      %s = dynamo.add %p, %b : tensor<48x1024xf32>
      %m = dynamo.max %s, %b : tensor<48x1024xf32>
      return %m : tensor<48x1024xf32>
    }
  }
}

// -----

// Few rows and weights by column: vectors are loaded from the weights in place, without scratch memory. The kernel reads as
// many lines of the weights side by side as the processor can prefetch, each far enough for it to detect the stream.

// PLAN-LABEL: func.func @main
// PLAN: func.func @few
// PLAN-NOT: dynamo.scratch
// PLAN-SAME: chunk = 384 : i64, {{.*}}depth = 32 : i64, form = "stream"
// CHECK-LABEL: func.func @few
// CHECK: scf.for {{.*}} to %c256 step %c32
// CHECK: memref.prefetch
// CHECK: vector.fma
module {
  func.func @main(%x: tensor<4x256xf32>, %w: tensor<256x512xf32>) -> (tensor<4x512xf32> {dynamo.strides = array<i64: 512, 1>})
      attributes {dynamo.entry} {
    %r = dynamo.launch @kernels::@few(%x, %w) : (tensor<4x256xf32>, tensor<256x512xf32>) -> tensor<4x512xf32>
    return %r : tensor<4x512xf32>
  }
  module @kernels {
    func.func @few(%x: tensor<4x256xf32>, %w: tensor<256x512xf32>) -> tensor<4x512xf32>
        attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 512>, dynamo.reduced_dims = array<i64>} {
      %p = dynamo.matmul %x, %w batch 0 : tensor<4x256xf32>, tensor<256x512xf32> -> tensor<4x512xf32>
      return %p : tensor<4x512xf32>
    }
  }
}

// -----

// Few rows and weights by row: vectors run along k and are summed up at the end.

// PLAN-LABEL: func.func @main
// PLAN: func.func @dots
// PLAN-SAME: form = "dots"
// CHECK-LABEL: func.func @dots
// CHECK: vector.fma
// CHECK: vector.shuffle {{.*}} [0, 2, 4, 6
// CHECK: arith.addf
module {
  func.func @main(%x: tensor<4x256xf32>, %w: tensor<512x256xf32>) -> (tensor<4x512xf32> {dynamo.strides = array<i64: 512, 1>})
      attributes {dynamo.entry} {
    %t = dynamo.permute %w dims [1, 0] : tensor<512x256xf32> -> tensor<256x512xf32>
    %r = dynamo.launch @kernels::@dots(%x, %t) : (tensor<4x256xf32>, tensor<256x512xf32>) -> tensor<4x512xf32>
    return %r : tensor<4x512xf32>
  }
  module @kernels {
    func.func @dots(%x: tensor<4x256xf32>, %w: tensor<256x512xf32>) -> tensor<4x512xf32>
        attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 512>, dynamo.reduced_dims = array<i64>} {
      %p = dynamo.matmul %x, %w batch 0 : tensor<4x256xf32>, tensor<256x512xf32> -> tensor<4x512xf32>
      return %p : tensor<4x512xf32>
    }
  }
}

// -----

// A convolution: the images are copied into zeros, and windows to panels, a few at a time; weights are read in place.
// Positions of the result are one dimension.

// PLAN-LABEL: func.func @main
// PLAN: dynamo.launch @kernels::@windows(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (memref<1x16x14x14xf32>, memref<32x16x3x3xf32>, memref<32x196xf32>, memref<4096xf32>) -> ()
// PLAN: func.func @windows
// PLAN-SAME: dynamo.domain = array<i64: 32, 196>
// PLAN-SAME: dynamo.matmul = {chunk = 1 : i64, depth = 16 : i64, group = 32 : i64, images = 1 : i64, rows = 12 : i64, vectors = 2 : i64, width = 16 : i64}
// PLAN: dynamo.convolution {{.*}} -> tensor<32x196xf32>
// PLAN: linalg.generic
// CHECK-LABEL: func.func @windows
// CHECK: memref.store {{.*}} : memref<4096xf32>
// CHECK: scf.forall
// CHECK: vector.maskedload
// CHECK: vector.fma
// CHECK: linalg.generic
// CHECK-NOT: tensor
// CHECK: return
module {
  func.func @main(%x: tensor<1x16x14x14xf32>, %w: tensor<32x16x3x3xf32>)
      -> (tensor<1x32x14x14xf32> {dynamo.strides = array<i64: 6272, 196, 14, 1>}) attributes {dynamo.entry} {
    %r = dynamo.launch @kernels::@windows(%x, %w) : (tensor<1x16x14x14xf32>, tensor<32x16x3x3xf32>) -> tensor<32x14x14xf32>
    %y = dynamo.reshape %r : tensor<32x14x14xf32> -> tensor<1x32x14x14xf32>
    return %y : tensor<1x32x14x14xf32>
  }
  module @kernels {
    func.func @windows(%x: tensor<1x16x14x14xf32>, %w: tensor<32x16x3x3xf32>) -> tensor<32x14x14xf32>
        attributes {dynamo.kernel, dynamo.domain = array<i64: 32, 14, 14>, dynamo.reduced_dims = array<i64>} {
      %c = dynamo.convolution %x, %w strides [1, 1] padding [1, 1] dilation [1, 1] groups 1
        : tensor<1x16x14x14xf32>, tensor<32x16x3x3xf32> -> tensor<32x14x14xf32>
      %n = dynamo.neg %c : tensor<32x14x14xf32>
      return %n : tensor<32x14x14xf32>
    }
  }
}

// -----

// A window for each channel: rows and columns of a band are sorted by their remainder modulo the stride, so that each tap of all
// positions is one line of memory. The elements of such a line beyond the ends of rows are dropped again.

// PLAN-LABEL: func.func @main
// PLAN: func.func @depthwise
// PLAN-SAME: dynamo.matmul = {chunk = 28 : i64, depth = 1 : i64, group = 1 : i64, images = 1 : i64, rows = 1 : i64, vectors = 8 : i64, width = 16 : i64}
// CHECK-LABEL: func.func @depthwise
// CHECK: scf.forall
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<3424xf32>
// CHECK-COUNT-9: memref.load %{{.*}} : memref<288xf32>
// CHECK: linalg.generic
// CHECK-NOT: tensor
// CHECK: return
module {
  func.func @main(%x: tensor<2x32x56x56xf32>, %w: tensor<32x1x3x3xf32>)
      -> (tensor<2x32x28x28xf32> {dynamo.strides = array<i64: 25088, 784, 28, 1>}) attributes {dynamo.entry} {
    %r = dynamo.launch @kernels::@depthwise(%x, %w) : (tensor<2x32x56x56xf32>, tensor<32x1x3x3xf32>) -> tensor<2x32x28x28xf32>
    return %r : tensor<2x32x28x28xf32>
  }
  module @kernels {
    func.func @depthwise(%x: tensor<2x32x56x56xf32>, %w: tensor<32x1x3x3xf32>) -> tensor<2x32x28x28xf32>
        attributes {dynamo.kernel, dynamo.domain = array<i64: 2, 32, 28, 28>, dynamo.reduced_dims = array<i64>} {
      %c = dynamo.convolution %x, %w strides [2, 2] padding [1, 1] dilation [1, 1] groups 32
        : tensor<2x32x56x56xf32>, tensor<32x1x3x3xf32> -> tensor<2x32x28x28xf32>
      return %c : tensor<2x32x28x28xf32>
    }
  }
}

// -----

// Maxima are computed in the same way, and the operations after them are fused, too.

// PLAN-LABEL: func.func @main
// CHECK-LABEL: func.func @largest
// CHECK: arith.constant 0xFF800000 : f32
// CHECK-COUNT-4: arith.maximumf
// CHECK: linalg.generic
// CHECK: arith.negf
// CHECK-NOT: tensor
// CHECK: return
module {
  func.func @main(%x: tensor<1x32x56x56xf32>)
      -> (tensor<1x32x28x28xf32> {dynamo.strides = array<i64: 25088, 784, 28, 1>}) attributes {dynamo.entry} {
    %r = dynamo.launch @kernels::@largest(%x) : (tensor<1x32x56x56xf32>) -> tensor<32x28x28xf32>
    %y = dynamo.reshape %r : tensor<32x28x28xf32> -> tensor<1x32x28x28xf32>
    return %y : tensor<1x32x28x28xf32>
  }
  module @kernels {
    func.func @largest(%x: tensor<1x32x56x56xf32>) -> tensor<32x28x28xf32>
        attributes {dynamo.kernel, dynamo.domain = array<i64: 32, 28, 28>, dynamo.reduced_dims = array<i64>} {
      %c = dynamo.max_pool %x window [2, 2] strides [2, 2] padding [0, 0] dilation [1, 1]
        : tensor<1x32x56x56xf32> -> tensor<32x28x28xf32>
      %n = dynamo.neg %c : tensor<32x28x28xf32>
      return %n : tensor<32x28x28xf32>
    }
  }
}

// -----

// Attention: scores of a block of queries, their exponentials and sums, and the values weighted by them. Keys are copied to panels,
// values are read in place. The epilogue follows as for a product.

// PLAN-LABEL: func.func @main
// PLAN: func.func @heads
// PLAN-SAME: dynamo.matmul = {block = 64 : i64, keys = 3 : i64, values = 4 : i64, width = 16 : i64}
// CHECK-LABEL: func.func @heads
// CHECK: vector.fma
// CHECK: vector.reduction <maximumf>
// CHECK: math.exp {{.*}} : vector<16xf32>
// CHECK: vector.reduction <add>
// CHECK: vector.fma
// CHECK: linalg.generic
// CHECK-NOT: tensor
// CHECK: return
module {
  func.func @main(%q: tensor<2x4x64x64xf32>, %k: tensor<2x4x48x64xf32>)
      -> (tensor<2x4x64x64xf32> {dynamo.strides = array<i64: 16384, 4096, 64, 1>}) attributes {dynamo.entry} {
    %r = dynamo.launch @kernels::@heads(%q, %k) : (tensor<2x4x64x64xf32>, tensor<2x4x48x64xf32>) -> tensor<2x4x64x64xf32>
    return %r : tensor<2x4x64x64xf32>
  }
  module @kernels {
    func.func @heads(%q: tensor<2x4x64x64xf32>, %k: tensor<2x4x48x64xf32>) -> tensor<2x4x64x64xf32>
        attributes {dynamo.kernel, dynamo.domain = array<i64: 2, 4, 64, 64>, dynamo.reduced_dims = array<i64>} {
      %r = dynamo.attention %q, %k, %k scale 0.125 : tensor<2x4x64x64xf32>, tensor<2x4x48x64xf32>, tensor<2x4x48x64xf32> -> tensor<2x4x64x64xf32>
      return %r : tensor<2x4x64x64xf32>
    }
  }
}
