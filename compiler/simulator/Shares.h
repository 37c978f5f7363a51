#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <queue>
#include <span>
#include <vector>

namespace pdc {

/// Jobs that share resources over time: bytes on ports, seconds of work on the cores of a host.
/// Of each resource that it uses a job gets an equal share among the jobs there, and no more than
/// the resource gives to one job. (Shares that a job cannot use, held back by its other resource,
/// are not handed to others.)
class Shares {
public:
  /// Units per second in all, and to one job at most.
  int addResource(double perSecond, double mostPerJob);

  /// Starts a job of so many units on one or two resources. `now` never goes backwards.
  void start(int owner, double work, std::span<const int> resources, double now);

  /// When the next job ends if nothing else starts; nothing: none is running.
  std::optional<double> nextEnd();
  /// Ends that job and returns its owner.
  int endNext();

private:
  struct Resource {
    double perSecond, mostPerJob;
    std::vector<int> jobs;
  };
  struct Job {
    int owner = -1;
    double left = 0, rate = 0, since = 0;
    int64_t generation = 0; ///< of its newest entry in `ends`
    int resources[2] = {-1, -1};
  };
  struct End {
    double time;
    int job;
    int64_t generation;
    bool operator>(const End &other) const {
      return time != other.time ? time > other.time : generation > other.generation;
    }
  };

  double rateOf(const Job &job) const;
  void changeRates(const Job &changed, double now);
  bool isStale(const End &end) const { return jobs[end.job].generation != end.generation; }

  std::vector<Resource> resources;
  std::vector<Job> jobs;
  std::vector<int> freeJobs;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  int64_t generations = 0;
};

} // namespace pdc
