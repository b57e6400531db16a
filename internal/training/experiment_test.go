package training_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families"
	"github.com/fedsim/fedsim/internal/opened"
	_ "github.com/fedsim/fedsim/lab" // all algorithms that there are
	"github.com/fedsim/fedsim/protocol"
	"github.com/google/go-cmp/cmp"
)

// TestOpenChooses checks the choices of Open for auto.
func TestOpenChooses(t *testing.T) {
	e := opened.Experiment(t, "")
	c := e.Config
	for _, tt := range []struct {
		what      string
		got, want float64
	}{
		{"epsilon", algorithm.Epsilon.Value(c), 10},
		{"delta, 600 users", algorithm.Delta.Value(c), 1e-5},
		{"rank", algorithm.Rank.Value(c), 1},
		{"bottom of the scale", algorithm.RatingMin.Value(c), 0.5},
		{"top of the scale", algorithm.RatingMax.Value(c), 5},
		{"clients", float64(e.Cohort.Clients), 600},
		{"clients that must remain, 0.7 of them", float64(e.Cohort.Required()), 420},
		{"clients that may collude, a twentieth", float64(e.Cohort.Colluding()), 30},
		{"budget", e.Privacy.Budget.Epsilon, 10},
	} {
		if math.Abs(tt.got-tt.want) > 1e-12*tt.want {
			t.Errorf("%s is %v, want %v", tt.what, tt.got, tt.want)
		}
	}
	if !algorithm.Noise.Is(c, "split") || e.Schedule.First().Noise.Kind != protocol.Split {
		t.Errorf("noise is %s, %v, want split", algorithm.Noise.Of(c), e.Schedule.First().Noise.Kind)
	}
	if !(opened.Number(c, "model.learning-rate") > 0) {
		t.Errorf("learning rate %v", c.Text(config.Find("model.learning-rate")))
	}
	if e := opened.Experiment(t, "algorithm=sgd-mf"); algorithm.Rank.Of(e.Config) != config.Fixed(20) || !algorithm.Noise.Is(e.Config, "none") {
		t.Errorf("sgd-mf has rank %v and noise %s, want 20 and none", algorithm.Rank.Of(e.Config), algorithm.Noise.Of(e.Config))
	}
	if e := opened.Experiment(t, "epsilon=inf"); !algorithm.Noise.Is(e.Config, "none") || e.Schedule.First().Noise.Kind != protocol.NoNoise || e.Privacy.Run != nil {
		t.Errorf("without privacy noise is %s, %v, and %v are planned", algorithm.Noise.Of(e.Config), e.Schedule.First().Noise.Kind, e.Privacy.Run)
	}
}

