package main

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// No point lies outside the axes, in the table of the project or another one, and the committed picture is the table's.
func TestPointsLieInsideTheAxes(t *testing.T) {
	for name, text := range map[string]string{"results.csv": table, "another": "algorithm,1,inf\na,1.3,0.7\nb,0.95,0.68\n"} {
		svg, err := picture(text)
		if err != nil {
			t.Fatal(err)
		}
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
	if svg, err := picture(table); err != nil || svg != string(kept) {
		t.Errorf("docs/results.svg is of another table (%v): go run -C tools ./figures > docs/results.svg", err)
	}
}
