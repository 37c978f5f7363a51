#pragma once

#include "runtime/Program.h"

#include <deque>
#include <string>
#include <vector>

/// A pipeline written by hand: stage s computes y = w_s * x over rows of four numbers, the last
/// stage the loss (sum(y) - label)^2 / 2 of each row that counts. Every number is a small integer
/// or a short binary fraction, so that a wrong microbatch or version shows as another result.
namespace toy {

using namespace pdc::runtime;

inline constexpr int64_t kWidth = 4, kBatch = 2;

struct Shape {
  int stages = 2;
  int64_t microbatches = 4;
  bool asynchronous = false;
  double slowTask = 0;    ///< seconds that each forward task sleeps
  int hangingStage = -1;  ///< its third forward task never ends in time
  int dyingStage = -1;    ///< its third forward task kills the process
  int stoppingStage = -1; ///< its ninth forward task asks the process to end (SIGTERM)
  bool stashes = true;    ///< false: backward tasks read the newest weights
};

/// The command-line word of ToyMain, and back.
std::string shapeText(const Shape &shape);
Shape shapeFrom(const std::string &text);

/// Owns what a Program points into.
class Pipeline {
public:
  explicit Pipeline(const Shape &shape);
  std::span<const Program> programs() const { return all; }
  Programs source() const { return {all.data(), int(all.size())}; }
  Program &program(int rank) { return all[rank]; }

private:
  struct Tables {
    std::vector<Region> regions;
    std::vector<Memory> memories;
    std::vector<Transfer> transfers;
    std::vector<Step> step, warmUp, repeat, drain, evaluation;
    std::vector<int> slotTable;
    std::vector<StageInfo> stages;
    std::vector<std::string> names;
    std::vector<int64_t> inputShape, labelShape, weightShape, randomShape;
  };
  void fill(int stage);
  void fillMemories(Tables &tables, int stage);
  void fillRows(Tables &tables, int stage);
  void addTask(Tables &tables, std::vector<Step> &rows, int stage, Phase phase, int64_t microbatch);
  void addTransfer(Tables &tables, std::vector<Step> &rows, StepKind kind, int stage, Phase phase,
                   int64_t microbatch);

  Shape shape;
  std::deque<Tables> tables;
  std::vector<Program> all;
};

/// The initial weight of a stage, in all four numbers.
float initialWeight(int stage);

/// Writes x.npy (f32[n,4]) and y.npy (i64[n]) into `folder`.
void writeData(const std::string &folder, int64_t samples);

/// What the pipeline must compute, without a pipeline: the weights of each stage after so many
/// steps, by the update rule of its kind.
std::vector<std::vector<float>> reference(const Shape &shape, int64_t samples, int64_t steps,
                                          double rate, std::vector<double> *losses = nullptr);

} // namespace toy
