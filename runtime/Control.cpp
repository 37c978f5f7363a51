#include "runtime/Control.h"

#include "runtime/Error.h"
#include "runtime/Timeline.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace pdc::runtime {

std::atomic<int> stopSignal = 0;

Seconds now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Control::Control(int rank, int size) : self(rank), size(size), parts(size) {
  activity.since = now();
  losses.reserve(1024);
}

void Control::sum(std::span<double> values) {
  summed.assign(reinterpret_cast<const char *>(values.data()), values.size_bytes());
  gather(summed, parts);
  std::fill(values.begin(), values.end(), 0.0);
  for (const std::string &part : parts) {
    if (part.size() != values.size_bytes())
      throw Error("ranks disagree on what is summed: ", part.size(), " bytes meet ",
                  values.size_bytes(), "; start all ranks with the same options");
    for (size_t i = 0; i < values.size(); ++i) {
      double value;
      std::memcpy(&value, part.data() + i * sizeof(double), sizeof(double));
      values[i] += value;
    }
  }
}

void Control::takeReports(std::vector<LossReport> &taken) {
  std::lock_guard lock(mutex);
  taken.insert(taken.end(), losses.begin(), losses.end());
  losses.clear();
}

void Control::addReport(const LossReport &loss) {
  std::lock_guard lock(mutex);
  losses.push_back(loss);
}

void Control::check() {
  if (ended) {
    std::lock_guard lock(mutex);
    throw Error(endReport);
  }
  if (int signal = stopSignal; signal && !running)
    throw Error("ended by signal ", signal, " before training began");
}

void Control::end(const std::string &report) {
  std::lock_guard lock(mutex);
  if (ended)
    return;
  endReport = report;
  ended = true;
  changed.notify_all();
}

Activity Control::setActivity(const Activity &next) {
  std::lock_guard lock(mutex);
  Activity before = std::exchange(activity, next);
  activity.since = now();
  return before;
}

std::string Control::describeActivity() {
  std::lock_guard lock(mutex);
  std::ostringstream text;
  text << "rank " << self << " " << activity.verb;
  if (*activity.tensor)
    text << " '" << activity.tensor << "'";
  if (activity.peer >= 0)
    text << (std::strstr(activity.verb, "send") ? " to rank " : " from rank ") << activity.peer;
  if (activity.stage >= 0)
    text << " in stage " << activity.stage << ", step " << activity.step << ", microbatch "
         << activity.microbatch << " (" << letter(activity.phase) << activity.microbatch << ")";
  text.precision(1);
  text << ", for " << std::fixed << now() - activity.since << " s";
  return text.str();
}

// The ranks of one process share one state; an exchange is a barrier with two turns.

struct LocalControlPlane::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> parts;
  int64_t generation = 0;
  int arrived = 0, leaving = 0;
  std::vector<std::unique_ptr<Member>> members;
};

class LocalControlPlane::Member : public Control {
public:
  Member(State &state, int rank, int ranks) : Control(rank, ranks), state(state) {}
  void report(const LossReport &loss) override { state.members[0]->addReport(loss); }
  void fail(const std::string &why, bool stuck) override;
  void requestStop() override { state.members[0]->stopWanted = true; }
  void announceLastStep(int64_t step) override {
    for (auto &member : state.members)
      member->announced = step;
  }
  bool beginsRound() override;

protected:
  void exchange(const std::string &mine, std::vector<std::string> &all, bool everywhere) override;

private:
  State &state;
};

void LocalControlPlane::Member::exchange(const std::string &mine, std::vector<std::string> &all,
                                         bool everywhere) {
  std::unique_lock lock(state.mutex);
  waitFor(state.changed, lock, [&] { return state.leaving == 0; });
  int64_t mineIs = state.generation;
  state.parts[self] = mine;
  if (++state.arrived == size) {
    ++state.generation;
    state.arrived = 0;
    state.leaving = size;
    state.changed.notify_all();
  }
  waitFor(state.changed, lock, [&] { return state.generation != mineIs; });
  if (everywhere || self == 0)
    all = state.parts;
  else
    all.clear();
  if (--state.leaving == 0)
    state.changed.notify_all();
}

bool LocalControlPlane::Member::beginsRound() {
  std::lock_guard lock(state.mutex);
  if (!roundsEnd && (state.members[0]->stopWanted || (stopSignal && running))) {
    int64_t most = 0;
    for (const auto &member : state.members)
      most = std::max(most, member->rounds);
    for (auto &member : state.members) {
      member->mostRounds = most;
      member->roundsEnd = true;
    }
  }
  if (rounds == mostRounds)
    return false;
  ++rounds;
  return true;
}

void LocalControlPlane::Member::fail(const std::string &why, bool stuck) {
  std::string report = why;
  for (auto &member : state.members)
    if (stuck && running)
      report += "\n  " + member->describeActivity();
  for (auto &member : state.members)
    member->end(report);
  state.changed.notify_all();
}

LocalControlPlane::LocalControlPlane(int ranks) : state(std::make_unique<State>()) {
  state->parts.resize(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    state->members.push_back(std::make_unique<Member>(*state, rank, ranks));
}
LocalControlPlane::~LocalControlPlane() = default;
Control &LocalControlPlane::of(int rank) { return *state->members[rank]; }

} // namespace pdc::runtime
