package study

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/config"
)

// runsOf gives each row of tableOf a run with the row's settings and numbers.
func runsOf(t *testing.T, lines ...string) *Table {
	t.Helper()
	table := tableOf(lines...)
	for i := range table.Rows {
		r := &table.Rows[i]
		c, err := config.Config{}.WithMap(r.Settings)
		if err != nil {
			t.Fatal(err)
		}
		r.runs[0].Config = c
	}
	return table
}

// R prints the adjusted values for p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
func TestHolm(t *testing.T) {
	want := []float64{0.03, 0.06, 0.06, 0.02}
	for i, got := range holm([]float64{0.01, 0.04, 0.03, 0.005}) {
		near(t, "adjusted", got, want[i], 1e-15)
	}
	if got := holm([]float64{0.9, 0.8}); got[0] != 1 || got[1] != 1 {
		t.Errorf("above 1: %v", got)
	}
}

// At ε = 1 the differences of dp-cmf from lfl-sgdmf are 0.010, 0.011 and 0.012: t =
// 0.011/(0.001/√3) = 19, p = 0.0027. The differences of ssp-c are 0.001, -0.001 and 0.003: mean
// 0.001, deviation 0.002, t = 0.87, p = 0.48. At ε = 5 a row is alone.
func TestPaperMarks(t *testing.T) {
	p := runsOf(t,
		"lfl-sgdmf 1 1 .900", "lfl-sgdmf 1 2 .910", "lfl-sgdmf 1 3 .920",
		"dp-cmf 1 1 .910", "dp-cmf 1 2 .921", "dp-cmf 1 3 .932",
		"ssp-c 1 1 .901", "ssp-c 1 2 .909", "ssp-c 1 3 .923",
		"lfl-sgdmf 5 1 .880", "lfl-sgdmf 5 2 .881", "lfl-sgdmf 5 3 .882",
	).Means(seeds).Paper([]string{"test_rmse"})
	want := map[string]Cell{
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
	table := runsOf(t,
		"lfl-sgdmf 1 1 .900", "lfl-sgdmf 1 2 .910", "ssp-c 1 1 .800", "ssp-c 1 2 .810",
		"dp-cmf 1 1 .500", "dp-cmf 1 2 .510", "am-ssp 1 1 .400", "am-ssp 1 2 .410",
	).Means(seeds)
	for i := range table.Rows {
		table.Rows[i].Settings["data"] = map[string]string{"lfl-sgdmf": "large", "ssp-c": "large"}[table.Rows[i].Settings["algorithm"]]
	}
	for _, r := range table.Paper([]string{"test_rmse"}).Rows {
		for _, c := range r {
			if best := c.Text == "0.8050" || c.Text == "0.4050"; c.Best != best {
				t.Errorf("%s: best %v, want %v", c.Text, c.Best, best)
			}
		}
	}
}

func TestPaperPrints(t *testing.T) {
	p := runsOf(t, "lfl-sgdmf 1 1 .9", "lfl-sgdmf 1 2 .8", "dp-cmf 1 1 .95", "dp-cmf 1 2 .97").Means(seeds).Paper([]string{"test_rmse"})
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
	if got, want := forLaTeX.Replace(`a_b & 5% {x} \ ε`), `a\_b \& 5\% \{x\} \textbackslash{} $\varepsilon$`; got != want {
		t.Errorf("escaped %q, want %q", got, want)
	}
}

func TestMetricNames(t *testing.T) {
	table := &Table{Metrics: []string{"test_rmse", "ranking.ndcg@10", "ranking.recall@20", "test_slices.0.rmse", "baselines.user_mean", "privacy.delta", "seconds.train", "a.users", "b.users"}}
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
