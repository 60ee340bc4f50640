"""Compile every GPU kernel for targets that are not at hand, and say how far each one got.

Triton compiles for sm_90 and sm_100 without a GPU. For Ascend the kernels go through the front end
of `triton-ascend`, in a virtual environment of its own under `build/`, because that package owns
the import name `triton`. Nothing is run here: "compiled" and "lowered" are exactly that.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ASCEND = ROOT / "build" / "ascend"
ASCEND_PACKAGES = ("triton-ascend==3.2.0", "pybind11", "numpy", "torch")
ASCEND_LIMIT_S = 240
ASCEND_ARCHITECTURE = "Ascend950PR_9589"

MEASURED: tuple[str, ...] = ()
"""Kernels that ran on a device as they are now; `benchmarks/records.jsonl` has the times."""


def kernels() -> list[tuple[str, Any, dict[str, Any], int]]:
    """Name, kernel, compile-time values and warps of all that is launched."""
    from deepinfer_kernels.gpu import (
        commit,
        mask_builder,
        sampler_decide,
        sampler_finish,
        sampler_report,
        sampler_scan,
    )

    tile = {"FEATURES": 7, "K": 4}
    row = {"FEATURES": 7, "GRANULE": 512, "G": 256}
    whole = {**row, "W": 8, "CAPACITY": 2048}
    return [
        ("scan", sampler_scan.scan, {**tile, "W": 1}, 1),
        ("decide", sampler_decide.decide, row, 4),
        ("revisit", sampler_decide.revisit, {**row, "K": 4, "W": 4, "T": 64}, 4),
        ("finish", sampler_finish.finish, {**whole, "T": 64}, 8),
        ("build", mask_builder.build, {"W": 4}, 1),
        ("commit_row", commit.commit_row, {"COUNTED": True}, 1),
        ("kept_set", sampler_report.kept_set, whole, 8),
        ("draw_modulo31", sampler_report.draw_modulo31, whole, 8),
        ("report", sampler_report.report, {"FEATURES": 7, "P": 128, "MOST": 20, "TILES": 1}, 4),
    ]


FLOATS = {"logits", "largest", "mass", "upper", "peaks", "bias_values"}
FLOATS |= {"out_logprob", "out_logprobs"}
LONGS = {"totals", "before", "gathered"}
BYTES = {"byte_class", "token_bytes"}
INTEGERS = {"stride", "vocab_size", "granules", "parts", "steps", "capacity"}
INTEGERS |= {"queue_stride", "tiles"}


def type_of(name: str) -> str:
    """Triton's name of an argument's type."""
    if name in INTEGERS:
        return "i32"
    kinds = ((FLOATS, "*fp32"), (LONGS, "*i64"), (BYTES, "*u8"), ({"counts"}, "*i16"))
    return next((kind for names, kind in kinds if name in names), "*i32")


def source_of(kernel: Any, values: dict[str, Any]) -> Any:
    """Kernel, argument types and compile-time values as the compiler takes them."""
    from triton.compiler import ASTSource

    signature = {p.name: "constexpr" if p.is_constexpr else type_of(p.name) for p in kernel.params}
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, (name, kind) in enumerate(signature.items())
        if kind.startswith("*") or name in ("stride", "vocab_size")
    }
    places = {(kernel.arg_names.index(name),): value for name, value in values.items()}
    return ASTSource(fn=kernel, signature=signature, constexprs=places, attrs=aligned)


def compile_all(capability: int, only: list[str]) -> dict[str, str]:
    """Compile for an NVIDIA target; what became of each kernel."""
    import triton
    from triton.backends.compiler import GPUTarget

    found = {}
    for name, kernel, values, warps in kernels():
        if only and name not in only:
            continue
        began = time.perf_counter()
        try:
            done = triton.compile(
                source_of(kernel, values),
                target=GPUTarget("cuda", capability, 32),
                options={"num_warps": warps, "enable_fp_fusion": False},
            )
            found[name] = f"compiled ({len(done.asm['cubin']) // 1024} KiB)"
        except Exception as error:
            found[name] = f"failed: {str(error).strip().splitlines()[-1][:90]}"
        took = time.perf_counter() - began
        print(f"sm_{capability} {name}: {found[name]}, {took:.0f} s", file=sys.stderr, flush=True)
    return found


def lower_for_ascend(only: list[str]) -> None:
    """Runs inside the Ascend environment: one line per kernel."""
    from triton._C.libtriton import ir
    from triton.backends.ascend import compiler as ascend
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    target = GPUTarget("npu", ASCEND_ARCHITECTURE, 0)
    backend = ascend.AscendBackend(target)
    wanted = {
        "enable_fp_fusion": False,
        "compile_on_910_95": True,
        "multibuffer": False,
        "enable_auto_bind_sub_block": False,
        "enable_select_analysis": True,
    }
    for name, kernel, values, _ in kernels():
        if only and name not in only:
            continue
        try:
            options = backend.parse_options(wanted)
            signature = {p.name: type_of(p.name) for p in kernel.params if not p.is_constexpr}
            source = ASTSource(fn=kernel, signature=signature, constants=dict(values))
            context = ir.context()
            ir.load_dialects(context)
            backend.load_dialects(context)
            module = source.make_ir(
                options, backend.get_codegen_implementation(), backend.get_module_map(), context
            )
            metadata = {"hash": name, "target": target, **options.__dict__}
            module = ascend.make_ttir(module, metadata, options)
            linalg = ascend.ttir_to_linalg(module, metadata, options)
            print(f"{name}\tlowered ({len(linalg.splitlines())} lines of linalg)", flush=True)
        except Exception as error:
            text = str(error)
            if isinstance(error, subprocess.CalledProcessError):
                text = (error.stderr or b"").decode(errors="replace")
            lines = [line for line in text.splitlines() if line.strip()] or [repr(error)]
            reason = next((line for line in lines if "error" in line.lower()), lines[-1])
            print(f"{name}\tfailed: {reason.strip()[-150:]}", flush=True)


def ascend_environment() -> str | None:
    """Make the environment; the reason if it cannot be made."""
    python = ASCEND / "bin" / "python"
    ready = ASCEND / "ready"
    if ready.exists():
        return None
    steps = (
        [sys.executable, "-m", "venv", "--clear", str(ASCEND)],
        [str(python), "-m", "pip", "install", "-qq", "--no-deps", *ASCEND_PACKAGES[:1]],
        [
            str(python), "-m", "pip", "install", "-qq", "--constraint",
            str(ROOT / "constraints.txt"), *ASCEND_PACKAGES[1:],
        ],
    )  # fmt: skip
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["unknown"])[-1]
    # torch brings its own triton, which would shadow the Ascend one.
    subprocess.run([str(python), "-m", "pip", "uninstall", "-qq", "-y", "triton"], check=False)
    again = [str(python), "-m", "pip", "install", "-qq", "--no-deps", "--force-reinstall"]
    done = subprocess.run([*again, *ASCEND_PACKAGES[:1]], check=False)
    if done.returncode == 0:
        ready.touch()
    return None if done.returncode == 0 else "triton-ascend could not be installed"


def ascend_all(only: list[str]) -> dict[str, str]:
    """Lower every kernel in the Ascend environment."""
    reason = ascend_environment()
    if reason:
        return {name: f"not tried: {reason[:90]}" for name, *_ in kernels()}
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/kernels", "TRITON_INTERPRET": "0"}
    found = {}
    for name, *_ in kernels():
        if only and name not in only:
            continue
        command = [str(ASCEND / "bin" / "python"), __file__, "--inside-ascend", name]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=environment,
                timeout=ASCEND_LIMIT_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            found[name] = f"not lowered within {ASCEND_LIMIT_S} s"
        else:
            said = [line.split("\t", 1)[1] for line in done.stdout.splitlines() if "\t" in line]
            error = (done.stderr.strip().splitlines() or ["no output"])[-1]
            found[name] = said[0] if said else f"not lowered: {error[:110]}"
        print(f"ascend {name}: {found[name]}", file=sys.stderr, flush=True)
    return found


def main() -> None:
    """Compile, lower, print the table; fails if an NVIDIA target does not compile."""
    parser = argparse.ArgumentParser()
    parser.add_argument("only", nargs="*", help="names of kernels; all by default")
    parser.add_argument("--inside-ascend", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--skip-ascend", action="store_true")
    options = parser.parse_args()
    if options.inside_ascend:
        lower_for_ascend(options.only)
        return
    columns = {f"sm_{c}": compile_all(c, options.only) for c in (90, 100)}
    if not options.skip_ascend:
        columns["ascend 950"] = ascend_all(options.only)
    names = [name for name, *_ in kernels() if not options.only or name in options.only]
    print(f"{'kernel':14s} {'on a device':12s} {'on a CPU':12s} " + " ".join(
        f"{column:24s}" for column in columns))  # fmt: skip
    for name in names:
        cells = " ".join(f"{found.get(name, 'not reached'):24s}" for found in columns.values())
        measured = "measured" if name in MEASURED else "-"
        print(f"{name:14s} {measured:12s} {'interpreted':12s} {cells}")
    if any("failed" in columns[f"sm_{c}"].get(name, "failed") for c in (90, 100) for name in names):
        sys.exit("a kernel does not compile for an NVIDIA target")


if __name__ == "__main__":
    main()
