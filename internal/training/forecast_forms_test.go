package training_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families" // registers the built-in algorithms
	"github.com/fedsim/fedsim/internal/forecast"
	"github.com/fedsim/fedsim/internal/opened"
)

// forms opens an experiment and makes its forecast.
func forms(t *testing.T, settings string) (*experiment.Experiment, *forecast.Forecast) {
	t.Helper()
	e := opened.Experiment(t, "data=synthetic:small-100 "+settings)
	f, err := forecast.New(e)
	if err != nil {
		t.Fatal(err)
	}
	return e, f
}

// The plan shows both forms of the second-order statistics before a run: m·d(d+1)/2 coordinates
// against d(d+1)/2, in rings of whole bits. A client that must send more than 8 MB reads of the
// other form.
func TestGramianForms(t *testing.T) {
	_, f := forms(t, "algorithm=ssp-c encoder.optimiser=adam epsilon=inf rank=5") // which accepts both forms with the same settings
	if len(f.Forms) != 2 || f.Forms[0].Gramian != "per-item" || f.Forms[0].Chosen || f.Forms[1].Gramian != "one" || !f.Forms[1].Chosen {
		t.Fatalf("forms %+v", f.Forms)
	}
	if one := f.Forms[1]; one.Round != f.Bytes.Round || one.Run != f.Bytes.Run {
		t.Errorf("the form chosen takes %+v, the run %+v", one, f.Bytes)
	}
	// Rings have about the same width: the difference is in the coordinates, at the bits of one
	// form.
	moments, gramian := f.Releases[len(f.Releases)-1], f.Releases[len(f.Releases)-2]
	if moments.Name != "moments" || gramian.Name != "gramian" || gramian.Len != 15 || moments.Len != 2000 {
		t.Fatalf("releases %+v", f.Releases)
	}
	more := float64(399*15*int(gramian.Width)) / 8
	if got := float64(f.Forms[0].Round.Up - f.Forms[1].Round.Up); math.Abs(got-more) > 0.35*more {
		t.Errorf("per item %v bytes more are sent, want about %v", got, more)
	}
	// The other form equals its own forecast if it is chosen, for all other settings.
	for _, algorithm := range []string{"ssp-c encoder.optimiser=adam", "ssp-c", "ssp-c rank=3", "ssp-i", "am-ssp", "ssp-convex", "dp-cmf", "ada-dpals", "dpals", "dpals statistics.top-items=0.2"} {
		for _, epsilon := range []string{"1", "inf"} {
			settings := "algorithm=" + algorithm + " epsilon=" + epsilon
			_, one := forms(t, settings+" statistics.gramian=one")
			_, each := forms(t, settings+" statistics.gramian=per-item")
			if one.Forms[0].Round != each.Bytes.Round || one.Forms[0].Run != each.Bytes.Run || each.Forms[1].Run != one.Bytes.Run {
				t.Errorf("%s: forms %+v of one, %+v of per-item", settings, one.Forms, each.Forms)
			}
		}
	}
	// Without a form its reason names the setting.
	_, f = forms(t, "algorithm=ssp-c encoder.optimiser=exact")
	if got := f.Forms[0]; !strings.Contains(got.Refused, "encoder.optimiser: exact") || got.Run != (forecast.Traffic{}) {
		t.Errorf("a form that the exact solver has not: %+v", got)
	}
	warned := 0
	for rank := 80; rank <= 140; rank += 10 {
		e, f := forms(t, fmt.Sprintf("algorithm=ssp-c epsilon=inf statistics.gramian=per-item rank=%d", rank))
		got, err := forecast.Warnings(e)
		if much := f.Bytes.Round.Up > 8e6; err != nil || much != (len(got) == 1) {
			t.Errorf("%d bytes a round: warnings %q, %v", f.Bytes.Round.Up, got, err)
		}
		warned += len(got)
	}
	if warned == 0 || warned == 7 {
		t.Errorf("%d of 7 ranks are warned of; the limit should lie between", warned)
	}
	for settings, want := range map[string]string{
		"algorithm=ssp-c rank=180 statistics.gramian=per-item epsilon=inf": "with statistics.gramian one it would be ",
		"algorithm=ssp-c rank=180 epsilon=inf statistics.posteriors=no":    "",
		"algorithm=ssp-c statistics.gramian=per-item":                      "",
		"algorithm=private-item-bias":                                      "",
		"algorithm=vfl-sgdmf epsilon=inf":                                  "",
	} {
		got, err := forecast.Warnings(opened.Experiment(t, "data=synthetic:small-100 "+settings))
		if err != nil || (want == "") != (len(got) == 0) || want != "" && !strings.Contains(got[0], want) {
			t.Errorf("%s: warnings %q, %v; want %q", settings, got, err, want)
		}
	}
}

