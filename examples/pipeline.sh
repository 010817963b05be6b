#!/bin/bash
# A pipeline of sed, sort, uniq and awk over generated log lines.
#
#     nsbox code examples/pipeline.sh
set -euo pipefail
export LC_ALL=C

work=$(mktemp -d "$PWD/pipeline.XXXXXX")
trap 'rm -rf "$work"' EXIT

paths=(/ /login /search /about "/search?q=a b")
for i in $(seq 0 499); do
	printf '2024-05-%02d host%d "GET %s" %d %d\n' $((i % 28 + 1)) $((i * 7 % 5)) \
		"${paths[i * 3 % 5]}" $((i % 11 == 0 ? 500 : 200)) $((i * 37 % 1000))
done >"$work/access.log"

echo "requests by path:"
sed -E 's/^[^"]*"GET ([^"?]*).*/\1/' "$work/access.log" | sort | uniq -c | sort -k1,1nr -k2

echo "errors and mean time by host:"
awk '{ n[$2]++; t[$2] += $NF; if ($(NF - 1) >= 500) bad[$2]++ }
     END { for (h in n) printf "%s %d %.1f\n", h, bad[h], t[h] / n[h] }' "$work/access.log" | sort

echo "slowest:"
sort -t' ' -k1,1 "$work/access.log" | awk '{ print $NF, $2, $1 }' | sort -rn | sed -n 1,3p
wc -l <"$work/access.log" | tr -d ' '
diff <(head -n 1 "$work/access.log") <(tail -n 1 "$work/access.log") || echo "first and last differ"
