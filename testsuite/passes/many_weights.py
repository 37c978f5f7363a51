"""Prints a training graph of so many weights, each with its gradient."""
import sys

shape = "tensor<2x2xf32>"
body = [f"  %x = pdc.read @x : {shape}"]
print(f"pdc.memory @x input microbatch : {shape}")
for i in range(int(sys.argv[1])):
    print(f"pdc.memory @w{i} weight version : {shape}\npdc.memory @\"w{i}/gradient\" gradient update : {shape}")
    body += [f"  %w{i} = pdc.weight_version @w{i} latest : {shape}",
             f'  %y{i} = pdc.node "Mul" "mul{i}"(%x, %w{i}) {{}} : ({shape}, {shape}) -> {shape}',
             f'  pdc.accumulate %y{i} into @"w{i}/gradient" : {shape}']
print("func.func @train() {", *body, "  return\n}", sep="\n")
