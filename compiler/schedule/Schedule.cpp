#include "compiler/schedule/Schedule.h"

namespace pdc {

char letter(Phase phase) { return "FBIWUPE"[static_cast<int>(phase)]; }

std::string toString(const Task &task) {
  return std::to_string(task.stage) + letter(task.phase) + std::to_string(task.microbatch);
}

} // namespace pdc
