#include "runtime/cuda/TaskGraphs.h"

#include "testsuite/cuda/HostStreams.h"

#include <gtest/gtest.h>

#include <stdexcept>

/// When tasks are recorded, and what happens where that fails.
namespace pdc::runtime {

class TaskGraphsTest : public ::testing::Test {
protected:
  TaskGraphsTest() { cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); }

  static TaskRun name(int stage, Phase phase = Phase::forward, bool startsSums = false,
                      const std::byte *slot = nullptr) {
    return {stage, phase, startsSums, {slot}};
  }
  static TaskRun interrupted(TaskRun name) {
    name.startsReplicaSums = true;
    return name;
  }
  /// A task that adds to `sum` what lies at `value` when its kernel runs.
  std::function<void()> adding() {
    return [this] {
      ++calls;
      pdc::testing::enqueue(stream, [this] { sum += value; });
    };
  }
  void finish() { cudaStreamSynchronize(stream); }

  cudaStream_t stream = nullptr;
  int calls = 0, sum = 0, value = 0;
};

/// Each kernel runs once per run of the task, and sees what memory holds then.
TEST_F(TaskGraphsTest, RecordTheSecondRun) {
  cuda::TaskGraphs graphs(stream);
  for (int run = 1; run <= 5; ++run) {
    value = run;
    graphs.run(name(0), adding());
    EXPECT_EQ(calls, std::min(run, 2));
    finish();
    EXPECT_EQ(sum, run * (run + 1) / 2);
  }
}

TEST_F(TaskGraphsTest, AreApartByNameAndPlaces) {
  cuda::TaskGraphs graphs(stream);
  const std::byte slots[2] = {};
  const TaskRun names[] = {name(0),
                           name(1),
                           name(0, Phase::backward),
                           name(0, Phase::forward, true),
                           name(0, Phase::forward, false, slots),
                           name(0, Phase::forward, false, slots + 1),
                           interrupted(name(0))};
  value = 1;
  for (int run = 0; run < 3; ++run)
    for (const TaskRun &each : names)
      graphs.run(each, adding());
  finish();
  EXPECT_EQ(calls, 14);
  EXPECT_EQ(sum, 21);
}

/// A graph holds no waiting of the host. What was recorded until then has not run.
TEST_F(TaskGraphsTest, RunKernelByKernelWhereRecordingFails) {
  cuda::TaskGraphs graphs(stream);
  value = 1;
  ::testing::internal::CaptureStderr();
  for (int run = 1; run <= 4; ++run) {
    graphs.run(name(0), [this] {
      adding()();
      cudaStreamSynchronize(stream);
    });
    finish();
    EXPECT_EQ(sum, run);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: tasks run kernel by kernel, which is slower: recording one as a CUDA graph "
            "failed: an error\n");
}

/// The call that a recording refuses is told, though the task runs without one.
TEST_F(TaskGraphsTest, SayWhichCallRefusesToBeRecorded) {
  cuda::TaskGraphs graphs(stream);
  value = 1;
  ::testing::internal::CaptureStderr();
  for (int run = 1; run <= 3; ++run) {
    graphs.run(name(0), [this] {
      adding()();
      cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
      cudaStreamIsCapturing(stream, &status);
      EXPECT_EQ(status == cudaStreamCaptureStatusActive, calls == 2);
      if (status == cudaStreamCaptureStatusActive)
        throw std::runtime_error("aCall: operation not permitted when stream is capturing");
    });
    finish();
    EXPECT_EQ(sum, run);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: tasks run kernel by kernel, which is slower: recording one as a CUDA graph "
            "failed: aCall: operation not permitted when stream is capturing\n");
}

/// What is done beside a task sees what the task did before it, and not what it does behind it, as
/// often as the task runs; the graphs stand on both sides.
TEST_F(TaskGraphsTest, AreSplitWhereTheTaskIsInterrupted) {
  cuda::TaskGraphs graphs(stream);
  std::vector<int> seen;
  for (int run = 1; run <= 4; ++run) {
    value = run;
    graphs.run(name(0), [&] {
      adding()();
      graphs.interrupt([&] {
        finish();
        seen.push_back(sum);
      });
      adding()();
    });
    EXPECT_EQ(calls, 2 * std::min(run, 2));
    finish();
    EXPECT_EQ(sum, run * (run + 1));
    ASSERT_EQ(seen.size(), size_t(run));
    EXPECT_EQ(seen.back(), run * (run + 1) - run);
  }
}

/// Nothing that stood before the interruption runs twice where recording fails behind it.
TEST_F(TaskGraphsTest, RunKernelByKernelWhereRecordingFailsBehindAnInterruption) {
  cuda::TaskGraphs graphs(stream);
  int actions = 0;
  value = 1;
  ::testing::internal::CaptureStderr();
  for (int run = 1; run <= 3; ++run) {
    graphs.run(name(0), [&] {
      adding()();
      graphs.interrupt([&] { ++actions; });
      cudaStreamSynchronize(stream);
    });
    finish();
    EXPECT_EQ(sum, run);
    EXPECT_EQ(actions, run);
  }
  EXPECT_NE(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(TaskGraphsTest, LetErrorsThrough) {
  cuda::TaskGraphs graphs(stream);
  graphs.run(name(0), adding());
  finish();
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(graphs.run(name(0), [] { throw std::runtime_error("a fault"); }),
               std::runtime_error);
  ::testing::internal::GetCapturedStderr();
  value = 1;
  graphs.run(name(0), adding());
  finish();
  EXPECT_EQ(sum, 1);
}

} // namespace pdc::runtime
