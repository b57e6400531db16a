package lab_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/study"
)

// The p-values 0.0124, 0.0166, 0.0249 and 0.0499 are just below 5% over 4, 3, 2 and 1 tests: Holm's correction tells all four rows from the
// best. One p-value just above its own bound keeps its row open, and the rows of larger p-values with it, in whatever order rows stand.
// The paired differences of two seeds are 1 - h and 1 + h. So t = 1/h, and p = 2/π·atan(h) by Student's law with one degree of freedom.
func TestHolm(t *testing.T) {
	below, above := []float64{0.0124, 0.0166, 0.0249, 0.0499}, []float64{0.0126, 0.0168, 0.0251, 0.0501}
	for raised := range 5 { // the last: none
		p := slices.Clone(below)
		if raised < 4 {
			p[raised] = above[raised]
		}
		for _, names := range [][]string{{"dpals", "ssp-c", "dp-cmf", "am-ssp"}, {"ssp-c", "am-ssp", "dpals", "dp-cmf"}} {
			lines := []string{"lfl-sgdmf 1 1 0", "lfl-sgdmf 1 2 0"}
			for i, name := range names {
				h := math.Tan(math.Pi / 2 * p[i])
				lines = append(lines, fmt.Sprintf("%s 1 1 %v", name, 1-h), fmt.Sprintf("%s 1 2 %v", name, 1+h))
			}
			list, tests := tableOf(t, lines...).Means(overSeeds).Standings()
			for _, x := range list[0].Rows {
				if i := slices.Index(names, x.Name); x.Open != (i >= raised) {
					t.Errorf("p-values %v, %d too large, order %v: that %s is open is %v", p, raised, names, x.Name, x.Open)
				}
			}
			if !strings.Contains(tests, "4 tests") {
				t.Errorf("%q, want 4 tests", tests)
			}
		}
	}
}

// At ε = 1 the differences of dp-cmf from lfl-sgdmf are 0.010, 0.011 and 0.012: t =
// 0.011/(0.001/√3) = 19, p = 0.0027. The differences of ssp-c are 0.001, -0.001 and 0.003: mean
// 0.001, deviation 0.002, t = 0.87, p = 0.48. At ε = 5 a row is alone.
func TestPaperMarks(t *testing.T) {
	p := tableOf(t,
		"lfl-sgdmf 1 1 .900", "lfl-sgdmf 1 2 .910", "lfl-sgdmf 1 3 .920",
		"dp-cmf 1 1 .910", "dp-cmf 1 2 .921", "dp-cmf 1 3 .932",
		"ssp-c 1 1 .901", "ssp-c 1 2 .909", "ssp-c 1 3 .923",
		"lfl-sgdmf 5 1 .880", "lfl-sgdmf 5 2 .881", "lfl-sgdmf 5 3 .882",
	).Means(overSeeds).Paper([]string{"test_rmse"})
	want := map[string]study.Cell{
		"lfl-sgdmf 1": {Text: "0.9100", Deviation: "0.0100", Best: true},
		"dp-cmf 1":    {Text: "0.9210", Deviation: "0.0110"},
		"ssp-c 1":     {Text: "0.9110", Deviation: "0.0111", Close: true},
		"lfl-sgdmf 5": {Text: "0.8810", Deviation: "0.0010"},
	}
	for _, r := range p.Rows {
		if name := r[0].Text + " " + r[1].Text; r[2] != want[name] {
			t.Errorf("%s: %+v, want %+v", name, r[2], want[name])
		}
	}
	if text := strings.Join(p.Notes, " "); !strings.Contains(text, "2 tests") || !strings.Contains(text, "3 or fewer seeds") {
		t.Errorf("notes: %s", text)
	}
}

// Rows of other data are no rivals: each data set has a best row of its own.
func TestPaperMarksTheBestOfEachDataSet(t *testing.T) {
	var runs study.Runs
	for line := range strings.Lines(`large lfl-sgdmf 1 .900
		large lfl-sgdmf 2 .910
		large ssp-c 1 .800
		large ssp-c 2 .810
		small dp-cmf 1 .500
		small dp-cmf 2 .510
		small am-ssp 1 .400
		small am-ssp 2 .410`) {
		f := strings.Fields(line)
		v, err := strconv.ParseFloat(f[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		r := runOf(t, "epsilon=1 algorithm="+f[1]+" seed="+f[2], map[string]float64{"test_rmse": v})
		r.Manifest.Data = f[0]
		runs = append(runs, r)
	}
	for _, r := range runs.Table().Means(overSeeds).Paper([]string{"test_rmse"}).Rows {
		for _, c := range r {
			if best := c.Text == "0.8050" || c.Text == "0.4050"; c.Best != best {
				t.Errorf("%s: best %v, want %v", c.Text, c.Best, best)
			}
		}
	}
}

func TestPaperPrints(t *testing.T) {
	p := tableOf(t, "lfl-sgdmf 1 1 .9", "lfl-sgdmf 1 2 .8", "dp-cmf 1 1 .95", "dp-cmf 1 2 .97").Means(overSeeds).Paper([]string{"test_rmse"})
	var latex, markdown bytes.Buffer
	if err := p.Print(&latex, "latex"); err != nil {
		t.Fatal(err)
	}
	if err := p.Print(&markdown, "markdown"); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`\begin{tabular}{lr}`, `Algorithm & RMSE \\`, `lfl-sgdmf & \textbf{0.8500} $\pm$ 0.0707 \\`, `dp-cmf & 0.9600 $\pm$ 0.0141$^\dagger$ \\`, `\bottomrule`} {
		if !strings.Contains(latex.String(), line+"\n") {
			t.Errorf("LaTeX lacks %q:\n%s", line, latex.String())
		}
	}
	for _, line := range []string{"| Algorithm | RMSE |", "| --- | ---: |", "| lfl-sgdmf | **0.8500** ± 0.0707 |", "| dp-cmf | 0.9600 ± 0.0141 † |"} {
		if !strings.Contains(markdown.String(), line+"\n") {
			t.Errorf("Markdown lacks %q:\n%s", line, markdown.String())
		}
	}
	latex.Reset()
	special := &study.Paper{Head: []string{"δ"}, Texts: 1, Rows: [][]study.Cell{{{Text: `a_b & 5% {x} \ ε`}}}}
	if err := special.Print(&latex, "latex"); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`$\delta$ \\`, `a\_b \& 5\% \{x\} \textbackslash{} $\varepsilon$ \\`} {
		if !strings.Contains(latex.String(), line+"\n") {
			t.Errorf("LaTeX lacks %q:\n%s", line, latex.String())
		}
	}
}

func TestMetricNames(t *testing.T) {
	table := &study.Table{Metrics: []string{"test_rmse", "ranking.ndcg@10", "ranking.recall@20", "test_slices.0.rmse", "baselines.user_mean", "privacy.delta", "seconds.train", "a.users", "b.users"}}
	for name, want := range map[string]string{"rmse": "test_rmse", "RMSE": "test_rmse", "ndcg@10": "ranking.ndcg@10", "test_slices.0.rmse": "test_slices.0.rmse", "user_mean": "baselines.user_mean"} {
		if got, err := table.Metric(name); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{"rsme": "most similar are test_rmse", "ngcd@10": "ranking.ndcg@10", "users": "several metrics"} {
		if _, err := table.Metric(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	chosen, err := table.Choose("ndcg@10, rmse,rmse")
	if err != nil || strings.Join(chosen.Metrics, " ") != "ranking.ndcg@10 test_rmse" {
		t.Errorf("chosen: %v, %v", chosen, err)
	}
}
