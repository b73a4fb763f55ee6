// Three phases; the second computes a row of exponentials and their sum.
#full = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @softmax(%in: memref<4096x1024xf32, strided<[1024,1]>> {llvm.noalias}, %out: memref<4096x1024xf32, strided<[1024,1]>> {llvm.noalias}) attributes {dynamo.kernel} {
  %x = bufferization.to_tensor %in restrict : memref<4096x1024xf32, strided<[1024,1]>> to tensor<4096x1024xf32>
  %ninf = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<4096xf32>
  %i1 = linalg.fill ins(%ninf : f32) outs(%e1 : tensor<4096xf32>) -> tensor<4096xf32>
  %m = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"], dynamo.phase = 0 : i64}
    ins(%x : tensor<4096x1024xf32>) outs(%i1 : tensor<4096xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %r = arith.maximumf %a, %acc fastmath<reassoc> : f32
      linalg.yield %r : f32
  } -> tensor<4096xf32>
  %e2 = tensor.empty() : tensor<4096xf32>
  %i2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<4096xf32>) -> tensor<4096xf32>
  %e3 = tensor.empty() : tensor<4096x1024xf32>
  %ex:2 = linalg.generic {indexing_maps = [#full, #row, #full, #row], iterator_types = ["parallel", "reduction"], dynamo.phase = 1 : i64}
    ins(%x, %m : tensor<4096x1024xf32>, tensor<4096xf32>) outs(%e3, %i2 : tensor<4096x1024xf32>, tensor<4096xf32>) {
    ^bb0(%a: f32, %mm: f32, %o: f32, %acc: f32):
      %d = arith.subf %a, %mm : f32
      %e = math.exp %d : f32
      %s = arith.addf %acc, %e fastmath<reassoc> : f32
      linalg.yield %e, %s : f32, f32
  } -> (tensor<4096x1024xf32>, tensor<4096xf32>)
  %e4 = tensor.empty() : tensor<4096x1024xf32>
  %r = linalg.generic {indexing_maps = [#full, #row, #full], iterator_types = ["parallel", "parallel"], dynamo.phase = 2 : i64}
    ins(%ex#0, %ex#1 : tensor<4096x1024xf32>, tensor<4096xf32>) outs(%e4 : tensor<4096x1024xf32>) {
    ^bb0(%a: f32, %s: f32, %o: f32):
      %d = arith.divf %a, %s : f32
      linalg.yield %d : f32
  } -> tensor<4096x1024xf32>
  bufferization.materialize_in_destination %r in restrict writable %out : (tensor<4096x1024xf32>, memref<4096x1024xf32, strided<[1024,1]>>) -> ()
  return
}
