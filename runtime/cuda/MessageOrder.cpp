#include "runtime/cuda/NcclTransport.h"

namespace pdc::runtime::cuda {

std::string messageOrder(const Program &program, int from, int to) {
  std::string order;
  auto add = [&](std::span<const Step> rows, int64_t base) {
    for (const Step &row : rows) {
      const bool sends = row.kind == StepKind::send;
      if (!sends && row.kind != StepKind::receive)
        continue;
      const Transfer &transfer = program.transfers[row.transfer];
      const int peer = peerOf(transfer, row.microbatch + base);
      if ((sends ? program.rank : peer) == from && (sends ? peer : program.rank) == to)
        order += std::to_string(transfer.tag) + "/" + std::to_string(transfer.bytes) + "/" +
                 std::to_string(int(transfer.element)) + " ";
    }
  };
  add(program.evaluation.repeat, 0);
  order += "| ";
  add(program.training.step, 0);
  add(program.training.warmUp, 0);
  for (int i = 0; i < 3; ++i)
    add(program.training.repeat, i * program.training.period);
  add(program.training.drain, 3 * program.training.period);
  return order;
}

} // namespace pdc::runtime::cuda
