// RUN: dynamlir-opt %s --dynamo-attach-target=vector-bits=512 --dynamo-schedule | FileCheck %s
// RUN: dynamlir-opt %s --dynamo-attach-target=vector-bits=256 --dynamo-schedule | FileCheck %s --check-prefix=HALF
// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=neoverse-n1 --dynamo-schedule | FileCheck %s --check-prefix=ARM
// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=neoverse-v1 --dynamo-schedule | FileCheck %s --check-prefix=ARM
// RUN: dynamlir-opt %s --dynamo-attach-target=vector-bits=0 --dynamo-schedule | FileCheck %s --check-prefix=NONE --implicit-check-not=vector

// A phase without a reduction is cut into vectors: two of the processor's at a time. Without `vector-bits` these are as
// wide as this processor's; 0 leaves all loops to LLVM. Arm's processors have vectors of 128 bits.

#line = affine_map<(d0) -> (d0)>
#full = affine_map<(d0, d1) -> (d0, d1)>
#col = affine_map<(d0, d1) -> (d1)>
#turned = affine_map<(d0, d1) -> (d1, d0)>

// Blocks for threads, and vectors inside them. The loop over vectors is marked for `dynamo-prefetch`.

// CHECK-LABEL: func.func @whole
// CHECK: scf.forall (%{{.*}}) in (16)
// CHECK: scf.for %[[I:.*]] = %c0 to %c4096 step %c32
// CHECK: %[[X:.*]] = vector.transfer_read {{.*}} vector<32xf32>
// CHECK: %[[Y:.*]] = math.exp %[[X]] : vector<32xf32>
// CHECK: vector.transfer_write %[[Y]]
// CHECK: } {dynamo.prefetch}
// CHECK-NOT: linalg
// HALF-LABEL: func.func @whole
// HALF: vector<16xf32>
// ARM-LABEL: func.func @whole
// ARM: scf.for {{.*}} to %c4096 step %c8
// ARM: math.exp {{.*}} : vector<8xf32>
// NONE-LABEL: func.func @whole
// NONE: linalg.generic
func.func @whole(%x: memref<65536xf32>, %o: memref<65536xf32>) attributes {dynamo.kernel} {
  %t = bufferization.to_tensor %x restrict : memref<65536xf32> to tensor<65536xf32>
  %e = tensor.empty() : tensor<65536xf32>
  %y = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%t : tensor<65536xf32>) outs(%e : tensor<65536xf32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f32, %out: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<65536xf32>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<65536xf32>, memref<65536xf32>) -> ()
  return
}

// The remainder after the last whole vector is a separate loop, not a masked vector: that takes a hundred instructions for
// a bool on AVX2. The widest number determines how many elements fill a vector; eight bits count as 32.

// CHECK-LABEL: func.func @rest
// CHECK: scf.for {{.*}} to %c1536 step %c32
// CHECK: vector.transfer_read {{.*}} vector<32xi8>
// CHECK: vector.transfer_write
// CHECK: } {dynamo.prefetch}
// CHECK-NOT: vector
// CHECK: linalg.generic {{.*}} tensor<7xi8>
// ARM-LABEL: func.func @rest
// ARM: scf.for {{.*}} to %c1536 step %c8
// ARM: arith.addi {{.*}} : vector<8xi8>
// ARM: linalg.generic {{.*}} tensor<7xi8>
func.func @rest(%x: memref<1543xi8>, %o: memref<1543xi8>) attributes {dynamo.kernel} {
  %t = bufferization.to_tensor %x restrict : memref<1543xi8> to tensor<1543xi8>
  %e = tensor.empty() : tensor<1543xi8>
  %y = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%t : tensor<1543xi8>) outs(%e : tensor<1543xi8>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: i8, %out: i8):
    %r = arith.addi %a, %a : i8
    linalg.yield %r : i8
  } -> tensor<1543xi8>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<1543xi8>, memref<1543xi8>) -> ()
  return
}

// A row that is added to each row: single rows, then vectors along them. The results are bools of one byte each.

