/** Messages as frameworks of several versions print them. */
import assert from "node:assert/strict";
import { explain } from "../../../src/registry/failure/explain.ts";

const reasonOf = (stderrTail: string[], code: number | null = 1, signal = "") => {
  const exit = { code, signal, lost: false, stderrTail, spawnError: "" };
  return explain({ exit, faultRequested: null, runFailed: undefined });
};

const MESSAGES: [message: string, text: string][] = [
  [
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 978.00 MiB. GPU 0 has a total capacity of 15.98 GiB of which 630.00 MiB is free. Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_HIP_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
    "asked for 978.00 MiB, 630.00 MiB of 15.98 GiB free",
  ],
  [
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.12 GiB is free. Process 4123 has 22.10 GiB memory in use. Process 99 has 500.00 MiB memory in use. Including non-PyTorch memory, this process has 55.40 GiB memory in use. Of the allocated memory 54.20 GiB is allocated by PyTorch",
    "asked for 2.00 GiB, 1.12 GiB of 79.15 GiB free, it had 55.40 GiB itself, pid 4123 had 22.10 GiB, pid 99 had 500.00 MiB",
  ],
  [
    "RuntimeError: CUDA out of memory. Tried to allocate 368.00 MiB (GPU 0; 7.79 GiB total capacity; 5.43 GiB already allocated; 143.88 MiB free; 5.71 GiB reserved in total by PyTorch)",
    "asked for 368.00 MiB, 143.88 MiB of 7.79 GiB free, it had 5.43 GiB itself",
  ],
  [
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 146.00 MiB. GPU 0 has a total capacity of 8.00 GiB of which 0 bytes is free.",
    "asked for 146.00 MiB, 0 B of 8.00 GiB free",
  ],
  [
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 33762398024 bytes.",
    "asked for 31.4 GiB",
  ],
  [
    "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 19.59GiB. [executable_name='jit_concatenate']",
    "asked for 19.59GiB",
  ],
  [
    "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,073,741,824 bytes (allocated so far: 512 bytes).",
    "asked for 1.0 GiB",
  ],
  ["RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", ""],
  ["hipErrorOutOfMemory: out of memory", ""],
];

Deno.test("GPU memory: what was asked for, what was free and who had the rest become the reason", () => {
  for (const [message, text] of MESSAGES) {
    const { reason, hint } = reasonOf(["Traceback (most recent call last):", message])!;
    assert.equal(
      reason,
      text === "" ? "gpu_out_of_memory" : `gpu_out_of_memory: ${text}`.slice(0, 219),
    );
    assert.match(hint!, /mosaic gpus/, message);
  }
  assert.match(reasonOf([MESSAGES[1]![0]])!.hint!, /^Others had memory of the run's GPU/);
});

Deno.test("GPU memory: only if it is the last word of a run that failed by itself", () => {
  const full = MESSAGES[0]![0];
  assert.equal(reasonOf([full], 0), undefined);
  assert.equal(reasonOf([full, "ModuleNotFoundError: No module named 'x'"])!.reason, "exit_code_1");
  assert.equal(reasonOf([full], null, "SIGKILL")!.reason, "signal_SIGKILL");
  assert.equal(reasonOf([full], 143)!.reason, "exit_code_143");
  assert.match(reasonOf([full], null, "SIGABRT")!.reason, /^gpu_out_of_memory: asked/);
  assert.equal(reasonOf(["MemoryError"])!.reason, "exit_code_1");
  const hostile = `CUDA out of memory. Tried to allocate ${"1".repeat(100_000)} ${
    "Process 1 has 1 GiB memory in use. ".repeat(3000)
  }`;
  const began = performance.now();
  assert.ok(reasonOf([hostile])!.reason.length < 230);
  assert.ok(performance.now() - began < 1000);
});
