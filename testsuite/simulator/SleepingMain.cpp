#include "compiler/Error.h"
#include "compiler/plan/Files.h"
#include "runtime/Main.h"
#include "testsuite/simulator/SleepingPipeline.h"

#include <iostream>

/// SleepingMain PLAN.json OPTIONS...: runs a plan on the runtime with tasks that sleep, with the
/// options of a generated program.
int main(int argc, char **argv) {
  if (argc < 2)
    return 2;
  try {
    pdc::SleepingPipeline pipeline(pdc::readPlan(argv[1]));
    const pdc::runtime::Programs sources[] = {pipeline.source()};
    return pdc::runtime::main(argc - 1, argv + 1, sources);
  } catch (const pdc::Error &error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}
