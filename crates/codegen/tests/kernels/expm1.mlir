// One phase with a function that becomes vector calls.
#f = affine_map<(i) -> (i)>
func.func @expm1_of(%in: memref<100000xf32, strided<[1]>> {llvm.noalias}, %out: memref<100000xf32, strided<[1]>> {llvm.noalias}) attributes {dynamo.kernel} {
  %x = bufferization.to_tensor %in restrict : memref<100000xf32, strided<[1]>> to tensor<100000xf32>
  %c = arith.constant 0.70710678 : f32
  %h = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<100000xf32>
  %r = linalg.generic {indexing_maps = [#f, #f], iterator_types = ["parallel"], dynamo.phase = 0 : i64} ins(%x : tensor<100000xf32>) outs(%e : tensor<100000xf32>) {
    ^bb0(%a: f32, %o: f32):
      %1 = arith.mulf %a, %c : f32
      %2 = math.expm1 %1 : f32
      %3 = arith.addf %2, %one : f32
      %4 = arith.mulf %a, %h : f32
      %5 = arith.mulf %4, %3 : f32
      linalg.yield %5 : f32
  } -> tensor<100000xf32>
  bufferization.materialize_in_destination %r in restrict writable %out : (tensor<100000xf32>, memref<100000xf32, strided<[1]>>) -> ()
  return
}