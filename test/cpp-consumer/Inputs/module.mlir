func.func @f(%x: tensor<2x3xf32>) -> tensor<2xf32> {
  %0 = dynamo.reduce sum %x dims [1] : tensor<2x3xf32> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
