"""A cell of a kernel that stays, there and back: a part of run."""

import statistics


def specifications(lib, node):
    """Rows for rr: one cell x+1 a round."""
    rows = {"python": [lib, "serve-cell", "python", "x+1"], "bash": [lib, "serve-cell", "bash", "x=1"]}
    if node:
        rows["javascript"] = [lib, "serve-cell", "javascript", "x+1"]
    return {name: {"arguments": arguments, "serve": True} for name, arguments in rows.items()}


def show(times, percentile):
    """Print microseconds; Python's median in milliseconds, or None when a cell failed."""
    print("\na cell x+1 in a kernel, there and back   (interleaved; microseconds)")
    print(f"  {'':32}{'median':>9}{'p10':>9}{'p90':>9}")
    for name, all_of_it in times.items():
        values = [took for took in all_of_it if took]
        if len(values) < len(all_of_it):
            print(f"  {name:32}{len(all_of_it) - len(values)} FAILED")
        else:
            print(f"  {name:32}{statistics.median(values):9.0f}{percentile(values, .1):9.0f}{percentile(values, .9):9.0f}")
    return statistics.median(times["python"]) / 1000 if all(times["python"]) else None
