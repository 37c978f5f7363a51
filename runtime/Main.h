#pragma once

#include <span>

/// All that the main file of a stage needs: it compiles in no time.
namespace pdc::runtime {

struct Program;

/// What one source holds: a program for each of its ranks, which are each other's replicas.
struct Programs {
  const Program *first;
  int count;
};

/// In the environment, a file that the first rank to begin removes: what starts ranks and says
/// nothing itself is told so.
inline constexpr const char *kBeganSign = "PDC_RANK_BEGAN";

/// Runs one rank of the programs (all of them as threads under the local transport). The command
/// line is that of pdc-run; returns the exit code.
int main(int argc, char **argv, std::span<const Programs> sources);

} // namespace pdc::runtime
