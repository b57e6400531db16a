package study

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/internal/typo"
)

// Metric returns the full name of one of the table's numbers. A name is whole, such as test_rmse,
// or its last part, such as rmse or ndcg@10. Case does not count. The error of an unknown name
// holds the most similar names.
func (t *Table) Metric(name string) (string, error) {
	typed := strings.ToLower(strings.TrimSpace(name))
	var ends []string
	for _, m := range t.Metrics {
		if strings.ToLower(m) == typed {
			return m, nil
		}
		if lastPart(m) == typed {
			ends = append(ends, m)
		}
	}
	// The test's numbers come first: baselines and slices have errors of the same name.
	for _, from := range []string{"test_", "ranking."} {
		if m := from + typed; slices.Contains(ends, m) {
			return m, nil
		}
	}
	switch len(ends) {
	case 1:
		return ends[0], nil
	case 0:
		nearest := typo.Nearest(typed, slices.DeleteFunc(slices.Clone(t.Metrics), describes), lastPart)
		return "", fmt.Errorf("no run has a metric %q; the most similar are %s; --format json prints all", name, strings.Join(nearest[:min(3, len(nearest))], ", "))
	}
	return "", fmt.Errorf("several metrics end in %q: %s; give one of them", name, strings.Join(ends, ", "))
}

// Choose returns the table with only these numbers, in this order. names are separated by commas
// and are as in [Table.Metric].
func (t *Table) Choose(names string) (*Table, error) {
	chosen := *t
	chosen.Metrics = nil
	for name := range strings.SplitSeq(names, ",") {
		m, err := t.Metric(name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(chosen.Metrics, m) {
			chosen.Metrics = append(chosen.Metrics, m)
		}
	}
	return &chosen, nil
}

// lastPart returns a metric's name without its levels and without "test_", in lower case.
func lastPart(name string) string {
	return strings.ToLower(strings.TrimPrefix(name[strings.LastIndexByte(name, '.')+1:], "test_"))
}

// betterIf says which numbers of a metric are the better ones.
type betterIf int

const (
	neither betterIf = iota // the metric describes, and does not judge
	lower
	higher
)

// describes reports whether a number is of something else than the run's whole test.
func describes(metric string) bool {
	return slices.ContainsFunc([]string{"baselines.", "test_slices.", "popularity.", "users."}, func(of string) bool { return strings.HasPrefix(metric, of) })
}

// betterOf returns how numbers of a metric compare.
func betterOf(metric string) betterIf {
	if describes(metric) {
		return neither
	}
	base, _, _ := strings.Cut(lastPart(metric), "@")
	switch base {
	case "rmse", "mse", "mae", "rmse_with_drift":
		return lower
	case "sampled_hit", "sampled_ndcg", "corrected_hit", "corrected_ndcg", "recall", "full_recall", "precision", "ndcg", "map", "mrr", "hit":
		return higher
	}
	return neither
}

// labels holds what a paper calls keys and metrics, by the last part of their names.
var labels = map[string]string{
	"algorithm": "Algorithm", "data": "Data", "seed": "Seed", "runs": "Runs", "unit": "Unit", "delta": "δ",
	"epsilon": "ε", "epsilon_achieved": "ε reached", "rmse": "RMSE", "rmse_with_drift": "RMSE with drift", "mse": "MSE", "mae": "MAE",
	"recall": "Recall", "full_recall": "Recall (of all)", "precision": "Precision", "ndcg": "NDCG", "map": "MAP", "mrr": "MRR", "hit": "HR",
	"sampled_hit": "HR (sampled)", "sampled_ndcg": "NDCG (sampled)", "corrected_hit": "HR (corrected)", "corrected_ndcg": "NDCG (corrected)",
}

// labelOf returns what a paper calls a key or a metric: NDCG@10 for ranking.ndcg@10.
func labelOf(name string) string {
	base, cutoff, at := strings.Cut(lastPart(name), "@")
	label, ok := labels[base]
	if !ok {
		return name
	}
	if describes(name) {
		return name
	}
	if at {
		label += "@" + cutoff
	}
	return label
}
