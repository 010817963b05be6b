"""Statistics over a CSV file, with the standard library only.

    nsbox code --ro examples/data examples/csv_stats.py
"""

import csv
import pathlib
import statistics
import sys
from collections import defaultdict

DATA = pathlib.Path(__file__).resolve().parent / "data" / "sales.csv"


def read(path):
    with open(path, newline="", encoding="utf-8") as f:
        for row in csv.DictReader(f):
            if row["units"]:
                yield row["region"], row["product"], int(row["units"]), float(row["price"])


def main():
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    revenue, units = defaultdict(float), defaultdict(list)
    for region, product, count, price in read(path):
        revenue[region] += count * price
        units[product].append(count)

    print(f"{'region':<10}{'revenue':>12}")
    for region in sorted(revenue, key=revenue.get, reverse=True):
        print(f"{region:<10}{revenue[region]:>12.2f}")
    print(f"{'total':<10}{sum(revenue.values()):>12.2f}\n")

    print(f"{'product':<10}{'orders':>8}{'mean':>8}{'median':>8}{'stdev':>8}")
    for product, counts in sorted(units.items()):
        spread = statistics.stdev(counts) if len(counts) > 1 else 0.0
        print(f"{product:<10}{len(counts):>8}{statistics.mean(counts):>8.2f}"
              f"{statistics.median(counts):>8.1f}{spread:>8.2f}")


if __name__ == "__main__":
    main()
