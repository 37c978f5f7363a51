#pragma once

#include <string_view>
#include <vector>

namespace pdc {

/// PipeDream's cost models: seconds per minibatch of a stage in steady state as a formula of T
/// (seconds of one minibatch on one worker, or on one component of the level below), w (bytes of
/// weights to synchronise) and the bytes o of the cuts before and behind it, on m replicas over
/// links of B bytes per second.
///
/// - pipedream-code, the released optimizer's sums: max((T + 4(m-1)w/(Bm)) / m, 2o/(Bm) of either
///   cut); where the stage is all that the level holds, no cut is charged and the synchronisation
///   is divided by the size of the level below once more.
/// - pipedream-paper, as printed: max(T, 2(m-1)w/B) / m, and 2o/B of the cut before it.
/// - ring-max: max(T, 2(m-1)w/(Bm)) / m, and 2o/B of the cut before it.
enum class ClosedForm { pipedreamCode, pipedreamPaper, ringMax };

/// Throws pdc::Error with the known names.
ClosedForm findClosedForm(std::string_view name);
bool isClosedForm(std::string_view name);

/// The formula at one level, as factors by number of replicas.
class StageFormula {
public:
  /// `workers` of the level, its bytes per second, and how many workers a component of the next
  /// lower level has (1 at the lowest). `compression` divides the bytes of cuts; 0: they take no
  /// time.
  StageFormula(ClosedForm model, int workers, double bytesPerSecond, int below, double compression);

  /// A stage that is all the level holds.
  double alone(int replicas, double seconds, double weights) const {
    return replicated(replicas, seconds, weights * syncAlone[replicas]);
  }
  /// A stage behind another, with the bytes of the cuts at its two ends.
  double stage(int replicas, double seconds, double weights, double before, double behind) const {
    double compute = replicated(replicas, seconds, weights * sync[replicas]);
    double transfer = before * cutBefore[replicas];
    double next = behind * cutBehind[replicas];
    transfer = transfer < next ? next : transfer;
    return compute < transfer ? transfer : compute;
  }

private:
  double replicated(int replicas, double seconds, double transfer) const {
    double compute = seconds * share[replicas];
    if (sums)
      return compute + transfer;
    return compute < transfer ? transfer : compute;
  }

  bool sums;
  std::vector<double> share, sync, syncAlone, cutBefore, cutBehind;
};

} // namespace pdc
