#include "compiler/simulator/Shares.h"

#include <algorithm>

namespace pdc {

int Shares::addResource(double perSecond, double mostPerJob) {
  resources.push_back({perSecond, mostPerJob, {}});
  return static_cast<int>(resources.size()) - 1;
}

double Shares::rateOf(const Job &job) const {
  double rate = std::numeric_limits<double>::infinity();
  for (int used : job.resources) {
    if (used < 0)
      continue;
    const Resource &resource = resources[used];
    double share = resource.perSecond / static_cast<double>(resource.jobs.size());
    rate = std::min({rate, share, resource.mostPerJob});
  }
  return rate;
}

/// A job has come or gone: those beside it go faster or slower from now on.
void Shares::changeRates(const Job &changed, double now) {
  for (int used : changed.resources) {
    if (used < 0)
      continue;
    for (int number : resources[used].jobs) {
      Job &job = jobs[number];
      double rate = rateOf(job);
      if (rate == job.rate)
        continue;
      job.left = std::max(0.0, job.left - job.rate * (now - job.since));
      job.since = now;
      job.rate = rate;
      job.generation = ++generations;
      ends.push({now + job.left / rate, number, job.generation});
    }
  }
}

void Shares::start(int owner, double work, std::span<const int> used, double now) {
  int number = static_cast<int>(jobs.size());
  if (freeJobs.empty()) {
    jobs.emplace_back();
  } else {
    number = freeJobs.back();
    freeJobs.pop_back();
  }
  jobs[number] = {owner, work, 0, now, 0, {-1, -1}};
  for (size_t i = 0; i < used.size(); ++i) {
    jobs[number].resources[i] = used[i];
    resources[used[i]].jobs.push_back(number);
  }
  changeRates(jobs[number], now);
}

std::optional<double> Shares::nextEnd() {
  while (!ends.empty() && isStale(ends.top()))
    ends.pop();
  return ends.empty() ? std::nullopt : std::optional(ends.top().time);
}

int Shares::endNext() {
  nextEnd();
  End end = ends.top();
  ends.pop();
  Job ended = jobs[end.job];
  jobs[end.job].generation = -1;
  for (int used : ended.resources)
    if (used >= 0)
      std::erase(resources[used].jobs, end.job);
  freeJobs.push_back(end.job);
  changeRates(ended, end.time);
  return ended.owner;
}

} // namespace pdc
