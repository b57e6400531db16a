package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/protocol"
)

// inTurn runs one call after the other.
type inTurn struct{}

func (inTurn) Each(n int, f func(i int)) {
	for i := range n {
		f(i)
	}
}

// What Open chooses for auto.
func TestOpenChooses(t *testing.T) {
	e := open(t, "")
	c := e.Config
	for _, tt := range []struct {
		what      string
		got, want float64
	}{
		{"epsilon", c.Epsilon.Value, 10},
		{"delta, 600 users", c.Delta.Value, 1e-5},
		{"rank", c.Rank.Value, 1},
		{"start mean, 0.7 of 5 stars", c.Model.StartMean.Value, 3.5},
		{"bottom of the scale", c.RatingMin.Value, 0.5},
		{"top of the scale", c.RatingMax.Value, 5},
		{"clients", float64(e.Cohort.Clients), 600},
		{"clients that must remain, 0.7 of them", float64(e.Cohort.Required()), 420},
		{"clients that may collude, a twentieth", float64(e.Cohort.Colluding()), 30},
		{"budget", e.Privacy.Budget.Epsilon, 10},
	} {
		if math.Abs(tt.got-tt.want) > 1e-12*tt.want {
			t.Errorf("%s is %v, want %v", tt.what, tt.got, tt.want)
		}
	}
	if c.Noise != "split" || e.Steps.First().Noise.Kind != protocol.Split {
		t.Errorf("noise is %s, %v, want split", c.Noise, e.Steps.First().Noise.Kind)
	}
	if !c.Model.LearningRate.Given || !(c.Model.LearningRate.Value > 0) {
		t.Errorf("learning rate %v", c.Model.LearningRate)
	}
	if e := open(t, "algorithm=sgd-mf"); e.Config.Rank != Fixed(20) || e.Config.Noise != "none" {
		t.Errorf("sgd-mf has rank %v and noise %s, want 20 and none", e.Config.Rank, e.Config.Noise)
	}
	if e := open(t, "epsilon=inf"); e.Config.Noise != "none" || e.Steps.First().Noise.Kind != protocol.NoNoise || e.Privacy.Run != nil {
		t.Errorf("without privacy noise is %s, %v, and %v are planned", e.Config.Noise, e.Steps.First().Noise.Kind, e.Privacy.Run)
	}
}

// The calibrated noise costs the budget, and a fifth less would cost more, by
// the accountant asked for directly.
func TestOpenCalibrates(t *testing.T) {
	for _, settings := range []string{"", "epsilon=1", "epsilon=3 rounds=40", "accountant=gdp-skellam", "delta=1e-7", "contribution=all-ratings"} {
		e := open(t, settings)
		d2, d1 := e.Steps.First().Bounds()
		cost := func(variance float64) float64 {
			b := e.Privacy.Budget
			r, err := dp.Problem{
				Events: []dp.Event{dp.Skellam(variance, d2, d1).Times(e.Config.rounds())},
				Delta:  b.Delta, Accountant: b.Accountant, SamplerError: b.SamplerError,
			}.Epsilon()
			if err != nil {
				t.Fatal(err)
			}
			return r.Epsilon
		}
		want := e.Config.Epsilon.Value
		if got := cost(e.Steps.First().Noise.Variance); !(got <= want && got > 0.999*want) {
			t.Errorf("%q: the noise costs %v, want %v", settings, got, want)
		}
		if got := cost(0.8 * e.Steps.First().Noise.Variance); got <= want {
			t.Errorf("%q: a fifth less variance costs %v, within %v: the noise is not the least", settings, got, want)
		}
	}
}

// gdp-skellam saves 5 to 9% of the noise.
func TestGDPSkellamSavesNoise(t *testing.T) {
	rdp, gdp := open(t, "epsilon=5"), open(t, "epsilon=5 accountant=gdp-skellam")
	if saved := 1 - math.Sqrt(gdp.Steps.First().Noise.Variance/rdp.Steps.First().Noise.Variance); saved < 0.05 || saved > 0.09 {
		t.Errorf("it saves %.3g of the deviation, want 0.05 to 0.09", saved)
	}
}

