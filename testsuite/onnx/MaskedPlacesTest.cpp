#include "testsuite/onnx/ModelText.h"

using namespace pdc;
using namespace pdc::testing;

/// The node that the network ends in.
static ModelNode lastOf(const std::string &updates, const std::string &indices = "places") {
  const Model model = read(protoOf(std::string(header) + R"(
    net (float[2, 3, 4] data, bool[2, 3, 1] mask, float[9, 4] source, float[4] row) => (float[2, 3, 4] y) {
      flat = Constant<value_ints = [-1]>()
      zero = Constant<value_ints = [0]>()
      one = Constant<value_ints = [1]>()
      shape = Shape(data)
      all = Expand(mask, shape)
      found = NonZero(all)
      places = Transpose<perm = [1, 0]>(found)
      same = Transpose<perm = [0, 1]>(found)
      size = Shape(places)
      count = Gather(size, zero)
      others = Not(all)
      elsewhere = NonZero(others)
      different = Transpose<perm = [1, 0]>(elsewhere)
      )" + updates + " y = ScatterND(data, " + indices + ", updates) }"));
  return model.nodes.back();
}

static std::string kindOf(const ModelNode &node) {
  return node.op == "pdc.MaskedScatter" ? node.attributes.string("kind", "") : node.op;
}

TEST(MaskedPlaces, areReplaced) {
  const ModelNode rows =
      lastOf("line = Reshape(source, flat)  updates = Slice(line, zero, count, zero)");
  EXPECT_EQ(kindOf(rows), "rows");
  EXPECT_EQ(rows.inputs, (std::vector<std::string>{"data", "all", "source", "mask"}));
  EXPECT_EQ(kindOf(lastOf("many = Expand(row, size)  updates = Reshape(many, flat)")), "repeated");
  EXPECT_EQ(kindOf(lastOf("updates = Reshape(source, flat)")), "rows");
  EXPECT_EQ(kindOf(lastOf("updates = GatherND(data, places)")), "chosen");
}

/// Other places, other parts of a source, and those of which nothing is known.
TEST(MaskedPlaces, othersStay) {
  EXPECT_EQ(kindOf(lastOf("updates = Reshape(source, flat)", "same")), "ScatterND");
  EXPECT_EQ(kindOf(lastOf("updates = GatherND(data, different)")), "ScatterND");
  EXPECT_EQ(kindOf(lastOf("line = Reshape(source, flat)  updates = Slice(line, one, count, zero)")),
            "ScatterND");
  EXPECT_EQ(kindOf(lastOf("updates = Slice(source, zero, count, zero)")), "ScatterND");
  EXPECT_EQ(kindOf(lastOf("updates = Relu(source)")), "ScatterND");
}

/// What a mask selects is known when it is compiled only where the mask is.
TEST(MaskedPlaces, areSelected) {
  auto lastOf = [](const std::string &nodes) {
    const Model model = read(protoOf(std::string(header) + R"(
      net (float[2, 3, 4] data, bool[2, 3] mask) => (float[n, 4] y)
        <float[2, 3] one = {1, 0, 1, 1, 0, 1}> {
        given = NonZero(mask)
        places = Transpose<perm = [1, 0]>(given)
        size = Shape(data)
        zeros = ConstantOfShape(size)
        known = Cast<to = 9>(zeros)
        )" + nodes + " }"));
    return model.nodes.back();
  };
  const ModelNode rows = lastOf("y = GatherND(data, places)");
  EXPECT_EQ(rows.op, "pdc.SelectedRows");
  EXPECT_EQ(rows.inputs, (std::vector<std::string>{"data", "mask"}));
  EXPECT_EQ(lastOf("y = Compress<axis = 0>(data, mask)").op, "pdc.SelectedRows");
  EXPECT_EQ(lastOf("y = Compress<axis = 1>(data, mask)").op, "Compress");
  EXPECT_EQ(lastOf("y = GatherND<batch_dims = 1>(data, places)").op, "GatherND");
  EXPECT_EQ(lastOf("y = NonZero(mask)").op, "pdc.SelectedPlaces");
  EXPECT_EQ(lastOf("y = NonZero(known)").op, "NonZero");
  EXPECT_EQ(lastOf("there = NonZero(known)  at = Transpose<perm = [1, 0]>(there)  y = GatherND(data, at)").op,
            "GatherND");
}
