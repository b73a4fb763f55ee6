// Sizes that are expressions: nobody has told this program how to read them.
func.func private @f(tensor<?xf32, #dynamo.sizes<s0>>)
