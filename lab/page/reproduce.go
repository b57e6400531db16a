package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/study"
)

// reproduce returns the reproducibility appendix of runs, in lines of plain text that a paper can print: program, data, splits, seeds and
// settings. Everything is from the runs' folders.
func reproduce(runs study.Runs) []string {
	var lines []string
	add := func(name string, of func(*study.Run) string) {
		lines = append(lines, name+": "+strings.Join(distinct(runs, of), "; "))
	}
	add("Program", func(r *study.Run) string {
		return fmt.Sprintf("fedsim %s, revision %s", cmp.Or(r.Manifest.Version, "unknown"), cmp.Or(r.Manifest.Revision, "unknown"))
	})
	add("Machine", func(r *study.Run) string { return cmp.Or(r.Manifest.Platform, "unknown") })
	add("Data", func(r *study.Run) string {
		return fmt.Sprintf("%s, digest %s", r.Manifest.Data, cmp.Or(r.Manifest.DataDigest, "unknown"))
	})
	add("Split of seed", func(r *study.Run) string {
		return fmt.Sprintf("%d, digest %s", r.Manifest.Seed, cmp.Or(r.Manifest.SplitDigest, "unknown"))
	})
	add("Algorithms", func(r *study.Run) string { return r.Algorithm() })
	add("Budgets", func(r *study.Run) string {
		p := r.Summary.Privacy
		text := fmt.Sprintf("ε = %s, δ = %v, unit %s, relation %s", r.Config.Text(algorithm.Epsilon.Key), p.Delta, p.Unit, p.Relation)
		if p.Chosen.By != "" {
			text += fmt.Sprintf(", settings chosen by the same data (%s): statement %s", p.Chosen, p)
		}
		return text
	})
	lines = append(lines, fmt.Sprintf("Runs: %d, each with all settings in config.yaml of its folder. One version repeats a run to the bit on one processor architecture.", len(runs)))
	return append(lines, "The digests identify exact ratings, and no ε covers them.")
}

// distinct lists the values of runs, each once, in the order of the runs.
func distinct(runs study.Runs, of func(*study.Run) string) (list []string) {
	for _, r := range runs {
		if v := of(r); !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}