// CHECK-LABEL: func.func @rows
// CHECK: scf.for
// CHECK: scf.for {{.*}} to %c512 step %c16
// CHECK-DAG: vector.transfer_read {{.*}} vector<16xf64>
// CHECK-DAG: vector.transfer_read {{.*}} vector<16xf64>
// CHECK: arith.cmpf ogt, {{.*}} : vector<16xf64>
// CHECK: arith.extui {{.*}} : vector<16xi1> to vector<16xi8>
// ARM-LABEL: func.func @rows
// ARM: arith.cmpf ogt, {{.*}} : vector<4xf64>
func.func @rows(%x: memref<8x512xf64>, %b: memref<512xf64>, %o: memref<8x512xi8>) attributes {dynamo.kernel} {
  %t = bufferization.to_tensor %x restrict : memref<8x512xf64> to tensor<8x512xf64>
  %u = bufferization.to_tensor %b restrict : memref<512xf64> to tensor<512xf64>
  %e = tensor.empty() : tensor<8x512xi8>
  %y = linalg.generic {indexing_maps = [#full, #col, #full], iterator_types = ["parallel", "parallel"]}
      ins(%t, %u : tensor<8x512xf64>, tensor<512xf64>) outs(%e : tensor<8x512xi8>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f64, %c: f64, %out: i8):
    %r = arith.cmpf ogt, %a, %c : f64
    %s = arith.extui %r : i1 to i8
    linalg.yield %s : i8
  } -> tensor<8x512xi8>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<8x512xi8>, memref<8x512xi8>) -> ()
  return
}

// Left to LLVM's vectorizer:
//
// A function that is a call: the vectorizer uses the vector library, `convert-math-to-libm` would call once per element.

// CHECK-LABEL: func.func @called
// CHECK-NOT: vector
// CHECK: math.expm1 {{.*}} : f32
func.func @called(%x: memref<4096xf32>, %o: memref<4096xf32>) attributes {dynamo.kernel} {
  %t = bufferization.to_tensor %x restrict : memref<4096xf32> to tensor<4096xf32>
  %e = tensor.empty() : tensor<4096xf32>
  %y = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%t : tensor<4096xf32>) outs(%e : tensor<4096xf32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f32, %out: f32):
    %r = math.expm1 %a : f32
    linalg.yield %r : f32
  } -> tensor<4096xf32>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<4096xf32>, memref<4096xf32>) -> ()
  return
}

// 16-bit floats: LLVM finds the conversion instructions more easily in loops than for vectors of two widths.

// CHECK-LABEL: func.func @short
// CHECK-NOT: vector
// CHECK: linalg.generic
func.func @short(%x: memref<4096xf16>, %o: memref<4096xf32>) attributes {dynamo.kernel} {
  %t = bufferization.to_tensor %x restrict : memref<4096xf16> to tensor<4096xf16>
  %e = tensor.empty() : tensor<4096xf32>
  %y = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%t : tensor<4096xf16>) outs(%e : tensor<4096xf32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f16, %out: f32):
    %r = arith.extf %a : f16 to f32
    linalg.yield %r : f32
  } -> tensor<4096xf32>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<4096xf32>, memref<4096xf32>) -> ()
  return
}

// An operand that the innermost loop would read with a stride, here a transposed one.

