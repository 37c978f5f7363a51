#pragma once

#include "runtime/Program.h"

#include <cstddef>
#include <initializer_list>
#include <memory>

/// What the programs of pdc-profile measure on GPUs: the seconds of each run of each of their
/// units, from event to event in the run's queue, written as runtime/UnitTimes.h says. Other
/// programs do not include this.
namespace pdc::runtime::cuda {

class QueueGate;

/// A part of what ends together, as the updates of a task, which share a kernel.
struct UnitShare {
  size_t unit;
  double share;
};

/// A task while it is put into the queue, which waits until the task stands in it: no kernel's time
/// is one in which the device waited for the host.
class MeasuredTask {
public:
  explicit MeasuredTask(const Run &run);
  MeasuredTask(const MeasuredTask &) = delete;
  ~MeasuredTask();

  void end(size_t unit) { end({{unit, 1.0}}); }
  void end(std::initializer_list<UnitShare> shares);

private:
  const Run &run;
  int ended = 0;
  std::unique_ptr<QueueGate> gate;
};

} // namespace pdc::runtime::cuda
