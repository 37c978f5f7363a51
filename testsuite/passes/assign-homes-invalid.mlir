// RUN: pdc-opt %s --assign-homes -split-input-file -verify-diagnostics

#plain = #pdc.kernel<"ColumnSum", {}, workspace = 0, accumulates = false>

// expected-error@+1 {{unit 'u' overwrites memory 'mean' which it reads, but its kernel cannot work in place}}
pdc.program @rank_0 ranks [0] {
  pdc.memory @mean state microbatch : tensor<4xf32>
  pdc.stage 0 {
    pdc.task forward {
      %x = pdc.read @mean : tensor<4xf32>
      %a = pdc.unit "u" origin "u" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #plain} {
        pdc.yield %0 : tensor<4xf32>
      }
      pdc.write %a to @mean : tensor<4xf32>
    }
  }
}

// -----

#plain = #pdc.kernel<"ColumnSum", {}, workspace = 0, accumulates = false>

// expected-error@+1 {{memories 'one' and 'two' are given the same value, and a write is never a copy}}
pdc.program @rank_0 ranks [0] {
  pdc.memory @x input microbatch : tensor<4xf32>
  pdc.memory @one state microbatch : tensor<4xf32>
  pdc.memory @two state microbatch : tensor<4xf32>
  pdc.stage 0 {
    pdc.task forward {
      %x = pdc.read @x : tensor<4xf32>
      %a = pdc.unit "u" origin "u" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #plain} {
        pdc.yield %0 : tensor<4xf32>
      }
      pdc.write %a to @one : tensor<4xf32>
      pdc.write %a to @two : tensor<4xf32>
    }
  }
}

// -----

#plain = #pdc.kernel<"ColumnSum", {}, workspace = 0, accumulates = false>

// expected-error@+1 {{memory 'g' holds tensor<4x16xf32> but is given tensor<4x16xf32, #pdc.layout<"ba">>; choose-kernels must give both one layout}}
pdc.program @rank_0 ranks [0] {
  pdc.memory @x input microbatch : tensor<4x16xf32>
  pdc.memory @g gradient update : tensor<4x16xf32>
  pdc.stage 0 {
    pdc.task backward {
      %x = pdc.read @x : tensor<4x16xf32>
      %a = pdc.unit "u" origin "u" backward microbatch (%0 = %x : tensor<4x16xf32>) -> (tensor<4x16xf32, #pdc.layout<"ba">>) attributes {kernel = #plain} {
        %1 = pdc.node "Reorder" "u"(%0) {} : (tensor<4x16xf32>) -> tensor<4x16xf32, #pdc.layout<"ba">>
        pdc.yield %1 : tensor<4x16xf32, #pdc.layout<"ba">>
      }
      pdc.accumulate %a into @g : tensor<4x16xf32, #pdc.layout<"ba">>
    }
  }
}

// -----

#plain = #pdc.kernel<"ColumnSum", {}, workspace = 0, accumulates = false>

// expected-error@+1 {{memory 'g' is summed by two stages of a rank; divide-sums gives each its own}}
pdc.program @rank_0 ranks [0] {
  pdc.memory @x input microbatch : tensor<4xf32>
  pdc.memory @g gradient update : tensor<4xf32>
  pdc.stage 0 {
    pdc.task backward {
      %x = pdc.read @x : tensor<4xf32>
      pdc.accumulate %x into @g : tensor<4xf32>
    }
  }
  pdc.stage 1 {
    pdc.task backward {
      %x = pdc.read @x : tensor<4xf32>
      pdc.accumulate %x into @g : tensor<4xf32>
    }
  }
}
