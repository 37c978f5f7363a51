#include "runtime/Executor.h"

#include "runtime/Error.h"
#include "runtime/MemoryTensors.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>

/// Why a run does not go on: it was asked to end early, or what it computes is no number any more.
namespace pdc::runtime {

/// The microbatches that warm-up and drain bring without any repetition.
int64_t Executor::outsideRepeat() const {
  int64_t outside = 0;
  for (std::span<const Step> rows : {program.training.warmUp, program.training.drain})
    for (const Step &row : rows)
      if (row.kind == StepKind::run && row.phase == Phase::forward &&
          row.stage == program.stages.front().id)
        ++outside;
  return outside * int64_t(program.stages.front().ranks.size());
}

/// An early end is an iteration that no rank has reached, which rank 0 chooses. A microbatch leaves
/// the pipeline on any rank only after rank 0 has put it in, so no rank is more iterations ahead of
/// rank 0 than microbatches fit into the pipeline, and rank 0 stands still until all ranks know.
int64_t Executor::iterationsUntilEnd(int64_t iteration, int64_t planned) {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  int64_t outside = outsideRepeat(), period = program.training.period;
  if (stopSignal)
    control.requestStop();
  if (program.rank == 0 && control.stopRequested() && control.lastStep() == kNever) {
    int64_t end = iteration + outside / period + 3;
    if (end < planned)
      control.announceLastStep(step + (outside + end * period) / program.microbatches - 1);
  }
  if (control.lastStep() == kNever)
    return planned;
  int64_t last = (control.lastStep() - step + 1) * program.microbatches;
  int64_t end = (last - outside) / period;
  if (end >= planned)
    return planned;
  if (iteration > end)
    throw Error("rank ", program.rank, " is past step ", control.lastStep(),
                ", behind which the run was asked to end; resume from the last checkpoint");
  limit = last;
  return end;
}

std::string Inputs::describe(int64_t microbatch) const {
  return "microbatch " + std::to_string(microbatch);
}

std::string Inputs::locate(int64_t, const DataError &error) const { return error.what(); }

static const char *nameOf(double value) { return std::isnan(value) ? "nan" : "infinite"; }

std::string Executor::remedy(int64_t number, bool isOfRate) const {
  std::ostringstream text;
  if (isOfRate)
    text << "lower --lr (" << rate->at(number) << " at this step)";
  else
    text << "before any update: look for what has no finite gradient at some number, as a square "
            "root or a power has at 0";
  if (!program.asynchronous && options.clipNorm == 0)
    text << ", limit the gradient with --clip-norm, which tells whose it is where it is none";
  text << ", or check the data";
  if (arena.isRemote())
    text << ", of which a label or an index outside its range stops no kernel of a GPU";
  return text.str();
}

namespace {

/// Of the weights of a rank: whose numbers are none, and what lies furthest from 0 of the others.
struct WeightNumbers {
  std::vector<std::string> broken;
  std::string furthest;
  float magnitude = -1;

  void add(const Memory &memory, const float *values) {
    float most = 0;
    for (int64_t i = 0; i < memory.bytes / 4; ++i) {
      if (!std::isfinite(values[i]))
        return broken.push_back(memory.name);
      most = std::max(most, std::abs(values[i]));
    }
    if (most > magnitude)
      magnitude = most, furthest = memory.name;
  }
};

} // namespace

/// Whether what is no number comes of weights that are none, and since when, or of finite ones, and
/// how large those are.
std::string Executor::describeWeights(const char *since) const {
  WeightNumbers numbers;
  std::vector<std::byte> copy;
  for (const Memory &memory : program.memories)
    if (memory.role == Role::weight && memory.element == ElementType::f32 &&
        isTrained(program, memory))
      numbers.add(memory, reinterpret_cast<const float *>(look(*this, memory, copy)));
  std::ostringstream text;
  if (!numbers.broken.empty()) {
    text << "here '" << numbers.broken[0] << "'";
    if (const size_t others = numbers.broken.size() - 1)
      text << " and " << others << (others == 1 ? " other" : " others");
    text << (numbers.broken.size() == 1 ? " holds" : " hold")
         << " numbers that are nan or infinite " << since << "; ";
  } else if (numbers.magnitude >= 0) {
    text << "the weights here are finite, '" << numbers.furthest << "' up to " << numbers.magnitude
         << "; ";
  } else {
    text << "no weight is trained on this rank, and others may hold numbers that are none; ";
  }
  return text.str();
}

/// Seen before the backward pass of its microbatch starts: no weight has heard of it.
/// Where looking would stop a device, sums are looked at (`requireFiniteSum`).
void Executor::requireFiniteLoss(const Stage &stage, int64_t microbatch) const {
  if (!loss || &stage != &stages.back() || arena.isRemote() || std::isfinite(*loss))
    return;
  int64_t number = step + (program.asynchronous ? microbatch / program.microbatches : 0);
  throw Error("step ", number, ": the loss is ", nameOf(*loss), " after ",
              inputs->describe(microbatch), " in stage ", stage.info->id, " on rank ", program.rank,
              "; expected a finite number; ", describeWeights("since an earlier update"),
              remedy(number));
}

/// The sum over microbatches: what is not finite in one of them is not finite here.
void Executor::requireFiniteSum(double sum, int64_t number, int64_t first, int64_t last) const {
  if (!std::isfinite(sum))
    throw Error("step ", number, ": the loss is ", nameOf(sum), " over ", inputs->describe(first),
                " to ", inputs->describe(last), " on rank ", program.rank,
                "; expected a finite number; ", remedy(number));
}

/// In the first step no rate has changed a weight yet.
void Executor::requireFiniteNorm() const {
  if (std::isfinite(norm))
    return;
  auto isFinite = [](double squares) { return std::isfinite(squares); };
  const auto first = std::ranges::find_if_not(squaresByName, isFinite);
  const auto others = std::ranges::count_if(squaresByName, std::not_fn(isFinite)) - 1;
  std::string whose;
  if (first != squaresByName.end())
    whose = ", that of '" + weightNames[size_t(first - squaresByName.begin())] + "'" +
            (others > 0 ? " and of " + std::to_string(others) + " others" : "");
  throw Error("step ", step, ": the 2-norm of the gradient is ", nameOf(norm), whose, ", over ",
              inputs->describe(0), " to ", inputs->describe(limit - 1),
              "; expected a finite number; ", remedy(step, step > 1));
}

/// A loss need not tell of weights that are NaN: a relu of a library makes zeros of it. A device
/// that nothing waits for between updates tells of this one or of one shortly before.
void Executor::requireWeights(const Stage &stage, int64_t number) const {
  if (std::atomic_ref(*stage.lost).load() == 0)
    return;
  const bool mayBeLate = program.asynchronous && arena.isRemote();
  throw Error("step ", number, mayBeLate ? " or shortly before" : "", ": the update of stage ",
              stage.info->id, " on rank ", program.rank,
              " makes numbers that are nan, expected finite ones; ",
              describeWeights("since this update"), remedy(number, mayBeLate || number > 1));
}

void Executor::requireWeights() const {
  arena.finish();
  for (const Stage &stage : stages)
    requireWeights(stage, step + (limit - 1) / program.microbatches);
}

} // namespace pdc::runtime
