package lab_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/config"
	_ "github.com/fedsim/fedsim/internal/families" // the algorithms of the runs
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/lab/figures"
)

// runOf makes a run of settings "key=value ..." with numbers.
func runOf(t *testing.T, settings string, values map[string]float64) *study.Run {
	t.Helper()
	r := &study.Run{Name: settings, Values: values}
	r.Manifest.Data, r.Summary.Asked = "films", make(map[string]string)
	var said []config.Setting
	for f := range strings.FieldsSeq(settings) {
		key, value, _ := strings.Cut(f, "=")
		said = append(said, config.Setting{Key: key, Value: value})
		r.Summary.Asked[key] = value
	}
	var err error
	if r.Config, err = config.Resolve(said); err != nil {
		t.Fatal(err)
	}
	return r
}

// withFile gives a run a folder with a file of what a run leaves.
func withFile(t *testing.T, r *study.Run, name, text string) {
	t.Helper()
	if r.Path == "" {
		r.Path = t.TempDir()
	}
	if err := os.WriteFile(filepath.Join(r.Path, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// figureNamed returns one of the figures of runs.
func figureNamed(t *testing.T, runs study.Runs, id string) figures.Figure {
	t.Helper()
	all, err := figures.Figures(runs)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(all, func(f figures.Figure) bool { return f.ID == id })
	if at < 0 {
		t.Fatalf("%+v: want a figure of %s", all, id)
	}
	return all[at]
}

func someRuns(t *testing.T) study.Runs {
	t.Helper()
	rmse := func(v, biases float64) map[string]float64 {
		return map[string]float64{"test_rmse": v, "baselines.item_bias": biases, "bytes_up_per_client.masked-input": 2000, "bytes_down_per_client.announce": 500}
	}
	runs := study.Runs{
		runOf(t, "algorithm=ssp-c epsilon=10 seed=1", rmse(0.9, 0.8)), runOf(t, "algorithm=ssp-c epsilon=10 seed=2", rmse(1.0, 0.9)),
		runOf(t, "algorithm=ssp-c epsilon=2 seed=1", rmse(1.1, 0.8)), runOf(t, "algorithm=ssp-c epsilon=2 seed=2", rmse(1.3, 0.9)),
		runOf(t, "algorithm=lfl-sgdmf epsilon=2 seed=1", rmse(1.5, 0.8)), runOf(t, "algorithm=lfl-sgdmf epsilon=inf seed=1", rmse(0.7, 0.8)),
	}
	for _, r := range runs {
		withFile(t, r, "metrics.jsonl", "")
	}
	return runs
}

// Means and deviations are by hand; the figure leaves out runs without noise.
func TestMetricByEpsilon(t *testing.T) {
	f := figures.MetricByEpsilon(someRuns(t), "test_rmse")
	if len(f.Series) != 3 {
		t.Fatalf("%d series, want two algorithms and a baseline", len(f.Series))
	}
	lfl, ssp, biases := f.Series[0], f.Series[1], f.Series[2]
	if lfl.Name != "lfl-sgdmf" || len(lfl.X) != 1 || lfl.Y[0] != 1.5 || lfl.Low != nil {
		t.Errorf("%+v", lfl)
	}
	if ssp.Name != "ssp-c" || len(ssp.X) != 2 || ssp.X[0] != 2 || ssp.X[1] != 10 || ssp.Runs != 2 {
		t.Fatalf("%+v", ssp)
	}
	near(t, "mean at 2", ssp.Y[0], 1.2, 1e-12)
	near(t, "mean at 10", ssp.Y[1], 0.95, 1e-12)
	near(t, "band at 2", ssp.High[0]-ssp.Low[0], 2*math.Sqrt(0.02), 1e-12) // deviations 0.1 to both sides: √(0.02/1)
	if !biases.Level || biases.X[0] != 2 || biases.X[1] != 10 {
		t.Fatalf("%+v", biases)
	}
	near(t, "biases", biases.Y[0], 5.0/6, 1e-12) // four of 0.8, two of 0.9
}

// An algorithm has one colour in every figure whose lines are algorithms.
func TestColoursStay(t *testing.T) {
	runs := someRuns(t)
	quality, bytes := figureNamed(t, runs, "quality"), figureNamed(t, runs, "bytes")
	of := func(f figures.Figure) map[string]int {
		m := make(map[string]int)
		for _, s := range f.Series {
			m[s.Name] = s.Colour
		}
		return m
	}
	for _, name := range []string{"ssp-c", "lfl-sgdmf"} {
		a, b := of(quality)[name], of(bytes)[name]
		if a != b {
			t.Errorf("%s has colours %d and %d", name, a, b)
		}
	}
	if c := of(quality); c["ssp-c"] == c["lfl-sgdmf"] || c["biases, not private"] == c["ssp-c"] {
		t.Errorf("two have one colour: %v", c)
	}
}

// Seconds of stages are means over the federated rounds, then over seeds: by hand.
func TestSecondsByStage(t *testing.T) {
	var runs study.Runs
	for seed, rounds := range []string{
		`{"round":1,"seconds":9,"stages":{"share":2,"unmask":4}}` + "\n" + `{"round":2,"seconds":9,"stages":{"share":4}}`,
		`{"round":1,"seconds":9,"stages":{"share":7,"unmask":1}}`,
	} {
		r := runOf(t, "algorithm=ssp-c seed="+strconv.Itoa(seed+1), map[string]float64{"test_rmse": 1})
		withFile(t, r, "metrics.jsonl", rounds)
		runs = append(runs, r)
	}
	f := figureNamed(t, runs, "stages")
	if len(f.Series) != 1 || !slices.Equal(f.Ticks, []string{"share", "unmask"}) {
		t.Fatalf("%+v: want one line of share and unmask", f)
	}
	// share: (2+4)/2 and 7; unmask: (4+0)/2 and 1.
	if y := f.Series[0].Y; !slices.Equal(y, []float64{5, 1.5}) {
		t.Errorf("seconds %v, want 5 and 1.5", y)
	}
}

// On the wall clock a round stands at the seconds of training up to its end, on average over seeds: by hand. A run that noted
// no times is left out.
func TestQualityOverClock(t *testing.T) {
	var runs study.Runs
	for seed, timings := range []string{
		`{"round":1,"seconds":2,"measuring":7}` + "\n" + `{"round":2,"seconds":4,"measuring":7}` + "\n",
		`{"round":1,"seconds":4,"measuring":7}` + "\n" + `{"round":2,"seconds":10,"measuring":7}` + "\n",
		"",
	} {
		r := runOf(t, "algorithm=ssp-c seed="+strconv.Itoa(seed+1), map[string]float64{"test_rmse": 1})
		withFile(t, r, "metrics.jsonl", `{"round":1,"rmse":1.5}`+"\n"+`{"round":2,"rmse":1}`+"\n")
		if timings != "" {
			withFile(t, r, "timings.jsonl", timings)
		}
		runs = append(runs, r)
	}
	clock := figureNamed(t, runs, "clock")
	if len(clock.Series) != 1 {
		t.Fatalf("%+v: want one line over the wall clock", clock)
	}
	// (2+4)/2, and (2+4 + 4+10)/2
	if s := clock.Series[0]; !slices.Equal(s.X, []float64{3, 10}) || !slices.Equal(s.Y, []float64{1.5, 1}) || s.Runs != 2 {
		t.Errorf("%+v, want 1.5 at 3 seconds and 1 at 10, of two runs", s)
	}
}

// TestOneMetricInAFigure: errors and recalls have no axis in common. A figure of quality has the runs of the metric of its axis, and its
// note counts the others.
func TestOneMetricInAFigure(t *testing.T) {
	rated, ranked := runOf(t, "algorithm=ssp-c epsilon=2 seed=1", map[string]float64{"test_rmse": 0.9}), runOf(t, "algorithm=private-ease epsilon=2 seed=1", map[string]float64{"recall@20": 0.4})
	withFile(t, rated, "metrics.jsonl", `{"round":1,"rmse":0.9}`+"\n")
	withFile(t, ranked, "metrics.jsonl", `{"round":1,"recall@20":0.4,"ndcg@20":0.3}`+"\n")
	for _, f := range []*study.Run{rated, ranked} {
		withFile(t, f, "timings.jsonl", `{"round":1,"seconds":1}`+"\n")
	}
	for label, runs := range map[string]study.Runs{"test RMSE": {rated, ranked}, "Recall@20": {ranked, rated}} {
		for _, id := range []string{"quality", "learning", "clock"} {
			f := figureNamed(t, runs, id)
			want := runs[0].Values[runs[0].Primary()]
			if len(f.Series) != 1 || f.Series[0].Y[0] != want || !strings.Contains(f.Y, label) {
				t.Errorf("%s of %s: %+v, want one point at %v", id, f.Y, f.Series, want)
			}
			if !strings.Contains(f.Note, "without this metric are left out: 1 of 2") {
				t.Errorf("%s: the note is %q", id, f.Note)
			}
		}
	}
}

// Pictures are files of the format that their names say, and contain everything that is drawn.
func TestDraw(t *testing.T) {
	logarithmic := figures.Figure{ID: "logarithmic", Log: true, LogY: true, Series: []figures.Series{{Name: "a"}}}
	for x := 1e-4; x < 1; x *= 1.3 { // more places than are named
		s := &logarithmic.Series[0]
		s.X, s.Y = append(s.X, x), append(s.Y, x*x)
	}
	named := figures.Figure{ID: "named", Ticks: []string{"1", "inf"}, Series: []figures.Series{{Name: "a", X: []float64{0, 1}, Y: []float64{0.5, 0.7}}}}
	for _, f := range []figures.Figure{figures.MetricByEpsilon(someRuns(t), "test_rmse"), figureNamed(t, someRuns(t), "bytes"), logarithmic, named} {
		var b bytes.Buffer
		// A column of a paper is 8.5 cm wide: 1,004 dots at 300 an inch.
		if err := f.Draw(&b, figures.Picture{Format: "png", Width: 8.5, Low: math.NaN(), High: math.NaN()}); err != nil {
			t.Fatal(err)
		}
		if m, err := png.Decode(&b); err != nil || m.Bounds().Dx() != 1004 {
			t.Errorf("%s: %v, %v", f.ID, m.Bounds(), err)
		}
		b.Reset()
		if err := f.Draw(&b, figures.Picture{Format: "pdf", Width: 17, Low: math.NaN(), High: math.NaN()}); err != nil || !strings.HasPrefix(b.String(), "%PDF-") {
			t.Errorf("%s: no PDF: %v", f.ID, err)
		}
		b.Reset()
		if err := f.Draw(&b, figures.Picture{Format: "svg", Width: 12, Low: math.NaN(), High: math.NaN()}); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		for _, s := range f.Series {
			if !strings.Contains(text, ">"+s.Name+"</text>") {
				t.Errorf("%s: no legend of %s", f.ID, s.Name)
			}
		}
		for d := xml.NewDecoder(&b); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The baseline without noise stands at each ε with the mean of the runs there, which is by hand: rank and rounds follow ε.
func TestBaselineWithoutNoiseFollowsEpsilon(t *testing.T) {
	t.Parallel()
	of := func(v float64) map[string]float64 {
		return map[string]float64{"test_rmse": 1, "baselines.non_private": v}
	}
	f := figures.MetricByEpsilon(study.Runs{
		runOf(t, "algorithm=ssp-c epsilon=1 seed=1", of(1.5)), runOf(t, "algorithm=ssp-c epsilon=1 seed=2", of(1.7)),
		runOf(t, "algorithm=ssp-c epsilon=20 seed=1", of(1.2)),
	}, "test_rmse")
	s := f.Series[len(f.Series)-1]
	if s.Name != "ssp-c without noise" || !s.Level || !slices.Equal(s.X, []float64{1, 20}) || !slices.Equal(s.Y, []float64{1.6, 1.2}) {
		t.Errorf("%+v, want 1.6 at 1 and 1.2 at 20", s)
	}
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > within {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
