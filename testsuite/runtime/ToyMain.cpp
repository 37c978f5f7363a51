#include "runtime/Main.h"
#include "testsuite/runtime/Toy.h"

/// ToyMain SHAPE OPTIONS...: all ranks of a toy pipeline in one binary, as generated projects have
/// it.
int main(int argc, char **argv) {
  if (argc < 2)
    return 2;
  toy::Pipeline pipeline(toy::shapeFrom(argv[1]));
  const pdc::runtime::Programs sources[] = {pipeline.source()};
  return pdc::runtime::main(argc - 1, argv + 1, sources);
}
