#!/usr/bin/awk -f
# Draws docs/results.svg from results.csv: test RMSE against epsilon, a line for each algorithm.
#
#	awk -f tools/figures/figures.awk tools/figures/results.csv > docs/results.svg

function floor(v) { return int(v) - (v < int(v)) }
function x(i) { return left + 30 + i * (right - left - 50) / 3 }
function y(v) { return low - (v - best) / (worst - best) * (low - top) }

BEGIN {
	FS = ","
	width = 720; height = 360
	left = 70; right = 560; top = 30; low = 310 # of the plot
	step = 0.02 # stars between two lines of the grid
	# Colours that are told apart whatever one's colour vision (Okabe and Ito), dashes, and places of names: the last two
	# lines lie close together.
	split("#000000 #D55E00 #0072B2", colour, " ")
	split("2 4;8 4;", dash, ";")
	split("5 -4 14", place, " ")
	best = 1e9; worst = -1e9
}

{
	n = NF
	for (i = 1; i <= NF; i++) cell[NR, i] = $i
	for (i = 2; NR > 1 && i <= NF; i++) {
		if ($i + 0 < best) best = $i + 0
		if ($i + 0 > worst) worst = $i + 0
	}
}

END {
	best = step * floor(best / step)
	worst = step * -floor(-worst / step)
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"14\" role=\"img\">\n", width, height
	printf "<title>Test RMSE against epsilon</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", width, height
	for (v = best; v < worst + step / 2; v += step)
		printf "<path d=\"M%d %.1fH%d\" stroke=\"#dddddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.2f</text>\n", left, y(v), right, left - 8, y(v) + 5, v
	for (i = 2; i <= n; i++)
		printf "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x(i - 2), low + 22, cell[1, i] == "inf" ? "no noise" : cell[1, i]
	printf "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">epsilon, per user</text>\n", (left + right) / 2, low + 44
	printf "<text x=\"16\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90 16 %d)\">test RMSE, in stars</text>\n", (top + low) / 2, (top + low) / 2
	for (k = 2; k <= NR; k++) {
		path = ""
		for (i = 2; i <= n; i++) {
			v = cell[k, i] + 0
			path = path sprintf("%s%.1f %.1f", i == 2 ? "M" : "L", x(i - 2), y(v))
			printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", x(i - 2), y(v), colour[k - 1]
		}
		printf "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\"/>\n", path, colour[k - 1], dash[k - 1]
		printf "<text x=\"%d\" y=\"%.1f\" fill=\"%s\">%s</text>\n", right + 10, y(v) + place[k - 1], colour[k - 1], cell[k, 1]
	}
	print "</svg>"
}