// The forecast of a schedule adds up its steps: a message has the bytes of the largest step, the
// run the bytes of all steps.
func TestForecastOfSchedule(t *testing.T) {
	e := opened.Experiment(t, "epsilon=2")
	e.Schedule = mixed()
	// Noise is in proportion to squared sensitivities over these shares.
	if err := e.CalibrateSplit([][]float64{{0.1}, {0.2, 0.15}, {0.1}}); err != nil {
		t.Fatal(err)
	}
	for _, r := range e.Schedule.All() {
		r.Width = 24
	}
	f, err := forecast.New(e)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range f.Releases {
		got = append(got, r.Phase+"/"+r.Name)
	}
	if want := "prepare/counts statistics/gramian statistics/moments bias/bias"; strings.Join(got, " ") != want {
		t.Errorf("releases %v, want %s", got, want)
	}
	// 3 bytes a coordinate, after a header and the round. Vectors count as one: the overhead of
	// a second vector is left out (secagg.Cost).
	one := func(coordinates int) int { return masked(3 * coordinates) }
	var up, down int64
	for _, m := range f.Bytes.Messages {
		if m.Kind == "masked-input" {
			largest, run := one(86), int64(one(40)+2*one(86)+2*one(40))
			if m.Bytes != largest || m.Run != run || m.Times != 5 {
				t.Errorf("masked input %+v, want %d bytes, 5 times, %d in all", m, largest, run)
			}
		}
		if m.Direction == forecast.Up {
			up += m.Run
		} else {
			down += m.Run
		}
	}
	if run := (forecast.Traffic{Up: up, Down: down}); f.Bytes.Run != run {
		t.Errorf("the run takes %+v, messages %+v", f.Bytes.Run, run)
	}
	if s := f.Bytes.Steps; len(s) != 3 || s[1].Phase != "statistics" || s[1].Rounds != 2 || f.Bytes.Round != s[1].Traffic {
		t.Errorf("steps %+v, the dearest %+v", s, f.Bytes.Round)
	}
	if m := f.Memory; m.Accumulators != 8*86 || m.Sums != 8*86 {
		t.Errorf("memory %+v, want that of 86 coordinates", m)
	}
	var text strings.Builder
	if err := f.Print(&text); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"release: moments, in 2 rounds of phase statistics\n", "release: counts, in 1 round of phase prepare\n", "each of 2 rounds of phase bias\n"} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("no %q in\n%s", line, text.String())
		}
	}
}

// masked returns the size of a masked input of so many bytes, for a round below 128: a header,
// the round, and the bytes after their tag and length.
func masked(bytes int) int {
	const header, round, tag = 5, 2, 1
	length := 1
	for v := bytes; v >= 128; v /= 128 {
		length++
	}
	return header + round + tag + length + bytes
}

// An algorithm that trains on a fifth of 400 items sends and gets vectors of 80 after the round of
// counts. By hand, of rank 4: a packed matrix has 10 numbers. A model has 33 bytes before its
// items, and then a bit for each item of the catalogue, and of the chosen 4 bytes for a count and
// 16 for a row.
func TestForecastOfTopItems(t *testing.T) {
	e, f := forms(t, "algorithm=ada-dpals statistics.top-items=0.2")
	want := map[string]int{"counts": 400, "mean": 2, "weight-counts": 80, "gramians": 800, "moments": 320}
	for _, r := range f.Releases {
		if r.Len != want[r.Name] {
			t.Errorf("release %q has %d coordinates, want %d", r.Name, r.Len, want[r.Name])
		}
	}
	for i, step := range e.Schedule {
		model := 33
		if i > 0 {
			model += 400/8 + 80*4
		}
		if step.Phase == "statistics" {
			model += 80 * 16
		}
		if step.Model != model {
			t.Errorf("step %d has a model of %d bytes, want %d", i+1, step.Model, model)
		}
	}
}
