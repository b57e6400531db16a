package agreement

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/experiment"
	_ "github.com/fedsim/fedsim/internal/families" // the algorithms that there are
	"github.com/fedsim/fedsim/protocol"
)

// someSession is that of the deployments here.
var someSession = protocol.SessionID{0xfe, 0xd5, 15: 1}

// opened opens an experiment of deployable; of the active mode one that is small enough.
func opened(t *testing.T, settings string) *experiment.Experiment {
	t.Helper()
	if before, ok := strings.CutSuffix(settings, "data="); ok {
		settings = before + "data=" + crowd(t, 60, 20, 1)
	}
	return open(t, settings)
}

// crowd writes a file of users' ratings of all items but every seventh; which, and what
// they are, follows from seed.
func crowd(t *testing.T, users, items, seed int) string {
	t.Helper()
	var csv strings.Builder
	csv.WriteString("user,item,rating\n")
	for u := range users {
		for i := range items {
			if (u+i+seed)%7 > 0 {
				fmt.Fprintf(&csv, "someone-%d,item-%d,%d\n", u, i, 1+(u*i+seed)%5)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "crowd.csv")
	if err := os.WriteFile(file, []byte(csv.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// publish is what is public of an experiment.
func publish(t *testing.T, e *experiment.Experiment) *Public {
	t.Helper()
	p, err := Of(e, someSession)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// carried is what was published, after the way to another party.
func carried(t *testing.T, p *Public) *Public {
	t.Helper()
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	out, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// joined is the experiment as another party opens it.
func joined(t *testing.T, p *Public) *experiment.Experiment {
	t.Helper()
	e, err := Open(carried(t, p))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// open opens the small synthetic set with what else is set.
func open(t *testing.T, settings string) *experiment.Experiment {
	t.Helper()
	c, err := config.Resolve(set("data=synthetic:small " + settings))
	if err != nil {
		t.Fatal(err)
	}
	e, err := experiment.Open(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// set makes settings of KEY=VALUE, with spaces between.
func set(text string) []config.Setting {
	var list []config.Setting
	for pair := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(pair, "=")
		list = append(list, config.Setting{Key: key, Value: value, Origin: "place of " + key})
	}
	return list
}

// baseline is the one of a name that a run is compared with.
func baseline(t *testing.T, e *experiment.Experiment, name string) algorithm.Baseline {
	t.Helper()
	for _, b := range e.Baselines() {
		if b.Name == name {
			return b
		}
	}
	t.Fatalf("there is no baseline %s", name)
	return algorithm.Baseline{}
}

// constant predicts the same of everything.
type constant float64

func (c constant) Predict(_ int, _ []int32, out []float64) {
	for i := range out {
		out[i] = float64(c)
	}
}

// inTurn runs one call after the other.
type inTurn struct{}

func (inTurn) Each(n int, f func(i int)) {
	for i := range n {
		f(i)
	}
}