// CHECK-LABEL: func.func @turned
// CHECK-NOT: vector
// CHECK: linalg.generic
func.func @turned(%x: memref<512x8xf32>, %o: memref<8x512xf32>) attributes {dynamo.kernel} {
  %t = bufferization.to_tensor %x restrict : memref<512x8xf32> to tensor<512x8xf32>
  %e = tensor.empty() : tensor<8x512xf32>
  %y = linalg.generic {indexing_maps = [#turned, #full], iterator_types = ["parallel", "parallel"]}
      ins(%t : tensor<512x8xf32>) outs(%e : tensor<8x512xf32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f32, %out: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<8x512xf32>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<8x512xf32>, memref<8x512xf32>) -> ()
  return
}

// A destination with a stride between its elements, and rows so short that the remainder of each costs more than vectors save.

// CHECK-LABEL: func.func @steps
// CHECK-NOT: vector
// CHECK: linalg.generic
func.func @steps(%x: memref<4096xf32>, %o: memref<4096xf32, strided<[2]>>) attributes {dynamo.kernel} {
  %t = bufferization.to_tensor %x restrict : memref<4096xf32> to tensor<4096xf32>
  %e = tensor.empty() : tensor<4096xf32>
  %y = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%t : tensor<4096xf32>) outs(%e : tensor<4096xf32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f32, %out: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<4096xf32>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<4096xf32>, memref<4096xf32, strided<[2]>>) -> ()
  return
}

// CHECK-LABEL: func.func @odd_rows
// CHECK-NOT: vector
// CHECK: linalg.generic
// 1000 elements do not leave a remainder if vectors are short.
// ARM-LABEL: func.func @odd_rows
// ARM: arith.negf {{.*}} : vector<8xf32>
func.func @odd_rows(%x: memref<8x1000xf32, strided<[1024, 1]>>, %o: memref<8x1000xf32>) attributes {dynamo.kernel} {
  %t = bufferization.to_tensor %x restrict : memref<8x1000xf32, strided<[1024, 1]>> to tensor<8x1000xf32>
  %e = tensor.empty() : tensor<8x1000xf32>
  %y = linalg.generic {indexing_maps = [#full, #full], iterator_types = ["parallel", "parallel"]}
      ins(%t : tensor<8x1000xf32>) outs(%e : tensor<8x1000xf32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f32, %out: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<8x1000xf32>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<8x1000xf32>, memref<8x1000xf32>) -> ()
  return
}

// A sum along rows: no vectors. After each strip the sums of all lanes are added up, so only rows of more than 2048 are cut into strips.

#row = affine_map<(d0, d1) -> (d0)>

// CHECK-LABEL: func.func @strips
// CHECK-NOT: vector
// CHECK: scf.for {{.*}} to %c8 step %c1
// CHECK: scf.for {{.*}} to %c4096 step %c2048
// CHECK: linalg.generic {{.*}} tensor<1x2048xf32>
// CHECK: } {dynamo.prefetch}
func.func @strips(%x: memref<8x4096xf32>, %o: memref<8xf32>) attributes {dynamo.kernel} {
  %t = bufferization.to_tensor %x restrict : memref<8x4096xf32> to tensor<8x4096xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}
      ins(%t : tensor<8x4096xf32>) outs(%init : tensor<8xf32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %acc, %a fastmath<reassoc> : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<8xf32>, memref<8xf32>) -> ()
  return
}

// CHECK-LABEL: func.func @whole_rows
// CHECK-NOT: scf.for
// CHECK: linalg.generic {{.*}} tensor<8x2048xf32>
func.func @whole_rows(%x: memref<8x2048xf32>, %o: memref<8xf32>) attributes {dynamo.kernel} {
  %t = bufferization.to_tensor %x restrict : memref<8x2048xf32> to tensor<8x2048xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}
      ins(%t : tensor<8x2048xf32>) outs(%init : tensor<8xf32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %acc, %a fastmath<reassoc> : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<8xf32>, memref<8xf32>) -> ()
  return
}

// Memory that does not fit into the last-level cache is read in strips of 256, in which `dynamo-prefetch` prefetches the next row.

// CHECK-LABEL: func.func @large
// CHECK: scf.for {{.*}} to %c1024 step %c256
// CHECK: linalg.generic {{.*}} tensor<1x256xf32>
// CHECK: } {dynamo.prefetch}
func.func @large(%x: memref<8192x1024xf32>, %o: memref<8192xf32>) attributes {dynamo.kernel} {
  %t = bufferization.to_tensor %x restrict : memref<8192x1024xf32> to tensor<8192x1024xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8192xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<8192xf32>) -> tensor<8192xf32>
  %y = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}
      ins(%t : tensor<8192x1024xf32>) outs(%init : tensor<8192xf32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %acc, %a fastmath<reassoc> : f32
    linalg.yield %r : f32
  } -> tensor<8192xf32>
  bufferization.materialize_in_destination %y in restrict writable %o : (tensor<8192xf32>, memref<8192xf32>) -> ()
  return
}
