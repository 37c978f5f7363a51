#include "compiler/cost/Device.h"
#include "compiler/plan/Files.h"
#include "compiler/plan/MakePlan.h"
#include "compiler/plan/Profile.h"
#include "testsuite/Refusal.h"
#include "testsuite/plan/ExamplePlans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pdc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(TopologyFile, Reads) {
  Topology topology = parseTopology(
      R"({"levels": [{"workers": 4, "bandwidth": 8e9, "latency": 5e-6},
          {"workers": 2, "bandwidth": 1.25e9, "latency": 2e-5}], "memory": 17179869184, "device": "v100"})",
      "t");
  EXPECT_EQ(topology.workers(), 8);
  EXPECT_EQ(topology.memoryBytes, 17179869184);
  EXPECT_EQ(topology.levels[1].link.latencySeconds, 2e-5);
}

TEST(TopologyFile, Refusals) {
  auto read = [](const char *text) { return refusal([&] { parseTopology(text, "t"); }); };
  EXPECT_EQ(read("{}"), "t: levels: expected at least one level");
  EXPECT_EQ(read(R"({"levels": [{"workers": 0, "bandwidth": 1}]})"),
            "t: levels[0].workers: expected a whole number from 1 to 65536, found 0");
  EXPECT_EQ(read(R"({"levels": [{"workers": 2}]})"),
            "t: levels[0].bandwidth: expected a number, found nothing");
  EXPECT_EQ(read(R"({"levels": [{"workers": 2, "bandwidth": 0}]})"),
            "t: levels[0].bandwidth: expected at least 1 byte per second, found 0");
  EXPECT_EQ(read(R"({"levels": [{"workers": 2, "bandwidth": 1e-300}]})"),
            "t: levels[0].bandwidth: expected at least 1 byte per second, found 1e-300");
  EXPECT_EQ(read(R"({"levels": [{"workers": 2, "bandwidth": 1, "send_bandwidth": 0.5}]})"),
            "t: levels[0].send_bandwidth: expected 0 (it takes no time) or at least 1 byte per "
            "second, found 0.5");
  EXPECT_EQ(read(R"({"levels": [{"workers": 2, "bandwidth": 1, "latency": 1e300}]})"),
            "t: levels[0].latency: expected seconds from 0 to 4.4e9, found 1e+300");
  EXPECT_EQ(read(R"({"levels": [{"workers": 2, "bandwidth": 1, "latencies": 1}]})"),
            "t: levels[0].\"latencies\": unknown; there are workers, bandwidth, latency, ports, "
            "send_bandwidth, receive_bandwidth; the nearest is latency");
  // A table of devices gives their memory and peaks: what has no row would count for nothing.
  const std::string level = R"({"levels": [{"workers": 2, "bandwidth": 1}], "device": )";
  const std::string known = "; devices with known peaks: cpu, titanx, v100, a100, h100, h200, cuda";
  EXPECT_EQ(read((level + "\"V100\"}").c_str()),
            "t: device: unknown device 'V100'" + known + "; the nearest is v100");
  EXPECT_EQ(read((level + "\"abacus\"}").c_str()), "t: device: unknown device 'abacus'" + known);
  EXPECT_EQ(read((level + "\"cpy\"}").c_str()), "t: device: unknown device 'cpy'" + known);
  EXPECT_EQ(read((level + "\"h10\"}").c_str()),
            "t: device: unknown device 'h10'" + known + "; the nearest is h100");
  EXPECT_EQ(read((level + "null}").c_str()),
            "t: device: expected a string, found null; leave it out where there is none");
  EXPECT_EQ(read((level + "\"\"}").c_str()), "accepted");
  EXPECT_EQ(read((level + "\"cuda\"}").c_str()), "accepted");
  EXPECT_EQ(read(R"({"levels": [{"workers": 2.5, "bandwidth": 1}]})"),
            "t: levels[0].workers: expected a whole number from 1 to 65536, found 2.5");
  EXPECT_EQ(
      read(
          R"({"levels": [{"workers": 60000, "bandwidth": 1}, {"workers": 60000, "bandwidth": 1}]})"),
      "t: levels[1].workers: expected at most 65536 in all");
}

