#pragma once

#include <span>

/// All that the main file of a stage needs: it compiles in no time.
namespace pdc::runtime {

struct Program;

/// Runs one rank of the programs (all of them as threads under the local transport). The command
/// line is that of pdc-run; returns the exit code.
int main(int argc, char **argv, std::span<const Program *const> programs);

} // namespace pdc::runtime
