#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace pdc {

/// Jobs that share resources over time: bytes on ports, seconds of work on the cores of a host.
/// Of each resource that it uses a job gets an equal share among the jobs there, and no more than
/// the resource gives to one job. A job may slow down the more of a resource others use: by
/// `slowdown` where all of it is used. (Shares that a job cannot use, held back by its other
/// resource, are not handed to others.)
class Shares {
public:
  /// Units per second in all, and to one job at most.
  int addResource(double perSecond, double mostPerJob);

  /// Starts a job of so many units on one or two resources. `now` never goes backwards.
  void start(int owner, double work, std::span<const int> resources, double now,
             double slowdown = 1);

  /// When the next job ends if nothing else starts; nothing: none is running.
  std::optional<double> nextEnd() const;
  /// Ends that job and returns its owner.
  int endNext();

private:
  struct Resource {
    double perSecond, mostPerJob;
    std::vector<int> jobs;
  };
  struct Job {
    int owner = -1;
    double left = 0, rate = 0, since = 0, slowdown = 1;
    double end = 0;
    int64_t change = 0; ///< the number of the change that gave it this end
    int place = -1;     ///< in `ends`
    int resources[2] = {-1, -1};
  };

  double rateOf(const Job &job) const;
  void changeRates(const Job &changed, double now);
  /// Of jobs that end at a time the one that has known so for longer comes first.
  bool endsBefore(int job, int other) const {
    const Job &a = jobs[job], &b = jobs[other];
    return a.end != b.end ? a.end < b.end : a.change < b.change;
  }
  void put(int job, size_t place);
  void sink(size_t place);
  void rise(size_t place);
  void sort(int job);

  std::vector<Resource> resources;
  std::vector<Job> jobs;
  std::vector<int> freeJobs;
  std::vector<int> ends; ///< a heap of the running jobs, the next to end first
  int64_t changes = 0;
};

} // namespace pdc
