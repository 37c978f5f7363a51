#ifndef PASSES_PASSES_TD
#define PASSES_PASSES_TD

include "passes/GraphPasses.td"
include "passes/StagePasses.td"

#endif
