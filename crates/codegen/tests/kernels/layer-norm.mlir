// Five phases; the mean and the reciprocal deviation leave the kernel, so they pass through the root.
#full = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#col = affine_map<(i, j) -> (j)>
#r = affine_map<(i) -> (i)>
func.func @ln(%in: memref<4096x768xf32, strided<[768,1]>> {llvm.noalias}, %w: memref<768xf32, strided<[1]>> {llvm.noalias}, %b: memref<768xf32, strided<[1]>> {llvm.noalias}, %out: memref<4096x768xf32, strided<[768,1]>> {llvm.noalias}, %omean: memref<4096xf32, strided<[1]>> {llvm.noalias}, %orstd: memref<4096xf32, strided<[1]>> {llvm.noalias}) attributes {dynamo.kernel} {
  %x = bufferization.to_tensor %in restrict : memref<4096x768xf32, strided<[768,1]>> to tensor<4096x768xf32>
  %wt = bufferization.to_tensor %w restrict : memref<768xf32, strided<[1]>> to tensor<768xf32>
  %bt = bufferization.to_tensor %b restrict : memref<768xf32, strided<[1]>> to tensor<768xf32>
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 768.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e1 = tensor.empty() : tensor<4096xf32>
  %i1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4096xf32>) -> tensor<4096xf32>
  %s = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"], dynamo.phase = 0 : i64}
    ins(%x : tensor<4096x768xf32>) outs(%i1 : tensor<4096xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %r = arith.addf %a, %acc fastmath<reassoc> : f32
      linalg.yield %r : f32
  } -> tensor<4096xf32>
  %e2 = tensor.empty() : tensor<4096xf32>
  %mean = linalg.generic {indexing_maps = [#r, #r], iterator_types = ["parallel"], dynamo.phase = 1 : i64}
    ins(%s : tensor<4096xf32>) outs(%e2 : tensor<4096xf32>) {
    ^bb0(%a: f32, %o: f32):
      %r = arith.divf %a, %n : f32
      linalg.yield %r : f32
  } -> tensor<4096xf32>
  %e3 = tensor.empty() : tensor<4096xf32>
  %i3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<4096xf32>) -> tensor<4096xf32>
  %v = linalg.generic {indexing_maps = [#full, #row, #row], iterator_types = ["parallel", "reduction"], dynamo.phase = 2 : i64}
    ins(%x, %mean : tensor<4096x768xf32>, tensor<4096xf32>) outs(%i3 : tensor<4096xf32>) {
    ^bb0(%a: f32, %mm: f32, %acc: f32):
      %d = arith.subf %a, %mm : f32
      %q = arith.mulf %d, %d : f32
      %r = arith.addf %q, %acc fastmath<reassoc> : f32
      linalg.yield %r : f32
  } -> tensor<4096xf32>
  %e4 = tensor.empty() : tensor<4096xf32>
  %rstd = linalg.generic {indexing_maps = [#r, #r], iterator_types = ["parallel"], dynamo.phase = 3 : i64}
    ins(%v : tensor<4096xf32>) outs(%e4 : tensor<4096xf32>) {
    ^bb0(%a: f32, %o: f32):
      %q = arith.divf %a, %n : f32
      %q1 = arith.addf %q, %eps : f32
      %q2 = math.rsqrt %q1 : f32
      linalg.yield %q2 : f32
  } -> tensor<4096xf32>
  %e5 = tensor.empty() : tensor<4096x768xf32>
  %e6 = tensor.empty() : tensor<4096xf32>
  %e7 = tensor.empty() : tensor<4096xf32>
  %y:3 = linalg.generic {indexing_maps = [#full, #row, #row, #col, #col, #full, #row, #row], iterator_types = ["parallel", "reduction"], dynamo.phase = 4 : i64}
    ins(%x, %mean, %rstd, %wt, %bt : tensor<4096x768xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<768xf32>, tensor<768xf32>) outs(%e5, %e6, %e7 : tensor<4096x768xf32>, tensor<4096xf32>, tensor<4096xf32>) {
    ^bb0(%a: f32, %mm: f32, %rs: f32, %ww: f32, %bb: f32, %o: f32, %o1: f32, %o2: f32):
      %d = arith.subf %a, %mm : f32
      %q = arith.mulf %d, %rs : f32
      %q1 = arith.mulf %q, %ww : f32
      %q2 = arith.addf %q1, %bb : f32
      linalg.yield %q2, %mm, %rs : f32, f32, f32
  } -> (tensor<4096x768xf32>, tensor<4096xf32>, tensor<4096xf32>)
  bufferization.materialize_in_destination %y#0 in restrict writable %out : (tensor<4096x768xf32>, memref<4096x768xf32, strided<[768,1]>>) -> ()
  bufferization.materialize_in_destination %y#1 in restrict writable %omean : (tensor<4096xf32>, memref<4096xf32, strided<[1]>>) -> ()
  bufferization.materialize_in_destination %y#2 in restrict writable %orstd : (tensor<4096xf32>, memref<4096xf32, strided<[1]>>) -> ()
  return
}
