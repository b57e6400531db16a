package figures

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The ends of the axes in figures.awk.
const left, right, top, low = 70, 560, 30, 310

func picture(t *testing.T, table string) string {
	t.Helper()
	cmd := exec.Command("awk", "-f", "figures.awk")
	cmd.Stdin = strings.NewReader(table)
	svg, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(svg)
}

// No point lies outside the axes, in the table of the project or another one, and the committed picture is the table's.
func TestPointsLieInsideTheAxes(t *testing.T) {
	b, err := os.ReadFile("results.csv")
	if err != nil {
		t.Fatal(err)
	}
	table := string(b)
	for name, text := range map[string]string{"results.csv": table, "another": "algorithm,1,inf\na,1.3,0.7\nb,0.95,0.68\n"} {
		svg := picture(t, text)
		points := regexp.MustCompile(`<circle cx="([0-9.-]+)" cy="([0-9.-]+)"`).FindAllStringSubmatch(svg, -1)
		if len(points) == 0 {
			t.Errorf("%s: no points", name)
		}
		for _, p := range points {
			x, _ := strconv.ParseFloat(p[1], 64)
			y, _ := strconv.ParseFloat(p[2], 64)
			if x < left || x > right || y < top || y > low {
				t.Errorf("%s: a point at %v, %v", name, x, y)
			}
		}
	}
	kept, err := os.ReadFile("../../docs/results.svg")
	if err != nil {
		t.Fatal(err)
	}
	if picture(t, table) != string(kept) {
		t.Error("docs/results.svg is of another table: awk -f tools/figures/figures.awk tools/figures/results.csv > docs/results.svg")
	}
}
