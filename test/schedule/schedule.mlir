// RUN: dynamlir-opt %s --dynamo-schedule | FileCheck %s
// RUN: dynamlir-opt %s --dynamo-schedule=threads=false | FileCheck %s --check-prefix=ALONE --implicit-check-not=scf.forall
// RUN: dynamlir-opt %s --dynamo-schedule=parallel-work=1000000000 | FileCheck %s --check-prefix=ALONE --implicit-check-not=scf.forall

// With threads=0, no loop is parallel; parallel-work=N sets the minimum work for a parallel loop. Blocking for the cache remains.

#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>
#full = affine_map<(d0, d1) -> (d0, d1)>
#line = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>

// Little work: threads would cost more than they save. The kernel remains as it is.

// CHECK-LABEL: func.func @small
// CHECK-NOT: scf.
// CHECK: return
func.func @small(%x: tensor<100xf32>, %o: memref<100xf32>) attributes {dynamo.kernel} {
  %e = tensor.empty() : tensor<100xf32>
  %y = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%x : tensor<100xf32>) outs(%e : tensor<100xf32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f32, %out: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<100xf32>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<100xf32>, memref<100xf32>) -> ()
  return
}

// Much pointwise work: a parallel loop over blocks of 64k elements, here 64 rows of 1024.

// CHECK-LABEL: func.func @large
// CHECK: scf.forall (%[[I:.*]]) in (64)
// CHECK: %[[AT:.*]] = affine.apply #{{.*}}(%[[I]])
// CHECK: tensor.extract_slice %arg0[%[[AT]], 0] [64, 1024]
// CHECK: linalg.generic
// CHECK: tensor.parallel_insert_slice
func.func @large(%x: tensor<4096x1024xf32>, %o: memref<4096x1024xf32>) attributes {dynamo.kernel} {
  %e = tensor.empty() : tensor<4096x1024xf32>
  %y = linalg.generic {indexing_maps = [#full, #full], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4096x1024xf32>) outs(%e : tensor<4096x1024xf32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f32, %out: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<4096x1024xf32>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<4096x1024xf32>, memref<4096x1024xf32>) -> ()
  return
}

// Softmax: all three phases, and the fills that start them, run in one loop over rows, so a row stays in the innermost
// cache. Blocks of 16 rows are distributed over threads. Fills are linked to their phase by dynamo.init.

// CHECK-LABEL: func.func @softmax
// CHECK-NOT: linalg
// CHECK: scf.forall (%{{.*}}) in (32)
// CHECK-NOT: linalg
// CHECK: scf.for %{{.*}} = %c0 to %c16 step %c1
// CHECK: linalg.fill {dynamo.init = 0 : i64}
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<1x128xf32>) {{.*}} {dynamo.phase = 0 : i64}
// CHECK: linalg.fill {dynamo.init = 1 : i64}
// CHECK: linalg.generic {{.*}} {dynamo.phase = 1 : i64}
// CHECK: linalg.generic {{.*}} {dynamo.phase = 2 : i64}
// CHECK: scf.yield
// CHECK-NOT: linalg
// CHECK: return
// ALONE-LABEL: func.func @softmax
// ALONE: scf.for {{.*}} to %c512 step %c1
func.func @softmax(%x: tensor<512x128xf32>, %o: memref<512x128xf32>) attributes {dynamo.kernel} {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %er = tensor.empty() : tensor<512xf32>
  %ef = tensor.empty() : tensor<512x128xf32>
  %m0 = linalg.fill ins(%lowest : f32) outs(%er : tensor<512xf32>) -> tensor<512xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%er : tensor<512xf32>) -> tensor<512xf32>
  %m = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<512x128xf32>) outs(%m0 : tensor<512xf32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.maximumf %acc, %a : f32
    linalg.yield %r : f32
  } -> tensor<512xf32>
  %s:2 = linalg.generic {indexing_maps = [#full, #row, #row, #full], iterator_types = ["parallel", "reduction"]}
      ins(%x, %m : tensor<512x128xf32>, tensor<512xf32>) outs(%s0, %ef : tensor<512xf32>, tensor<512x128xf32>) attrs = {dynamo.phase = 1 : i64} {
  ^bb0(%a: f32, %max: f32, %acc: f32, %out: f32):
    %d = arith.subf %a, %max : f32
    %e = math.exp %d : f32
    %r = arith.addf %acc, %e fastmath<reassoc> : f32
    linalg.yield %r, %e : f32, f32
  } -> (tensor<512xf32>, tensor<512x128xf32>)
  %y = linalg.generic {indexing_maps = [#full, #row, #full], iterator_types = ["parallel", "parallel"]}
      ins(%s#1, %s#0 : tensor<512x128xf32>, tensor<512xf32>) outs(%ef : tensor<512x128xf32>) attrs = {dynamo.phase = 2 : i64} {
  ^bb0(%a: f32, %sum: f32, %out: f32):
    %r = arith.divf %a, %sum : f32
    linalg.yield %r : f32
  } -> tensor<512x128xf32>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<512x128xf32>, memref<512x128xf32>) -> ()
  return
}

// Sums of columns: each thread adds whole ranges of 512 columns, from the first row to the last.

// CHECK-LABEL: func.func @columns
// CHECK: scf.forall (%{{.*}}) in (8)
// CHECK: tensor.extract_slice %arg0[0, %{{.*}}] [512, 512]
// CHECK: linalg.fill
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "parallel"]
func.func @columns(%x: tensor<512x4096xf32>, %o: memref<4096xf32>) attributes {dynamo.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4096xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<4096xf32>) -> tensor<4096xf32>
  %y = linalg.generic {indexing_maps = [#full, #col], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<512x4096xf32>) outs(%init : tensor<4096xf32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %acc, %a fastmath<reassoc> : f32
    linalg.yield %r : f32
  } -> tensor<4096xf32>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<4096xf32>, memref<4096xf32>) -> ()
  return
}

