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
    double atOnce = resource.perSecond / resource.mostPerJob;
    if (job.slowdown > 1 && atOnce > 1) {
      double busy = std::min(atOnce, static_cast<double>(resource.jobs.size()));
      rate /= 1 + (job.slowdown - 1) * (busy - 1) / (atOnce - 1);
    }
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
      job.end = now + job.left / rate;
      job.change = ++changes;
      sort(number);
    }
  }
}

void Shares::start(int owner, double work, std::span<const int> used, double now, double slowdown) {
  int number = static_cast<int>(jobs.size());
  if (freeJobs.empty()) {
    jobs.emplace_back();
  } else {
    number = freeJobs.back();
    freeJobs.pop_back();
  }
  jobs[number] = Job();
  jobs[number].owner = owner;
  jobs[number].left = work;
  jobs[number].since = now;
  jobs[number].slowdown = slowdown;
  for (size_t i = 0; i < used.size(); ++i) {
    jobs[number].resources[i] = used[i];
    resources[used[i]].jobs.push_back(number);
  }
  changeRates(jobs[number], now);
}

void Shares::put(int job, size_t place) {
  ends[place] = job;
  jobs[job].place = static_cast<int>(place);
}

void Shares::rise(size_t place) {
  int job = ends[place];
  for (; place > 0 && endsBefore(job, ends[(place - 1) / 2]); place = (place - 1) / 2)
    put(ends[(place - 1) / 2], place);
  put(job, place);
}

void Shares::sink(size_t place) {
  int job = ends[place];
  for (size_t child = 2 * place + 1; child < ends.size(); child = 2 * place + 1) {
    if (child + 1 < ends.size() && endsBefore(ends[child + 1], ends[child]))
      ++child;
    if (!endsBefore(ends[child], job))
      break;
    put(ends[child], place);
    place = child;
  }
  put(job, place);
}

/// Brings a job to its place among those that run, after its end has changed.
void Shares::sort(int job) {
  if (jobs[job].place < 0) {
    ends.push_back(job);
    return rise(ends.size() - 1);
  }
  rise(static_cast<size_t>(jobs[job].place));
  sink(static_cast<size_t>(jobs[job].place));
}

std::optional<double> Shares::nextEnd() const {
  return ends.empty() ? std::nullopt : std::optional(jobs[ends.front()].end);
}

int Shares::endNext() {
  int number = ends.front(), last = ends.back();
  ends.pop_back();
  if (!ends.empty()) {
    put(last, 0);
    sink(0);
  }
  Job ended = jobs[number];
  for (int used : ended.resources)
    if (used >= 0)
      std::erase(resources[used].jobs, number);
  freeJobs.push_back(number);
  changeRates(ended, ended.end);
  return ended.owner;
}

} // namespace pdc