/// Some programs write null where they have no number, and others write a field once more.
TEST(TopologyFile, FieldsThatMayBeLeftOutAndFieldsTwice) {
  auto read = [](const std::string &text) { return refusal([&] { parseTopology(text, "t"); }); };
  const std::string none = ", found null; leave it out where there is none";
  EXPECT_EQ(read(R"({"levels": [{"workers": 2, "bandwidth": 1, "latency": null}]})"),
            "t: levels[0].latency: expected seconds from 0 to 4.4e9" + none);
  EXPECT_EQ(read(R"({"levels": [{"workers": 2, "bandwidth": 1, "ports": null}]})"),
            "t: levels[0].ports: expected a whole number from 1 to 65536" + none);
  EXPECT_EQ(read(R"({"levels": [{"workers": 2, "bandwidth": 1}], "links": null})"),
            "t: links: expected a list" + none);
  EXPECT_EQ(read(R"({"levels": [{"workers": 2, "bandwidth": null}]})"),
            "t: levels[0].bandwidth: expected a number of at least 0, found null");
  EXPECT_EQ(read(R"({"levels": [{"workers": null, "bandwidth": 1}]})"),
            "t: levels[0].workers: expected a whole number from 1 to 65536, found null");
  EXPECT_EQ(read(R"({"levels": [{"workers": 2, "bandwidth": 1e9, "bandwidth": 1}]})"),
            "t: expected each field once, found \"bandwidth\" twice in one object");
  EXPECT_EQ(read(R"({"levels": [{"workers": 2, "bandwidth": 1}, {"workers": 2, "bandwidth": 1}]})"),
            "accepted");
  EXPECT_EQ(read("{\"levels\":\n [{\"workers\": 2, \"bandwidth\": 1e400}]}"),
            "t:2:31: expected numbers below 1.8e308, found 1e400");
}

TEST(TopologyFile, KnownClusters) {
  Topology a = readTopology("cluster-a");
  ASSERT_EQ(a.levels.size(), 2u);
  EXPECT_EQ(a.levels[0].workers, 4);
  EXPECT_EQ(a.levels[1].link.bytesPerSecond, 1.25e9);
  EXPECT_EQ(a.memoryBytes, bytesForPrograms(findDevicePeaks("v100")));
  EXPECT_EQ(readTopology("cluster-b").workers(), 16);
  EXPECT_EQ(readTopology("cluster-c").levels.size(), 1u);
  EXPECT_EQ(readTopology("dgx-a100").workers(), 160);
  EXPECT_EQ(readTopology("dgx-h100:128").workers(), 1024);
  EXPECT_EQ(readTopology("cluster-c:1").workers(), 1);
  Topology some = readTopology("dgx-h200", {0, 4});
  ASSERT_EQ(some.levels.size(), 1u);
  EXPECT_EQ(some.levels[0].workers, 4);
  EXPECT_EQ(some.levels[0].link.bytesPerSecond, 370e9);
  EXPECT_EQ(readTopology("dgx-h200", {0, 1}).workers(), 1);
  EXPECT_EQ(readTopology("dgx-h200", {0, 16}).levels.back().workers, 2);
  EXPECT_EQ(readTopology("dgx-h200", {0, 12}).workers(), 256);
  EXPECT_EQ(readTopology("dgx-h200:2", {0, 24}).workers(), 16);
  EXPECT_EQ(readTopology("cluster-c", {0, 3}).workers(), 3);
  some = readTopology("dgx-h200", {2, 8});
  ASSERT_EQ(some.levels.size(), 2u);
  EXPECT_EQ(some.levels[0].workers, 4);
  EXPECT_EQ(some.levels[1].ports, 4);
  EXPECT_EQ(readTopology("dgx-h200", {2, 32}).workers(), 256);
  EXPECT_EQ(refusal([] { readTopology("dgx-h100:x"); }),
            "topology 'dgx-h100:x': expected 1 to 8192 servers behind the colon");
  EXPECT_EQ(refusal([] { readTopology("cluster-d"); }),
            "cluster-d: no such file, and no known cluster; known clusters: cluster-a, cluster-b, "
            "cluster-c, dgx-a100, dgx-h100, dgx-h200");
}

