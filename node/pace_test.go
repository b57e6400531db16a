package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/experiment"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// slow is a trainer that takes a millisecond for each rating: in virtual time, training takes none.
type slow struct {
	client.Trainer
	ratings int
}

func (s slow) Contribute(p *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	time.Sleep(time.Duration(s.ratings) * time.Millisecond)
	return s.Trainer.Contribute(p, src, run)
}

// Whoever sees a client's line sees the same bytes at the same times, whether it has no
// ratings, as many as the mean user of MovieLens 1M or one of each film there.
func TestNeitherTimeNorSizeTellsRatings(t *testing.T) {
	const films, watched = 3706, 2
	everybody := rated(t, 6, films, func(u, i int) int {
		if (u+i)%6 == 0 {
			return 1 + (u+i)%5
		}
		return 0
	})
	for _, settings := range []string{"contribution=all-ratings rounds=3", "algorithm=ssp-c features=none rank=2 rounds=1"} {
		if strings.Contains(settings, "ssp-c") && os.Getenv("FEDSIM_TEST_LONG") == "" {
			continue // statistics take longer
		}
		line := func(t *testing.T, ratings int) (written []string) {
			var text strings.Builder
			text.WriteString("user,item,rating\n")
			for i := range ratings {
				fmt.Fprintf(&text, "u%02d,i%02d,%d\n", watched, i, 1+i%5)
			}
			file := filepath.Join(t.TempDir(), "own.csv")
			if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				f := newVirtualFederation(t, settings+" tolerance=0.2 colluders=0.2 deployment.stage-timeout-s=600 deployment.tail-s=300 data="+everybody)
				f.own = map[protocol.ClientID]string{watched: file}
				f.trainer = func(id protocol.ClientID, own client.Trainer) client.Trainer {
					if id == watched {
						return slow{own, own.(*experiment.Party).Ratings}
					}
					return own
				}
				began := time.Now()
				at, bytes := time.Duration(0), 0
				f.written = map[protocol.ClientID]func(int){watched: func(n int) {
					if now := time.Since(began); now != at {
						written = append(written, fmt.Sprintf("%v: %d bytes", at, bytes))
						at, bytes = now, 0
					}
					bytes += n
				}}
				m := f.join(admission.ServerPlace)
				wait := f.start(f.joinAll()...)
				out, err := f.server(m).Run(f.ctx)
				if err != nil {
					t.Fatal(err)
				}
				wait()
				if out.Attempts.Opened != out.Attempts.Released || out.Attempts.Opened == 0 {
					t.Fatalf("attempts %+v", out.Attempts)
				}
				written = append(written, fmt.Sprintf("%v: %d bytes", at, bytes))
			})
			return written[1:] // but for the handshake, with signatures of several lengths
		}
		all := line(t, films)
		if len(all) < 2 {
			t.Fatalf("it writes %q", all)
		}
		for what, ratings := range map[string]int{"no ratings": 0, "165": 165} {
			// On a busy machine yamux may tell its window in one frame of 12 bytes more or less. What follows from ratings differs
			// each time; that does not.
			var d string
			for range 3 {
				if d = cmp.Diff(all, line(t, ratings)); d == "" {
					break
				}
				all = line(t, films)
			}
			if d != "" {
				t.Errorf("%s: (-all films +%s):\n%s", settings, what, d)
			}
		}
	}
}
