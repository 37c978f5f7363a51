"""Prints a training graph whose forward pass is so many Relus in a row."""
import sys

count, shape = int(sys.argv[1]), "tensor<2x6xf32>"
print(f"pdc.memory @x input microbatch : {shape}\npdc.memory @y metric update : {shape}\nfunc.func @train() {{")
print(f"  %0 = pdc.read @x : {shape}")
for i in range(1, count + 1):
    print(f'  %{i} = pdc.node "Relu" "relu{i}"(%{i - 1}) {{}} phase forward rate microbatch : ({shape}) -> {shape}')
print(f"  pdc.write %{count} to @y : {shape}\n  return\n}}")