TEST(ProfileFile, PipeDream) {
  Profile profile = parsePipeDreamProfile(
      "node2 -- B -- forward_compute_time=1.500, backward_compute_time=2.500, "
      "activation_size=[8.0; 4.0], parameter_size=16.000 -- stage_id=0\r\n"
      "node1 -- Input0 -- forward_compute_time=9, backward_compute_time=0, activation_size=1, "
      "parameter_size=0\n"
      "node3 -- A -- forward_compute_time=0, backward_compute_time=0, activation_size=2, "
      "parameter_size=0\n"
      "node4 -- __getitem__(1) -- forward_compute_time=0, backward_compute_time=0, "
      "activation_size=2, parameter_size=0\n"
      "\tnode1 -- node2\n\tnode2 -- node3\n\tnode2 -- node4\n",
      "graph.txt");
  ASSERT_EQ(profile.graph.units.size(), 2u);
  EXPECT_EQ(profile.graph.units[0].name, "node2");
  EXPECT_DOUBLE_EQ(profile.graph.units[0].forwardSeconds, 0.0015);
  EXPECT_DOUBLE_EQ(profile.graph.units[0].backwardInputSeconds, 0.0025);
  EXPECT_EQ(profile.graph.units[0].gradientBytes, 16);
  EXPECT_EQ(profile.graph.units[0].stashBytes, 12);
  EXPECT_EQ(profile.graph.values[0].bytes, 12);
  EXPECT_THAT(profile.graph.values[0].consumers, ElementsAre(1));
}

TEST(ProfileFile, PipeDreamRefusals) {
  const std::string good = "a -- Op -- forward_compute_time=1, backward_compute_time=1, "
                           "activation_size=1, parameter_size=1\n";
  auto read = [](const std::string &text) {
    return refusal([&] { parsePipeDreamProfile(text, "g"); });
  };
  EXPECT_EQ(read("a -- Op\n"), "g:1: expected 'node -- operator -- costs', found 'a -- Op'");
  EXPECT_EQ(read("a -- Op -- forward_compute_time=1\n"),
            "g:1: expected forward_compute_time, backward_compute_time, activation_size and "
            "parameter_size, found 'forward_compute_time=1'");
  EXPECT_EQ(read("a -- Op -- forward_compute_time=-1, backward_compute_time=1, activation_size=1, "
                 "parameter_size=1"),
            "g:1: forward_compute_time: expected a number from 0 to 4.4e12, found '-1'");
  EXPECT_EQ(read("a -- Op -- forward_compute_time=nan, backward_compute_time=1, activation_size=1, "
                 "parameter_size=1"),
            "g:1: forward_compute_time: expected a number from 0 to 4.4e12, found 'nan'");
  EXPECT_EQ(read("a -- Op -- forward_compute_time=1, backward_compute_time=1, activation_size=[1, "
                 "parameter_size=1"),
            "g:1: activation_size: expected ']' at the end of '[1'");
  EXPECT_EQ(read("a -- Op -- time=1, backward_compute_time=1, activation_size=1, parameter_size=1"),
            "g:1: expected forward_compute_time=..., found 'time=1'");
  EXPECT_EQ(read(good + good), "g:2: two nodes have the name 'a'");
  EXPECT_EQ(read(good + "\ta -- b"), "g:2: no node line above has the name 'b'");
  EXPECT_EQ(read(good + "\ta"), "g:2: expected 'node -- node', found 'a'");
  EXPECT_EQ(read(good + "\ta -- a"), "g: node 'a' is on a cycle or behind one");
  EXPECT_EQ(read("a -- Input -- forward_compute_time=1, backward_compute_time=1, "
                 "activation_size=1, parameter_size=1"),
            "g: expected at least one node that is no Input");
}

