package engine

import (
	"flag"
	"os"
	"reflect"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/fedsim/fedsim"
)

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	os.Exit(m.Run())
}

// settings of small runs of the algorithms, in which clients drop out at all stages, leave and are away.
func settings(algorithm string, more ...string) map[string]string {
	s := map[string]string{"algorithm": algorithm, "data": "synthetic:small", "rounds": "4", "baselines": "quick",
		"dropout": "0.1", "leave": "0.05", "away": "0.1", "away-rounds": "1", "tolerance": "0.3"}
	for i := 0; i < len(more); i += 2 {
		s[more[i]] = more[i+1]
	}
	return s
}

func train(t *testing.T, s map[string]string, o *Options) *fedsim.Result {
	t.Helper()
	s["out"] = t.TempDir()
	e, err := fedsim.Open(t.Context(), fedsim.Options{Settings: s})
	if err != nil {
		t.Fatal(err)
	}
	how := fedsim.Keeping{}
	if o != nil {
		how.Engine = New(*o)
	}
	r, err := fedsim.Keep(t.Context(), e, nil, how)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEngineIsTheSimulator(t *testing.T) {
	for _, a := range []string{"lfl-sgdmf", "ssp-c", "dp-cmf", "vfl-sgdmf", "hfl-sgdmf"} {
		t.Run(a, func(t *testing.T) {
			want := train(t, settings(a), nil)
			got := train(t, settings(a), &Options{Runner: "prism", Shards: 3})
			if !reflect.DeepEqual(got.Model.Matrices, want.Model.Matrices) {
				t.Error("model differs")
			}
			if !reflect.DeepEqual(got.Metrics, want.Metrics) {
				t.Errorf("metrics differ\n%+v\n%+v", got.Metrics[0], want.Metrics[0])
			}
			g, w := *got.Summary, *want.Summary
			g.Seconds, w.Seconds, g.PeakMemory, w.PeakMemory = nil, nil, 0, 0
			if !reflect.DeepEqual(g, w) {
				t.Errorf("summary differs\n%+v\n%+v", g, w)
			}
		})
	}
}
