package node_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/lab/verify"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/results"
)

// concluded writes the folder that a server leaves of a session, with one number of a matrix moved.
func concluded(t *testing.T, f *federation, out *node.Outcome, move float64) string {
	t.Helper()
	dir := t.TempDir()
	e, err := agreement.Open(f.public)
	if err != nil {
		t.Fatal(err)
	}
	public, err := f.public.Encode()
	if err != nil {
		t.Fatal(err)
	}
	model := out.Model
	if move != 0 { // the last coordinate of the model; in another place of the bytes stand counts
		model = append([]byte(nil), model...)
		last := model[len(model)-4:]
		binary.LittleEndian.PutUint32(last, math.Float32bits(math.Float32frombits(binary.LittleEndian.Uint32(last))+float32(move)))
	}
	shared, err := e.Instance().Shared(model)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range shared {
		if err = results.WriteEmbeddings(dir, x); err != nil {
			t.Fatal(err)
		}
	}
	var charged []dp.Event
	if e.Private() {
		if charged, err = e.Charges(int(out.Attempts.Opened)); err != nil {
			t.Fatal(err)
		}
	}
	spent, err := e.SpentAtMost(int(out.Attempts.Opened))
	if err != nil {
		t.Fatal(err)
	}
	past, err := e.Past(charged, 0)
	if err != nil {
		t.Fatal(err)
	}
	summary, err := json.Marshal(map[string]any{"algorithm": e.About().Name, "rounds": out.Attempts.Opened, "session": fmt.Sprintf("%x", e.Session()), "clients": e.Cohort.All(), "privacy": e.Statement(spent)})
	if err != nil {
		t.Fatal(err)
	}
	if err = os.WriteFile(filepath.Join(dir, "summary.json"), summary, 0o600); err != nil {
		t.Fatal(err)
	}
	if err = results.WriteDeployed(dir, public, model); err != nil {
		t.Fatal(err)
	}
	if err = results.WriteEvidence(dir, []algorithm.PastSession{past}, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A session over libp2p is repeated from what its server published and from the owners' files: to the bit without noise, within the
// spread of repetitions with noise. A model in which one number was moved, and a file of another owner, are told.
func TestFinishedDeploymentIsRepeated(t *testing.T) {
	data, other := ratings(t, 4, 5), ratings(t, 3, 5)
	type check struct {
		owners      string
		move        float64
		repetitions int
		want        verify.Verdict
		says        string
	}
	for settings, checks := range map[string][]check{
		"epsilon=inf": {
			{data, 0, 19, verify.OK, "bit for bit"},
			{data, 1e-7, 19, verify.Differs, "1 of "},
			{other, 0, 19, verify.Differs, "another file of an owner"},
		},
		"epsilon=50 delta=0.01": {
			{data, 0, 99, verify.OK, "noise cannot be drawn again"}, // true of 99 seeds in 100; the seed is fixed
			{data, 1e6, 19, verify.Unchecked, "--repetitions 99"},
			{data, 1e6, 99, verify.Forged, "once in 100"},
		},
	} {
		t.Run(settings, func(t *testing.T) {
			f := newFederation(t, "algorithm=private-item-bias rating-min=1 rating-max=5 "+settings+" data="+data)
			m := f.join(admission.ServerPlace)
			wait := f.start(f.joinAll()...)
			out, err := f.server(m).Run(f.ctx)
			if err != nil {
				t.Fatal(err)
			}
			wait()
			for _, tt := range checks {
				r, err := verify.Folder(t.Context(), concluded(t, f, out, tt.move), verify.Options{Again: true, Owners: []string{tt.owners}, Repetitions: tt.repetitions})
				if err != nil {
					t.Fatal(err)
				}
				last := r.Checks[len(r.Checks)-1]
				if last.Subject != "model" || last.Verdict != tt.want || !strings.Contains(last.Text, tt.says) {
					t.Errorf("%+v, want %s and %q", r.Checks, tt.want, tt.says)
				}
				if (r.Err() == nil) != (tt.want == verify.OK) {
					t.Errorf("%v: %+v", r.Err(), r.Checks)
				}
			}
		})
	}
}
