"""numpy, pandas and matplotlib: a regression, and plot.png in the current folder.

    nsbox code --artifacts out examples/plot.py
"""

import io

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

TEMPERATURES = """\
month,station_a,station_b
1,-1.5,3.2
2,0.2,4.1
3,4.8,6.9
4,9.3,10.2
5,14.1,13.8
6,17.6,16.5
7,19.8,18.9
8,19.1,18.7
9,14.9,15.8
10,9.2,11.9
11,3.6,7.3
12,0.1,4.4
"""


def main():
    table = pd.read_csv(io.StringIO(TEMPERATURES), index_col="month")
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
