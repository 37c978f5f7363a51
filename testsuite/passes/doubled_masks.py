"""Attention whose mask each of N nodes makes of the one before it, which it reads twice."""

import sys

COUNT = int(sys.argv[1])
TYPE = "tensor<2x2x4x4xf32>"
FLAGS = "tensor<4x4xi1>"

print(f"""pdc.memory @q input microbatch : {TYPE}
pdc.memory @sum metric update : {TYPE}
func.func @train() {{
  %q = pdc.read @q : {TYPE}
  %kt = pdc.node "Transpose" "kt"(%q) {{perm = array<i64: 0, 1, 3, 2>}} : ({TYPE}) -> {TYPE}
  %never = pdc.node "Constant" "never"() {{value = dense<0xFF800000> : tensor<f32>}} : () -> tensor<f32>
  %column = pdc.node "Constant" "column"() {{value = dense<[0, 1, 2, 3]> : tensor<4xi64>}} : () -> tensor<4xi64>
  %row = pdc.node "Constant" "row"() {{value = dense<[[0], [1], [2], [3]]> : tensor<4x1xi64>}} : () -> tensor<4x1xi64>
  %mask0 = pdc.node "LessOrEqual" "mask0"(%column, %row) {{}} : (tensor<4xi64>, tensor<4x1xi64>) -> {FLAGS}""")
for i in range(COUNT):
    print(f'  %mask{i + 1} = pdc.node "And" "mask{i + 1}"(%mask{i}, %mask{i}) {{}} : ({FLAGS}, {FLAGS}) -> {FLAGS}')
print(f"""  %scores = pdc.node "MatMul" "scores"(%q, %kt) {{}} : ({TYPE}, {TYPE}) -> {TYPE}
  %masked = pdc.node "Where" "masked"(%mask{COUNT}, %scores, %never) {{}} : ({FLAGS}, {TYPE}, tensor<f32>) -> {TYPE}
  %shares = pdc.node "Softmax" "shares"(%masked) {{axis = -1 : i64}} : ({TYPE}) -> {TYPE}
  %mixed = pdc.node "MatMul" "mixed"(%shares, %q) {{}} : ({TYPE}, {TYPE}) -> {TYPE}
  pdc.accumulate %mixed into @sum : {TYPE}
  return
}}""")
