/** What of the daemon's environment its workers get. */

/** Names passed on from the daemon's environment; a `*` at either end stands for any text. */
export const PASSED_ON: readonly string[] = [
  ...["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LANGUAGE", "LC_*", "TZ"],
  ...["LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_*", "PYTHONPATH", "PYENV_*", "UV_*", "DENO_DIR", "MOSAIC_CACHE_DIR"],
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
  ...["http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"],
  ...["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"],
];

/** Further names for PASSED_ON, separated by commas, in the daemon's own environment. */
export const PASS_VARIABLE = "MOSAIC_WORKER_ENV";
