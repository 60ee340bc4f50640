"""FlashInfer's softmax and top-p draw, called from its headers.

Only the headers are needed (`flashinfer/data/include` of the wheel `flashinfer-python`), not the
package: `python benchmarks/flashinfer_sampling.py INCLUDE OUT.so` compiles them with `nvcc`, and
`FlashInfer(OUT.so)` calls what comes out.
"""

import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

SOURCE = """
#include <flashinfer/sampling.cuh>

extern "C" int softmax_top_p(float* logits, float* probabilities, int* tokens, bool* valid,
                             int rows, int vocabulary, float top_p, uint64_t seed,
                             uint64_t offset, void* workspace, size_t bytes, void* stream) {
  using namespace flashinfer::sampling;
  auto queue = static_cast<cudaStream_t>(stream);
  auto status = OnlineSoftmax<float>(logits, probabilities, rows, vocabulary, nullptr, 1.0f,
                                     workspace, bytes, false, queue);
  if (status != cudaSuccess) return status;
  return TopPSamplingFromProb<float, int>(probabilities, tokens, valid, nullptr, nullptr, rows,
                                          top_p, vocabulary, true, nullptr, seed, nullptr, offset,
                                          queue);
}
"""


def compile_headers(include: Path, out: Path) -> None:
    """Compile FlashInfer's headers to a shared library for the H100 and H200."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "sampling.cu")
        source.write_text(SOURCE)
        command = [
            "nvcc", "-O3", "-std=c++17", "--expt-relaxed-constexpr", "-shared", "-Xcompiler=-fPIC",
            "-gencode=arch=compute_90a,code=sm_90a", f"-I{include}", str(source), "-o", str(out),
        ]  # fmt: skip
        subprocess.run(command, check=True)


class FlashInfer:
    """Softmax and a top-p draw of float32 logits [rows, V], as FlashInfer computes them.

    Args:
        library: What `compile_headers` wrote.
    """

    def __init__(self, library: Path) -> None:
        self._call = ctypes.CDLL(str(library)).softmax_top_p
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self._call.argtypes = [
            pointer, pointer, pointer, pointer, ctypes.c_int, ctypes.c_int, ctypes.c_float,
            ctypes.c_uint64, ctypes.c_uint64, pointer, size, pointer,
        ]  # fmt: skip
        self._workspace = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")

    def __call__(self, logits: torch.Tensor, top_p: float, seed: int, offset: int) -> torch.Tensor:
        """Tokens int32 [rows]."""
        rows, vocabulary = logits.shape
        probabilities = torch.empty_like(logits)
        tokens = torch.empty(rows, dtype=torch.int32, device=logits.device)
        valid = torch.empty(rows, dtype=torch.bool, device=logits.device)
        status = self._call(
            logits.data_ptr(), probabilities.data_ptr(), tokens.data_ptr(), valid.data_ptr(),
            rows, vocabulary, top_p, seed, offset, self._workspace.data_ptr(),
            self._workspace.numel(), torch.cuda.current_stream().cuda_stream,
        )  # fmt: skip
        if status:
            raise RuntimeError(f"FlashInfer failed with CUDA error {status}")
        return tokens


if __name__ == "__main__":
    compile_headers(Path(sys.argv[1]), Path(sys.argv[2]))