// At delta 1e-5 and tolerance 0.3 a claimed 1 is 1.34 in truth when nobody drops
// out and 1.47 when 30% do before their masked input; 10 is 13.9 and 15.5
// (of Gaussians composed exactly, as gdp-skellam composes).
func TestReplaceStatesItsTrueCost(t *testing.T) {
	for _, tt := range []struct {
		settings     string
		nobody, most float64
	}{
		{"epsilon=1 accountant=gdp-skellam", 1.34, 1.47},
		{"epsilon=10 accountant=gdp-skellam", 13.9, 15.5},
	} {
		e := open(t, "noise=replace colluders=0 "+tt.settings)
		cost := func(a Attempt) float64 {
			t.Helper()
			r, err := e.Spent(nil, slices.Repeat([]Attempt{a}, e.Config.rounds()))
			if err != nil {
				t.Fatal(err)
			}
			return r.Epsilon
		}
		claimed, worst := e.Privacy.Claimed, e.Privacy.Budget.Epsilon
		if want := e.Config.Epsilon.Value; math.Abs(claimed-want) > 1e-3*want {
			t.Errorf("%s: claimed is %v", tt.settings, claimed)
		}
		nobody := cost(Attempt{Survivors: 600, Answered: 600, Summed: true, Sent: true})
		most := cost(Attempt{Survivors: 420, Answered: 420, Summed: true, Sent: true})
		if math.Abs(nobody-tt.nobody) > 0.006*tt.nobody || math.Abs(most-tt.most) > 0.006*tt.most {
			t.Errorf("%s: it cost %v without dropouts and %v with the most, want %v and %v", tt.settings, nobody, most, tt.nobody, tt.most)
		}
		if worst < most {
			t.Errorf("%s: the clients agreed to %v, and it may cost %v", tt.settings, worst, most)
		}
		if got := cost(Attempt{Sent: true}); got != worst {
			t.Errorf("%s: attempts without a sum cost %v, want the worst, %v", tt.settings, got, worst)
		}
		if got := cost(Attempt{}); got != 0 {
			t.Errorf("%s: attempts in which nobody sent anything cost %v", tt.settings, got)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	one := filepath.Join(t.TempDir(), "one.csv")
	text := "user,item,rating\n"
	for _, item := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		text += "u," + item + ",3\n"
	}
	if err := os.WriteFile(one, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ settings, reason string }{
		{"data=synthetic:small delta=0.002", "1/600"},
		{"data=synthetic:small tolerance=0.9 colluders=0.5", "lower the tolerance or the colluders"},
		{"data=synthetic:small epsilon=1e-9", "the smallest that can be shown"},
		{"data=synthetic:small split.validation=0.95", "leave nothing to train on"},
		{"data=synthetic:small network.stage-timeout-s=1", "give more time or bandwidth"},
		{"data=synthetic:small rating-min=3 rating-max=1", "3 to 1"},
		{"data=" + one, "of 1 clients"},
	} {
		c, err := Resolve(set(tt.settings))
		if err == nil {
			_, err = Open(t.Context(), c, nil)
		}
		var config *ConfigError
		if err == nil || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: error %v, want %q in it", tt.settings, err, tt.reason)
		} else if !errors.As(err, &config) {
			t.Errorf("%s: %v is no ConfigError, so the command would end with 1 instead of 2", tt.settings, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, err := Resolve(set("data=" + one))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, c, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

// The baseline without noise does not depend on whether the learning rate of
// the private run was chosen or is written down in its configuration.
func TestNonPrivateIsThatOfTheResolvedConfig(t *testing.T) {
	first := open(t, "epsilon=2")
	b := first.Config.YAML()
	list, err := parse("config.yaml", b)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Resolve(list)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := first.NonPrivate()
	if err != nil {
		t.Fatal(err)
	}
	z, err := again.NonPrivate()
	if err != nil {
		t.Fatal(err)
	}
	if a.Config.Model != z.Config.Model {
		t.Errorf("model without noise is %+v, of the run repeated from its own file %+v", a.Config.Model, z.Config.Model)
	}
	if a.Steps.First().Noise.Kind != protocol.NoNoise || a.Config.Private() || a.Split.Digest != first.Split.Digest {
		t.Errorf("it has noise %v and split %s", a.Steps.First().Noise.Kind, a.Split.Digest)
	}
}

// An answer to unmask that holds a masked vector takes longer than the masked input
// did: the timeout must leave room for it.
func TestTimeoutLeavesRoomToReplaceNoise(t *testing.T) {
	// 8 µs a byte up; what comes down takes no time, nor does anything else.
	const settings = "secagg=real noise=replace rank=20 network.up-mbps=1 network.down-mbps=1e9 network.latency-ms=0 network.compute-ms=0"
	e := open(t, settings)
	input, unmask := float64(e.sums[0].Bytes[protocol.KindMaskedInput]), float64(e.sums[0].Bytes[protocol.KindUnmask])
	if unmask <= input {
		t.Fatalf("a masked input of %v bytes and an answer of %v", input, unmask)
	}
	for _, tt := range []struct {
		bytes float64
		room  bool
	}{{(input + unmask) / 2, false}, {unmask + 1, true}} {
		config, err := Resolve(set(fmt.Sprintf("data=synthetic:small %s network.stage-timeout-s=%v", settings, 8e-6*tt.bytes)))
		if err == nil {
			_, err = Open(t.Context(), config, nil)
		}
		if (err == nil) != tt.room {
			t.Errorf("time for %v bytes, the answer has %v: %v", tt.bytes, unmask, err)
		}
	}
}

// What is only measured loses the same clients: who would drop out at a stage that it
// does not have is lost at unmask, so that as many stages are drawn from, and the
// masked input has arrived all the same.
func TestVariantsLoseTheSameClients(t *testing.T) {
	const advertise, share, input, consistency, unmask, replace = protocol.StageAdvertise, protocol.StageShare, protocol.StageMaskedInput,
		protocol.StageConsistency, protocol.StageUnmask, protocol.StageReplace
	active := "accountant=rdp algorithm=vfl-sgdmf secagg=real mode=active "
	for _, c := range []struct {
		settings           string
		stages, nonPrivate []protocol.Stage
	}{
		{"dropout-at=share", []protocol.Stage{share}, []protocol.Stage{share}},
		{"", []protocol.Stage{advertise, share, input, unmask}, []protocol.Stage{advertise, share, input, unmask}},
		{"noise=replace", []protocol.Stage{advertise, share, input, unmask, replace}, []protocol.Stage{advertise, share, input, unmask, unmask}},
		{"noise=replace dropout-at=replace", []protocol.Stage{replace}, []protocol.Stage{unmask}},
		{active, []protocol.Stage{advertise, share, input, consistency, unmask}, []protocol.Stage{advertise, share, input, unmask, unmask}},
		{active + "dropout-at=consistency", []protocol.Stage{consistency}, []protocol.Stage{unmask}},
	} {
		e := open(t, c.settings)
		n, err := e.NonPrivate()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.nonPrivate, n.DropoutStages()); d != "" {
			t.Errorf("%s: without noise clients drop out at (-want +got):\n%s", c.settings, d)
		}
		if l, err := e.LocalOnly(); err != nil || l != nil && !cmp.Equal(c.nonPrivate, l.DropoutStages()) {
			t.Errorf("%s: alone they drop out at other stages, %v", c.settings, err)
		}
		if d := cmp.Diff(c.stages, e.DropoutStages()); d != "" {
			t.Errorf("%s: clients drop out at (-want +got):\n%s", c.settings, d)
		}
	}
}

// constant predicts one value for everything.
type constant float64

func (c constant) Predict(_ int, _ []int32, out []float64) {
	for i := range out {
		out[i] = float64(c)
	}
}

// Quality against sums over the columns of the test part, in one loop; outside
// the scale a prediction counts as its end.
func TestMeasure(t *testing.T) {
	e := open(t, "")
	for _, predicted := range []float64{3, 0.5, 5, 17, -4} {
		within := min(max(predicted, 0.5), 5)
		var squared, absolute float64
		for _, v := range e.Split.Test.Value {
			d := float64(v) - within
			squared += d * d
			absolute += math.Abs(d)
		}
		n := float64(len(e.Split.Test.Value))
		got := e.Test.Measure(constant(predicted), inTurn{})
		for _, tt := range []struct {
			what      string
			got, want float64
		}{{"MSE", got.MSE, squared / n}, {"RMSE", got.RMSE, math.Sqrt(squared / n)}, {"MAE", got.MAE, absolute / n}} {
			if math.Abs(tt.got-tt.want) > 1e-12*tt.want {
				t.Errorf("%v predicted: %s %v, want %v", predicted, tt.what, tt.got, tt.want)
			}
		}
	}
}

// The two baselines that are plain means, computed here from the split alone.
func TestBaselinesOfMeans(t *testing.T) {
	e := open(t, "rounds=1")
	sums, counts := make([]float64, e.Data.Users), make([]float64, e.Data.Users)
	var all float64
	train := e.Split.Train
	for k, v := range train.Value {
		all += float64(v)
		sums[train.User[k]] += float64(v)
		counts[train.User[k]]++
	}
	var global, user float64
	test := e.Split.Test
	for k, v := range test.Value {
		mean := all / float64(len(train.Value))
		d := float64(v) - mean
		global += d * d
		if u := test.User[k]; counts[u] > 0 {
			mean = sums[u] / counts[u]
		}
		d = float64(v) - mean
		user += d * d
	}
	n := float64(len(test.Value))
	b, err := e.Baselines(inTurn{})
	if err != nil {
		t.Fatal(err)
	}
	if want := math.Sqrt(global / n); math.Abs(b.GlobalMean-want) > 1e-9 {
		t.Errorf("global_mean %v, want %v", b.GlobalMean, want)
	}
	if want := math.Sqrt(user / n); math.Abs(b.UserMean-want) > 1e-9 {
		t.Errorf("user_mean %v, want %v", b.UserMean, want)
	}
	if !(b.ItemBias < b.UserMean && b.UserMean < b.GlobalMean) {
		t.Errorf("item_bias %v, user_mean %v, global_mean %v: the richer should be the better on this set", b.ItemBias, b.UserMean, b.GlobalMean)
	}
}

// What was chosen, as a file, is the same experiment.
func TestChosenFile(t *testing.T) {
	e := open(t, "")
	list, err := parse("chosen", e.Config.YAML())
	if err != nil {
		t.Fatal(err)
	}
	c, err := Resolve(list)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e.Config, c); diff != "" {
		t.Errorf("the file says (-want +got):\n%s", diff)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 9_999: "9999 B", 10_000: "10.0 kB", 123_456: "123.5 kB", 9_999_900: "9999.9 kB", 10_000_000: "10.0 MB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestPerClient(t *testing.T) {
	var total [protocol.Kinds]int64
	total[0], total[1] = 10, 11
	got := PerClient(total, 4) // 2.5 and 2.75, to the nearest and up
	want := map[string]int64{protocol.Kind(0).String(): 3, protocol.Kind(1).String(): 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