// The sum of everything: partial sums of 4096 elements in parallel, then their sum. The pieces do not depend on the
// number of threads, so neither does the result.

// CHECK-LABEL: func.func @all
// CHECK: %[[PARTS:.*]] = scf.forall (%{{.*}}) = (0) to (65536) step (4096) {{.*}} -> (tensor<16xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<4096xf32>)
// CHECK: %[[SUM:.*]] = linalg.reduce ins(%[[PARTS]] : tensor<16xf32>)
// CHECK: bufferization.materialize_in_destination %[[SUM]]
func.func @all(%x: tensor<65536xf32>, %o: memref<f32>) attributes {dynamo.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %y = linalg.generic {indexing_maps = [#line, #none], iterator_types = ["reduction"]}
      ins(%x : tensor<65536xf32>) outs(%init : tensor<f32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %acc, %a fastmath<reassoc> : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<f32>, memref<f32>) -> ()
  return
}

// A piece counts its own positions from 0: values that the body computes from them need the start of the piece. If there are
// two dimensions, the starts of those that are split are added.

// CHECK-LABEL: func.func @positions
// CHECK: scf.forall (%[[PIECE:.*]]) = (0) to (65536) step (4096)
// CHECK: %[[OWN:.*]] = linalg.index 0 : index
// CHECK-NEXT: %[[AT:.*]] = arith.addi %[[OWN]], %[[PIECE]] : index
// CHECK-NEXT: arith.index_cast %[[AT]] : index to i64
func.func @positions(%x: tensor<65536xi64>, %o: memref<i64>) attributes {dynamo.kernel} {
  %zero = arith.constant 0 : i64
  %e = tensor.empty() : tensor<i64>
  %init = linalg.fill ins(%zero : i64) outs(%e : tensor<i64>) -> tensor<i64>
  %y = linalg.generic {indexing_maps = [#line, #none], iterator_types = ["reduction"]}
      ins(%x : tensor<65536xi64>) outs(%init : tensor<i64>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: i64, %acc: i64):
    %i = linalg.index 0 : index
    %p = arith.index_cast %i : index to i64
    %m = arith.muli %a, %p : i64
    %r = arith.addi %acc, %m : i64
    linalg.yield %r : i64
  } -> tensor<i64>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<i64>, memref<i64>) -> ()
  return
}

// CHECK-LABEL: func.func @positions_of_two
// CHECK: scf.forall (%[[PIECE:.*]]) = (0) to (64) step (8)
// CHECK: %[[ROW:.*]] = linalg.index 0 : index
// CHECK-NEXT: arith.addi %[[ROW]], %[[PIECE]] : index
// CHECK: %[[COLUMN:.*]] = linalg.index 1 : index
// CHECK: arith.index_cast %[[COLUMN]] : index to i64
func.func @positions_of_two(%x: tensor<64x512xi64>, %o: memref<i64>) attributes {dynamo.kernel} {
  %zero = arith.constant 0 : i64
  %e = tensor.empty() : tensor<i64>
  %init = linalg.fill ins(%zero : i64) outs(%e : tensor<i64>) -> tensor<i64>
  %y = linalg.generic {indexing_maps = [#full, affine_map<(d0, d1) -> ()>], iterator_types = ["reduction", "reduction"]}
      ins(%x : tensor<64x512xi64>) outs(%init : tensor<i64>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: i64, %acc: i64):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %p = arith.index_cast %i : index to i64
    %q = arith.index_cast %j : index to i64
    %s = arith.muli %p, %q : i64
    %m = arith.muli %a, %s : i64
    %r = arith.addi %acc, %m : i64
    linalg.yield %r : i64
  } -> tensor<i64>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<i64>, memref<i64>) -> ()
  return
}

// A row value that the kernel returns, but not through the last phase: no schedule. The kernel is correct as it is, only
// slow, and the reason is recorded.

// CHECK-LABEL: func.func @leaves_early
// CHECK-SAME: dynamo.unscheduled = "phase 0 leaves the kernel without going through the last phase"
// CHECK-NOT: scf.
// CHECK: return
func.func @leaves_early(%x: tensor<512x128xf32>, %o: memref<512x128xf32>, %om: memref<512xf32>) attributes {dynamo.kernel} {
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty() : tensor<512xf32>
  %ef = tensor.empty() : tensor<512x128xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%er : tensor<512xf32>) -> tensor<512xf32>
  %m = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<512x128xf32>) outs(%s0 : tensor<512xf32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %acc, %a : f32
    linalg.yield %r : f32
  } -> tensor<512xf32>
  %y = linalg.generic {indexing_maps = [#full, #row, #full], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m : tensor<512x128xf32>, tensor<512xf32>) outs(%ef : tensor<512x128xf32>) attrs = {dynamo.phase = 1 : i64} {
  ^bb0(%a: f32, %sum: f32, %out: f32):
    %r = arith.subf %a, %sum : f32
    linalg.yield %r : f32
  } -> tensor<512x128xf32>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<512x128xf32>, memref<512x128xf32>) -> ()
  bufferization.materialize_in_destination %m in restrict writable %om : (tensor<512xf32>, memref<512xf32>) -> ()
  return
}

