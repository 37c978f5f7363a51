# What every runtime is made of, whatever device it is for.
set(PDC_RUNTIME_SOURCES
  Arena.cpp Checkpoint.cpp CheckpointFolder.cpp CheckpointLoading.cpp Control.cpp DataFile.cpp Dataset.cpp DatasetConversions.cpp DatasetRefusals.cpp DatasetSpecs.cpp DeviceInputs.cpp Ending.cpp Evaluation.cpp EvaluationText.cpp Executor.cpp FileBytes.cpp
  Layout.cpp LearningRate.cpp LinkMeter.cpp LocalTransport.cpp Main.cpp MemoryInUse.cpp MemoryTensors.cpp MpiTransport.cpp NamedNumbers.cpp Options.cpp Progress.cpp RankPlace.cpp
  Reduction.cpp ReplacedFile.cpp ReplicaSums.cpp Safetensors.cpp SharedFolder.cpp Socket.cpp StartWatch.cpp Summary.cpp TaskRuns.cpp TcpControl.cpp TcpWatcher.cpp Timeline.cpp
  Trainer.cpp TrainerAgreement.cpp TrainerBeginning.cpp Tuning.cpp UpdateRule.cpp Waiting.cpp)
list(TRANSFORM PDC_RUNTIME_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
