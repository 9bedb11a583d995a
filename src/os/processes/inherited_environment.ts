/** Environment variables that workers inherit from the daemon. */

/** Names of inherited variables; a `*` at either end matches any text. */
export const PASSED_ON: readonly string[] = [
  ...["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LANGUAGE", "LC_*", "TZ"],
  ...[
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "CONDA_*",
    "PYTHONPATH",
    "PYENV_*",
    "UV_*",
    "DENO_DIR",
    "MOSAIC_CACHE_DIR",
  ],
  ...[
    "CUDA_*",
    "NVIDIA_*",
    "XLA_FLAGS",
    "*_NUM_THREADS",
    "MUJOCO_GL",
    "PYOPENGL_PLATFORM",
    "SDL_VIDEODRIVER",
    "DISPLAY",
  ],
  ...["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"],
  ...[
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
  ],
  ...["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"],
  // Where libraries keep their data, and how they compute.
  ...[
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_DATASETS_CACHE",
    "HF_HUB_OFFLINE",
    "TRANSFORMERS_*",
    "TORCH_*",
    "PYTORCH_*",
  ],
  ...[
    "TORCHINDUCTOR_*",
    "TRITON_*",
    "JAX_*",
    "XLA_*",
    "TF_*",
    "KERAS_*",
    "NCCL_*",
    "GLOO_*",
    "OMP_*",
    "KMP_*",
    "MKL_*",
  ],
  ...["WANDB_MODE", "WANDB_DIR", "WANDB_CACHE_DIR", "MPLBACKEND", "TOKENIZERS_PARALLELISM"],
];

/** Variable of the daemon with further names, separated by commas. */
export const PASS_VARIABLE = "MOSAIC_WORKER_ENV";

/** @param pattern a name, or one with a `*` at either end */
export function matchesName(pattern: string, name: string): boolean {
  if (pattern.startsWith("*")) return name.endsWith(pattern.slice(1));
  if (pattern.endsWith("*")) return name.startsWith(pattern.slice(0, -1));
  return pattern === name;
}
