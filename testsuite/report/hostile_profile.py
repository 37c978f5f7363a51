"""A profile whose names are everything that a name should not be."""
import json
import sys

NAMES = ["<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "a" * 5000, "&lt;b&gt; & <b>",
         "line\nbreak\tand \x00 zero \x7f", "\u202ereversed\u2066", "--></style></svg>", "名前 ünïcödé 🚀"]
units = [{"name": name, "nodes": [name + " node"], "forward_seconds": 1e-3 * (i + 1), "backward_input_seconds": 1e-3,
          "backward_weight_seconds": 1e-3, "update_seconds": 1e-5, "parameter_bytes": 1000 * i, "gradient_bytes": 1000 * i,
          "optimizer_bytes": 0, "stash_bytes": 5000, "halfway_bytes": 0, "workspace_bytes": 0}
         for i, name in enumerate(NAMES)]
values = [{"name": f"{NAMES[i]} value", "producer": i, "consumers": [i + 1], "bytes": 100000, "gradient": True}
          for i in range(len(NAMES) - 1)]
json.dump({"model": "</title><script>alert(2)</script>.onnx", "device": "cpu", "threads": 1, "microbatch_size": 4,
           "units": units, "values": values}, sys.stdout)
