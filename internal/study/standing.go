package study

import (
	"cmp"
	"math"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
)

// Standing is a group of runs at one ε.
type Standing struct {
	Sample
	Name string
	// Behind reports whether the group is worse than the first by Student's test at 5%, on differences of seeds
	// that both have. Without two common seeds it is false.
	Behind bool
}

// Standing lists the groups of runs at an ε by their mean of the primary metric, the best first.
func (runs Runs) Standing(e float64) (list []Standing) {
	metric := runs[0].Primary()
	groups, label := runs.groups(algorithm.Epsilon.Key)
	members := make(map[string]Runs) // of each group, its runs at ε
	for _, g := range groups {
		var x []float64
		var at Runs
		for _, r := range g {
			if v, ok := r.Values[metric]; ok && algorithm.Epsilon.Value(r.Config) == e {
				x, at = append(x, v), append(at, r)
			}
		}
		if len(x) > 0 {
			list = append(list, Standing{Name: label(g), Sample: describe(x)})
			members[label(g)] = at
		}
	}
	slices.SortStableFunc(list, func(a, b Standing) int {
		if metric == "test_rmse" {
			return cmp.Compare(a.Mean, b.Mean)
		}
		return cmp.Compare(b.Mean, a.Mean)
	})
	for i := range list {
		p := differences(members[list[i].Name], members[list[0].Name], metric).P()
		list[i].Behind = i > 0 && !math.IsNaN(p) && p < 0.05
	}
	return list
}
