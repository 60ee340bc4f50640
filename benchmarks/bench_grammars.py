"""Masks, compile times and correctness of constraints, beside the other libraries, in one run.

Every library runs in a process of its own, on the same public cases, with a limit per case. Times
are CPU time of the thread unless `--wall` asks for the clock. `--out` appends one JSON record.

    python benchmarks/bench_grammars.py --limit 60 --library deepinfer
    python benchmarks/bench_grammars.py --out benchmarks/records.jsonl
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import os
import platform
import selectors
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

from grammar_libraries import LIBRARIES, VOCABULARIES

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests/grammars/data"
FILES = ("maskbench", "regex", "grammar", "field")
START_LIMIT_S = 300


def cases_of(name, limit):
    """The cases of one file as {id, kind, constraint, texts}, spread evenly if there is a limit."""
    if name == "maskbench":
        with gzip.open(DATA / "maskbench_public.jsonl.gz", "rt", encoding="utf-8") as lines:
            found = [
                {
                    "id": case["id"],
                    "kind": "json_schema",
                    "constraint": case["schema"],
                    "texts": [
                        [json.dumps(test["data"], ensure_ascii=False), test["valid"]]
                        for test in case["tests"]
                    ],
                }
                for case in map(json.loads, lines)
            ]
    else:
        with (DATA / f"{name}_cases.jsonl").open(encoding="utf-8") as lines:
            found = [
                {
                    "id": case["id"],
                    "kind": case["kind"],
                    "constraint": case["constraint"],
                    "max_whitespace": case.get("options", {}).get("max_whitespace", 16),
                    "texts": [[text, True] for text in case["accepts"]]
                    + [[text, False] for text in case["rejects"]],
                }
                for case in map(json.loads, lines)
                if case["expect"] == "works"
            ]
    step = max(1, len(found) // limit) if limit else 1
    return found[::step][: limit or None]


class Worker:
    """A library in its own process."""

    def __init__(self, library, vocabulary, wall):
        self.command = [
            sys.executable, str(Path(__file__).with_name("grammar_libraries.py")),
            library, vocabulary, "wall" if wall else "cpu",
        ]  # fmt: skip
        self.process = None

    def ask(self, case, limit_s):
        """The answer to a case; an outcome "timeout" or "died" if none came."""
        if self.process is None:
            self._start()
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        answer = self._line(limit_s)
        if isinstance(answer, str):
            return json.loads(answer)
        self.stop()
        return {"id": case["id"], "outcome": "timeout" if answer is None else "died"}

    def _start(self):
        paths = [ROOT, ROOT / "engine", ROOT / "kernels", ROOT / "grammars"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment,
        )  # fmt: skip
        answer = self._line(START_LIMIT_S)
        if not isinstance(answer, str):
            self.stop()
            raise SystemExit(f"{self.command[2]} did not start")
        self.base_kib = json.loads(answer)["rss_kib"]

    def _line(self, limit_s):
        """One line; None after the limit, False if the process ended."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            ends = time.monotonic() + limit_s
            while selector.select(max(0.0, ends - time.monotonic())):
                # A worker writes whole lines only, so one is complete as soon as it begins.
                return self.process.stdout.readline() or False
        return None

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def percentiles(values, unit, places=1):
    """p50, p90, p99, p99.9 and the largest, by the nearest rank."""
    ordered = sorted(values)
    if not ordered:
        return {}
    ranks = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
    found = {
        name: round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] / unit, places)
        for name, share in ranks.items()
    }
    return {**found, "max": round(ordered[-1] / unit, places), "count": len(ordered)}


def summary(answers, growth_kib):
    """Counts and percentiles over the answers to one file of cases."""
    outcomes = {}
    for answer in answers:
        outcomes[answer["outcome"]] = outcomes.get(answer["outcome"], 0) + 1
    done = [answer for answer in answers if "first_ns" in answer]
    joined = {
        key: [value for answer in done for value in answer[key]]
        for key in ("cold_ns", "warm_ns", "advance_ns")
    }
    return {
        "outcomes": outcomes,
        "compile_ms": percentiles([a["compile_ns"] for a in done], 1e6, 2),
        "first_mask_ms": percentiles([a["first_ns"] for a in done], 1e6, 2),
        "cold_mask_us": percentiles(joined["cold_ns"], 1e3),
        "warm_mask_us": percentiles(joined["warm_ns"], 1e3),
        "advance_us": percentiles(joined["advance_ns"], 1e3),
        "rss_growth_mib": round(growth_kib / 1024, 1),
    }


def show(library, name, found, answers, worst):
    print(f"\n{library}, {name}: {found['outcomes']}, +{found['rss_growth_mib']} MiB")
    for key, numbers in found.items():
        if isinstance(numbers, dict) and "p50" in numbers:
            print(f"  {key:14}", "  ".join(f"{k} {v}" for k, v in numbers.items()))
    done = [answer for answer in answers if "first_ns" in answer]
    for key in ("first_ns", "cold_ns"):

        def size(answer, key=key):
            value = answer[key]
            return max(value, default=0) if isinstance(value, list) else value

        for answer in sorted(done, key=size, reverse=True)[:worst]:
            print(f"    {key:9} {size(answer) / 1e6:9.2f} ms  {answer['id']}")
    for answer in answers:
        if worst and answer["outcome"] not in ("right", "refused"):
            print(f"    {answer['outcome']}: {answer['id']} {answer.get('wrong', '')}")


def version(name):
    try:
        return metadata.version({"deepinfer": "deepinfer-sdk"}.get(name, name))
    except metadata.PackageNotFoundError:
        return "source tree" if name == "deepinfer" else "absent"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--library", choices=LIBRARIES, action="append", dest="chosen", help="default: all"
    )
    parser.add_argument("--vocabulary", choices=VOCABULARIES, default="deepseek")
    parser.add_argument("--file", choices=FILES, action="append", help="default: all")
    parser.add_argument("--limit", type=int, default=0, help="cases per file; 0 for all")
    parser.add_argument("--seconds", type=float, default=20.0, help="limit per case")
    parser.add_argument("--wall", action="store_true", help="wall clock instead of CPU time")
    parser.add_argument("--worst", type=int, default=0, help="name the slowest cases")
    parser.add_argument("--out", type=Path, help="append the record to this JSON-lines file")
    arguments = parser.parse_args()

    libraries = arguments.chosen or [name for name in LIBRARIES if version(name) != "absent"]
    results = {}
    for library in libraries:
        worker = Worker(library, arguments.vocabulary, arguments.wall)
        results[library] = {}
        for name in arguments.file or FILES:
            answers = []
            growth = last = 0
            for case in cases_of(name, arguments.limit):
                answer = worker.ask(case, arguments.seconds)
                answers.append(answer)
                if "rss_kib" in answer:
                    growth += answer["rss_kib"] - (last or worker.base_kib)
                    last = answer["rss_kib"]
                elif worker.process is None:  # a new one begins anew
                    last = 0
            results[library][name] = summary(answers, growth)
            show(library, name, results[library][name], answers, arguments.worst)
        worker.stop()

    record = {
        "subject": "constraints",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "vocabulary": arguments.vocabulary,
        "clock": "wall" if arguments.wall else "thread CPU time",
        "limit": arguments.limit,
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": {name: version(name) for name in [*libraries, "numpy", "numba"]},
        "results": results,
    }
    if arguments.out:
        with arguments.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
