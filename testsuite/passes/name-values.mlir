// RUN: pdc-opt %s --name-values | FileCheck %s

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>

pdc.program @rank_0 ranks [0] {
  // What a name says never becomes code.
  // CHECK: pdc.memory @"x\22); system(\22" input microbatch : tensor<4xf32> {variable = "x_system"}
  pdc.memory @"x\22); system(\22" input microbatch : tensor<4xf32>
  // CHECK: pdc.memory @for {{.*}} {variable = "for_2"}
  pdc.memory @for input microbatch : tensor<4xf32>
  // CHECK: pdc.memory @"/conv 1/weight" {{.*}} {variable = "conv_1_weight"}
  pdc.memory @"/conv 1/weight" weight version : tensor<4xf32>
  // CHECK: pdc.memory @conv.1.weight {{.*}} {variable = "conv_1_weight_2"}
  pdc.memory @"conv.1.weight" weight version : tensor<4xf32>
  // CHECK: pdc.memory @"1" {{.*}} {variable = "t1"}
  pdc.memory @"1" constant once : tensor<4xf32>
  // CHECK: pdc.memory @"\E7\A5\9E" {{.*}} {variable = "t"}
  pdc.memory @"\E7\A5\9E" constant once : tensor<4xf32>
  pdc.memory @relu outbox microbatch : tensor<4xf32>
  // Paths as torch writes them end in the operator and repeat themselves.
  // CHECK: pdc.memory @"/layer1/layer1.0/conv1/Conv" {{.*}} {variable = "layer1_0_conv1"}
  pdc.memory @"/layer1/layer1.0/conv1/Conv" activation microbatch : tensor<4xf32>
  // CHECK: pdc.memory @"/conv1/Conv/grad/ConvInputGrad" {{.*}} {variable = "conv1_input_grad"}
  pdc.memory @"/conv1/Conv/grad/ConvInputGrad" inbox microbatch : tensor<4xf32>
  // CHECK: pdc.memory @"/norm/BatchNormalization/grad/BatchNormalizationGrad:dScale" {{.*}} {variable = "norm_scale_grad"}
  pdc.memory @"/norm/BatchNormalization/grad/BatchNormalizationGrad:dScale" activation microbatch : tensor<4xf32>
  // CHECK: pdc.memory @"/norm/LayerNormalization:InvStdDev" {{.*}} {variable = "norm_inv_std_dev"}
  pdc.memory @"/norm/LayerNormalization:InvStdDev" activation microbatch : tensor<4xf32>
  // CHECK: pdc.memory @"/split/Split:2" {{.*}} {variable = "split_Split_2"}
  pdc.memory @"/split/Split:2" activation microbatch : tensor<4xf32>
  // Where a module computes several things their operators tell them apart.
  // CHECK: pdc.memory @"/act/Relu_1" {{.*}} {variable = "act_Relu_1"}
  pdc.memory @"/act/Relu_1" activation microbatch : tensor<4xf32>
  // CHECK: pdc.memory @"/attention/MatMul" {{.*}} {variable = "attention_MatMul"}
  pdc.memory @"/attention/MatMul" activation microbatch : tensor<4xf32>
  // CHECK: pdc.memory @"/attention/Softmax" {{.*}} {variable = "attention_Softmax"}
  pdc.memory @"/attention/Softmax" activation microbatch : tensor<4xf32>
  // CHECK: pdc.memory @"/attention/MatMul/grad/FusedMatMul" {{.*}} {variable = "attention_MatMul_grad_FusedMatMul"}
  pdc.memory @"/attention/MatMul/grad/FusedMatMul" activation microbatch : tensor<4xf32>
  // CHECK: pdc.memory @"/attention/MatMul/grad/FusedMatMul.1" {{.*}} {variable = "attention_MatMul_grad_FusedMatMul_1"}
  pdc.memory @"/attention/MatMul/grad/FusedMatMul.1" activation microbatch : tensor<4xf32>
  // CHECK: pdc.memory @"/Flatten" {{.*}} {variable = "Flatten"}
  pdc.memory @"/Flatten" activation microbatch : tensor<4xf32>
  // CHECK: pdc.memory @state {{.*}} variable = "state"
  pdc.memory @state optimizer update : tensor<4xf32> {home = #pdc.home<"fixed", 64, 16>}
  pdc.stage 0 {
    pdc.task forward {
      %x = pdc.read @for : tensor<4xf32>
      // The result is the outbox; the kernel has a name of its own.
      // CHECK: pdc.unit "conv+relu" {{.*}} result_variables = ["relu"], variable = "conv_relu"
      %a = pdc.unit "conv+relu" origin "a" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        %1 = pdc.node "Relu" "relu"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
        pdc.yield %1 : tensor<4xf32>
      }
      pdc.write %a to @relu : tensor<4xf32>
    }
    pdc.task update {
      // The old and the new value of a memory in one task.
      // CHECK: pdc.unit "step" {{.*}} result_variables = ["new_conv_1_weight"], variable = "step"
      %w = pdc.weight_version @"/conv 1/weight" latest : tensor<4xf32>
      %n = pdc.unit "step" origin "a" update update (%0 = %w : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        %1 = pdc.node "Neg" "step"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
        pdc.yield %1 : tensor<4xf32>
      }
      pdc.commit %n to @"/conv 1/weight" : tensor<4xf32>
      // One that takes the old one's place has its name.
      // CHECK: pdc.unit "move" {{.*}} result_variables = ["state"], variable = "move"
      %s = pdc.read @state : tensor<4xf32>
      %m = pdc.unit "move" origin "a" update update (%0 = %s : tensor<4xf32>) -> (tensor<4xf32>) attributes {homes = [#pdc.home<"fixed", 64, 16>], kernel = #loops} {
        %1 = pdc.node "Neg" "move"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
        pdc.yield %1 : tensor<4xf32>
      }
      pdc.write %m to @state : tensor<4xf32>
    }
    pdc.task backward {
      // Nodes of one module share its name.
      // CHECK: pdc.unit "/layer/layer.0/Add+/layer/layer.0/relu/Relu" {{.*}} variable = "layer_0_relu"
      %x = pdc.read @for : tensor<4xf32>
      %a = pdc.unit "/layer/layer.0/Add+/layer/layer.0/relu/Relu" origin "a" backward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        %1 = pdc.node "Relu" "/layer/layer.0/relu/Relu"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
        pdc.yield %1 : tensor<4xf32>
      }
    }
    pdc.task evaluate {
      %x = pdc.read @for : tensor<4xf32>
      // CHECK: pdc.unit "conv+relu" {{.*}} result_variables = ["evaluate_relu"], variable = "evaluate_conv_relu"
      %a = pdc.unit "conv+relu" origin "a" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        %1 = pdc.node "Relu" "relu"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
        pdc.yield %1 : tensor<4xf32>
      }
    }
  }
}
