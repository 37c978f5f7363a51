#pragma once

namespace pdc::runtime::cuda {

/// The program `links FILE`, one process per GPU: measures the links between them over NCCL and
/// writes a topology. Returns the exit code.
int measureLinks(int argc, char **argv);

} // namespace pdc::runtime::cuda
