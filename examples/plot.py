"""numpy, pandas and matplotlib: a regression, and plot.png in the current folder.

    nsbox code --artifacts out --ro examples/data examples/plot.py
"""

import pathlib

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

DATA = pathlib.Path(__file__).resolve().parent / "data" / "temperatures.csv"


def main():
    table = pd.read_csv(DATA, index_col="month")
    table["difference"] = table["station_a"] - table["station_b"]
    print(table.describe().round(3).to_string())

    slope, offset = np.polyfit(table["station_a"], table["station_b"], 1)
    correlation = np.corrcoef(table["station_a"], table["station_b"])[0, 1]
    print(f"\nb = {slope:.3f} * a + {offset:.3f}, correlation {correlation:.4f}")

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
    table[["station_a", "station_b"]].plot(ax=left, marker="o", title="Temperature")
    left.set_ylabel("degrees C")
    right.scatter(table["station_a"], table["station_b"])
    line = np.array([table["station_a"].min(), table["station_a"].max()])
    right.plot(line, slope * line + offset, "--")
    right.set(title="Station b against a", xlabel="a", ylabel="b")
    figure.tight_layout()
    figure.savefig("plot.png")
    print("wrote plot.png")


if __name__ == "__main__":
    main()