func TestOpenRefusesSettings(t *testing.T) {
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
		{"data=synthetic:small epsilon=1e-9 accountant=rdp", "the smallest that can be shown"},
		{"data=synthetic:small split.validation=0.95", "leave nothing to train on"},
		{"data=synthetic:small network.stage-timeout-s=1", "give more time or bandwidth"},
		{"data=synthetic:small rating-min=3 rating-max=1", "3 to 1"},
		{"data=" + one, "of 1 clients"},
	} {
		c, err := config.Resolve(opened.Settings(tt.settings))
		if err == nil {
			_, err = experiment.Open(t.Context(), c, nil)
		}
		var config *config.Error
		if err == nil || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: error %v, want %q in it", tt.settings, err, tt.reason)
		} else if !errors.As(err, &config) {
			t.Errorf("%s: %v is no config.Error, so the command would end with 1 instead of 2", tt.settings, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, err := config.Resolve(opened.Settings("data=" + one))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := experiment.Open(ctx, c, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

// The baseline without noise does not depend on whether the learning rate of
// the private run was chosen or is written down in its configuration.
func TestNonPrivateIsThatOfTheResolvedConfig(t *testing.T) {
	first := opened.Experiment(t, "epsilon=2")
	again, err := experiment.Open(t.Context(), reread(t, first.Config), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, z := opened.Vary(t, first, "non_private"), opened.Vary(t, again, "non_private")
	for _, k := range config.Keys() {
		if k.Section() == "model" && a.Config.Text(k) != z.Config.Text(k) {
			t.Errorf("%s without noise is %s, of the run repeated from its own file %s", k.Name, a.Config.Text(k), z.Config.Text(k))
		}
	}
	if a.Schedule.First().Noise.Kind != protocol.NoNoise || a.Private() || a.Split.Digest != first.Split.Digest {
		t.Errorf("it has noise %v and split %s", a.Schedule.First().Noise.Kind, a.Split.Digest)
	}
}

// reread is a configuration after it was written and read.
func reread(t *testing.T, c config.Config) config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, c.YAML(), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := config.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	read, err := config.Resolve(list)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// An answer to unmask that holds a masked vector takes longer than the masked input
// did: the timeout must leave room for it.
func TestTimeoutLeavesRoomToReplaceNoise(t *testing.T) {
	// 8 µs a byte up; what comes down takes no time, nor does anything else.
	const settings = "secagg=real noise=replace rank=20 network.up-mbps=1 network.down-mbps=1e9 network.latency-ms=0 network.compute-ms=0"
	e := opened.Experiment(t, settings)
	input, unmask := float64(e.Sums[0].Bytes[protocol.KindMaskedInput]), float64(e.Sums[0].Bytes[protocol.KindUnmask])
	if unmask <= input {
		t.Fatalf("a masked input of %v bytes and an answer of %v", input, unmask)
	}
	for _, tt := range []struct {
		bytes float64
		room  bool
	}{{(input + unmask) / 2, false}, {unmask + 1, true}} {
		_, err := opened.Try(t, fmt.Sprintf("%s network.stage-timeout-s=%v", settings, 8e-6*tt.bytes))
		if (err == nil) != tt.room {
			t.Errorf("time for %v bytes, the answer has %v: %v", tt.bytes, unmask, err)
		}
	}
}

// TestVariantsLoseTheSameClients checks that a variant that is only measured loses the same clients. A client that would
// drop out at a stage that the variant does not have is lost at unmask. The dropout is drawn from as many stages,
// and the masked input has arrived all the same.
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
		e := opened.Experiment(t, c.settings)
		n := opened.Vary(t, e, "non_private")
		if d := cmp.Diff(c.nonPrivate, n.DropoutStages); d != "" {
			t.Errorf("%s: without noise clients drop out at (-want +got):\n%s", c.settings, d)
		}
		for _, b := range e.Baselines() {
			if b.Name != "local_only" || b.Vary == nil {
				continue
			}
			if l, err := e.Vary(b); err != nil || !cmp.Equal(c.nonPrivate, l.DropoutStages) {
				t.Errorf("%s: alone they drop out at other stages, %v", c.settings, err)
			}
		}
		if d := cmp.Diff(c.stages, e.DropoutStages); d != "" {
			t.Errorf("%s: clients drop out at (-want +got):\n%s", c.settings, d)
		}
	}
}

// Quality against sums over the columns of the test part, in one loop; outside
// the scale a prediction counts as its end.
func TestMeasure(t *testing.T) {
	e := opened.Experiment(t, "")
	for _, predicted := range []float64{3, 0.5, 5, 17, -4} {
		within := min(max(predicted, 0.5), 5)
		var squared, absolute float64
		for _, v := range e.Split.Test.Value {
			d := float64(v) - within
			squared += d * d
			absolute += math.Abs(d)
		}
		n := float64(len(e.Split.Test.Value))
		got := e.Test.Measure(constant(predicted), protocol.Workers(1))
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
	e := opened.Experiment(t, "rounds=1")
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
	rmse := map[string]float64{}
	for _, b := range e.Baselines() {
		if b.Predict == nil {
			continue
		}
		p, err := b.Predict(protocol.Workers(1))
		if err != nil {
			t.Fatal(err)
		}
		rmse[b.Name] = e.Test.Measure(p, protocol.Workers(1)).RMSE
	}
	if want := math.Sqrt(global / n); math.Abs(rmse["global_mean"]-want) > 1e-9 {
		t.Errorf("global_mean %v, want %v", rmse["global_mean"], want)
	}
	if want := math.Sqrt(user / n); math.Abs(rmse["user_mean"]-want) > 1e-9 {
		t.Errorf("user_mean %v, want %v", rmse["user_mean"], want)
	}
	if !(rmse["item_bias"] < rmse["user_mean"] && rmse["user_mean"] < rmse["global_mean"]) {
		t.Errorf("%v: the richer should be the better on this set", rmse)
	}
}

// TestChosenFile checks that a file of the choices opens the same experiment.
func TestChosenFile(t *testing.T) {
	e := opened.Experiment(t, "")
	if diff := cmp.Diff(e.Config.YAML(), reread(t, e.Config).YAML()); diff != "" || !reread(t, e.Config).Equal(e.Config) {
		t.Errorf("the file says (-want +got):\n%s", diff)
	}
}