TEST(ProfileFile, RoundTripAndApply) {
  Profile profile{"m.onnx", "cpu", Precision::fp32, 2, 32, chainGraph({1, 2}), "adam"};
  profile.graph.tied = {{{0, 1}, 300, 200, 100, true}};
  profile.graph.sharedReads = {{{0, 1}, 50, 60}};
  profile.graph.units[1].slowdown = 1.25;
  profile.graph.units[1].updateSlowdown = 1.5;
  profile.graph.units[1].versionSlowdown = 1.75;
  profile.graph.units[1].accumulationSlowdown = 2.25;
  std::string text = printProfile(profile);
  Profile read = parseProfile(text, "p");
  EXPECT_EQ(printProfile(read), text);
  ASSERT_EQ(read.graph.tied.size(), 1u);
  EXPECT_EQ(read.graph.tied[0].units, (std::vector<int>{0, 1}));
  EXPECT_EQ(read.graph.tied[0].optimizerBytes, 200);
  EXPECT_TRUE(read.graph.tied[0].sumsTogether);
  ASSERT_EQ(read.graph.sharedReads.size(), 1u);
  EXPECT_EQ(read.graph.sharedReads[0].units, (std::vector<int>{0, 1}));
  EXPECT_EQ(read.graph.sharedReads[0].parameterBytes, 50);
  EXPECT_EQ(read.graph.sharedReads[0].constantBytes, 60);
  PlanGraph graph = chainGraph({7, 7});
  graph.units[0].stashBytes = 99;
  applyProfile(graph, read);
  EXPECT_EQ(graph.units[1].forwardSeconds, 2);
  EXPECT_EQ(graph.units[0].stashBytes, 99);
  EXPECT_EQ(graph.units[1].slowdown, 1);
  copySlowdowns(graph, read);
  EXPECT_EQ(graph.units[0].slowdown, 1);
  EXPECT_EQ(graph.units[1].slowdown, 1.25);
  EXPECT_EQ(graph.units[1].updateSlowdown, 1.5);
  EXPECT_EQ(graph.units[1].versionSlowdown, 1.75);
  EXPECT_EQ(graph.units[1].accumulationSlowdown, 2.25);
  graph.units[1].name = "other";
  EXPECT_THAT(refusal([&] { applyProfile(graph, read); }), HasSubstr("has no unit 'other'"));
}

TEST(ProfileFile, SlowdownsOutOfRange) {
  auto read = [](const std::string &slowdown) {
    return parseProfile(R"({"units": [{"name": "a", "slowdown": )" + slowdown + "}]}", "p");
  };
  for (const char *good : {"1", "1.5", "1000"})
    EXPECT_EQ(read(good).graph.units[0].slowdown, std::stod(good));
  for (const char *bad : {"0", "0.99", "1000.5", "1e300"})
    EXPECT_THAT(refusal([&] { read(bad); }),
                testing::StartsWith("p: units[0].slowdown: expected 1 to 1000, found "))
        << bad;
}

