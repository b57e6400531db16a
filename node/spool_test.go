package node_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// spools are the files in the aggregator's state where shares wait.
func (f *federation) spools() []string {
	f.t.Helper()
	files, err := filepath.Glob(filepath.Join(f.dir, "spool-*"))
	if err != nil {
		f.t.Fatal(err)
	}
	return files
}

// An aggregator whose shares wait on disk has the model that the simulator has, with relays and without. A spool that a
// killed process left is removed, and no spool is left at the end.
func TestSharesWaitOnDisk(t *testing.T) {
	for _, relays := range []int{0, 2} {
		t.Run(fmt.Sprint(relays, " relays"), func(t *testing.T) {
			f := newFederation(t, "data="+ratings(t, 4, 8)+" "+relayedSettings)
			f.inMemory = -1
			if err := os.WriteFile(filepath.Join(f.dir, "spool-1.tmp"), []byte("left"), 0o600); err != nil {
				t.Fatal(err)
			}
			f.withRelays(relays)
			if files := f.spools(); len(files) != 0 {
				t.Errorf("%v are left of another process", files)
			}
			var most atomic.Int64
			f.watch = func(e protocol.Event) {
				if e.Kind == protocol.StageClosed && e.Stage == protocol.StageShare {
					most.Store(max(most.Load(), int64(len(f.spools()))))
				}
			}
			out := f.run()
			if want := f.simulate(sim.Faults{}); !bytes.Equal(out.Model, want.Model) {
				t.Error("the model is not the simulator's")
			}
			_ = f.aggregator.Close()
			if files := f.spools(); most.Load() < 2 || len(files) != 0 {
				t.Errorf("%d spools at once, %v are left", most.Load(), files)
			}
		})
	}
}
