"""Record logits and greedy tokens that transformers computes for `tiny_llama`. Needs transformers.

Run it from the root; it writes tiny_llama.npz next to itself:

    python tests/golden/record_tiny_llama.py
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import LlamaForCausalLM

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import tiny_llama  # noqa: E402


@torch.inference_mode()
def main():
    with tempfile.TemporaryDirectory() as name:
        tiny_llama.write_folder(Path(name))
        model = LlamaForCausalLM.from_pretrained(name, dtype=torch.float32).eval()
    ids = np.random.default_rng(5).integers(0, 256, 200)
    logits = model(torch.tensor(ids[None])).logits[0]
    text = ids[:20].tolist()
    while len(text) < 60:
        text.append(int(model(torch.tensor([text])).logits[0, -1].argmax()))
    np.savez_compressed(
        HERE / "tiny_llama.npz",
        ids=ids.astype(np.int64),
        logits=logits[::9].numpy().astype(np.float32),
        greedy=np.array(text[20:], np.int64),
    )


if __name__ == "__main__":
    main()