// Only phases are scheduled: there is no mark without one.

// CHECK-LABEL: func.func @nothing
// CHECK-NOT: dynamo.unscheduled
func.func @nothing(%x: tensor<4xf32>, %o: memref<4xf32>) attributes {dynamo.kernel} {
  bufferization.materialize_in_destination %x in restrict writable %o : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// The numbers of phases must distinguish them.

// CHECK-LABEL: func.func @twins
// CHECK-SAME: dynamo.unscheduled = "two generics are phase 0"
func.func @twins(%x: tensor<100xf32>, %o: memref<100xf32>) attributes {dynamo.kernel} {
  %e = tensor.empty() : tensor<100xf32>
  %y = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%x : tensor<100xf32>) outs(%e : tensor<100xf32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f32, %out: f32):
    linalg.yield %a : f32
  } -> tensor<100xf32>
  %z = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%y : tensor<100xf32>) outs(%e : tensor<100xf32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f32, %out: f32):
    linalg.yield %a : f32
  } -> tensor<100xf32>
  bufferization.materialize_in_destination %z in restrict writable %o : (tensor<100xf32>, memref<100xf32>) -> ()
  return
}

// An unknown dimension cannot be scheduled.

// CHECK-LABEL: func.func @dynamic
// CHECK-SAME: dynamo.unscheduled = "phase 0 is not affine, or does not say its sizes"
func.func @dynamic(%x: tensor<?xf32>, %e: tensor<?xf32>) -> tensor<?xf32> attributes {dynamo.kernel} {
  %y = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f32, %out: f32):
    linalg.yield %a : f32
  } -> tensor<?xf32>
  return %y : tensor<?xf32>
}