TEST(ProfileFile, Refusals) {
  auto read = [](const char *text) { return refusal([&] { parseProfile(text, "p"); }); };
  // What sums of which are no numbers any more, and what writers of JSON make of such.
  EXPECT_EQ(read(R"({"units": [{"name": "a", "forward_seconds": 1e308}]})"),
            "p: units[0].forward_seconds: expected seconds from 0 to 4.4e9, found 1e+308");
  EXPECT_EQ(read(R"({"units": [{"name": "a", "update_seconds": null}]})"),
            "p: units[0].update_seconds: expected seconds from 0 to 4.4e9, found null; leave it "
            "out where there is none");
  EXPECT_EQ(read(R"({"units": [{"name": "a", "stash_bytes": null}]})"),
            "p: units[0].stash_bytes: expected a whole number from 0 to 4398046511104, found null; "
            "leave it out where there is none");
  EXPECT_EQ(read(R"({"units": [{"name": "a", "slowdown": null}]})"),
            "p: units[0].slowdown: expected a number of at least 0, found null; leave it out where "
            "there is none");
  EXPECT_EQ(read(R"({"units": [{"name": "a", "nodes": null}]})"),
            "p: units[0].nodes: expected a list, found null; leave it out where there is none");
  EXPECT_EQ(read(R"({"units": [{"name": "a"}], "device": "gpu"})"),
            "p: device: unknown device 'gpu'; devices with known peaks: cpu, titanx, v100, a100, "
            "h100, h200, cuda");
  EXPECT_EQ(read("{}"), "p: units: expected at least one unit");
  EXPECT_EQ(read(R"({"units": [{"name": "a"}, {"name": "a"}]})"),
            "p: units[1].name: two units have the name 'a'");
  EXPECT_EQ(read(R"({"units": [{"name": "a", "forward_seconds": "x"}]})"),
            "p: units[0].forward_seconds: expected seconds from 0 to 4.4e9, found \"x\"");
  EXPECT_EQ(read(R"({"units": [{"name": "a"}], "values": [{"name": "v", "producer": 1}]})"),
            "p: values[0].producer: expected a whole number from 0 to 0, found 1");
  EXPECT_EQ(read(R"({"units": [{"name": "a"}],
                     "values": [{"name": "v", "producer": 0, "consumers": [0], "bytes": 1}]})"),
            "p: value 'v' goes from unit 0 to unit 0, expected a later one of 1");
  EXPECT_EQ(read(R"({"units": [{"name": "a"}, {"name": "b"}],
                     "tied": [{"units": [1, 0], "parameter_bytes": 1, "gradient_bytes": 1}]})"),
            "p: tied[0].units: expected two units or more, each later than the one before");
  EXPECT_EQ(read(R"({"units": [{"name": "a", "stash_bytes": 1, "input_stash_bytes": 2}]})"),
            "p: unit 'a' has more input_stash_bytes than stash_bytes");
  EXPECT_EQ(read(R"({"units": [{"name": "a", "stash_bytes": 9, "input_stash_bytes": 5},
                     {"name": "b", "freed_stash_bytes": 8}]})"),
            "p: unit 'b': expected at most so many freed_stash_bytes as it and the units before "
            "have input_stash_bytes, found 3 more");
  auto readValues = [&](const std::string &first, const std::string &second) {
    const std::string values = R"({"producer": 0, "consumers": [1], )";
    return read((R"({"units": [{"name": "a", "stash_bytes": 9, "input_stash_bytes": 4},
                     {"name": "b", "freed_stash_bytes": 3}], "values": [{"name": "v", )" +
                 values.substr(1) + first + R"(}, {"name": "w", )" + values.substr(1) + second +
                 "}]}")
                    .c_str());
  };
  EXPECT_EQ(readValues(R"("bytes": 4, "stashed": true)", R"("bytes": 2, "stashed": true)"),
            "p: value 'w' is stashed, but the stash of unit 'a' is too small for it");
  EXPECT_EQ(readValues(R"("bytes": 4, "freed_at": 1)", R"("bytes": 2)"),
            "p: value 'v' is freed, expected that it is stashed, too");
  EXPECT_EQ(readValues(R"("bytes": 4, "stashed": true, "freed_at": 1)", R"("bytes": 2)"),
            "p: value 'v' is freed at unit 'b', whose freed_stash_bytes are too few for it");
}

} // namespace
} // namespace pdc
