import os
import lit.formats

config.name = "pdc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.join(config.source_root, "testsuite")
config.test_exec_root = os.path.join(config.build_root, "testsuite")
config.environment["PATH"] = os.pathsep.join(
    [config.tools_directory, config.llvm_tools_directory, os.environ["PATH"]])
config.environment["FILECHECK_OPTS"] = "-enable-var-scope"
config.environment["OMP_NUM_THREADS"] = "1"
for name in ("CCACHE_DIR", "HOME", "ASAN_OPTIONS", "UBSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
if config.sanitized:
    config.available_features.add("sanitized")
config.substitutions.append(("%models", os.path.join(config.source_root, "tools", "models")))
config.substitutions.append(("%source", config.source_root))
config.substitutions.append(("%build", config.build_root))
