package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// slow is a trainer that takes a millisecond for each rating: in virtual time, training takes none. A contribution of nothing, as of
// a client whose coin leaves it out of a batch, takes no time.
type slow struct {
	client.Trainer
	ratings int
}

func (s slow) Contribute(p *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	list, err := s.Trainer.Contribute(p, src, run)
	if something(list) {
		time.Sleep(time.Duration(s.ratings) * time.Millisecond)
	}
	return list, err
}

func something(list []protocol.Vector) bool {
	return slices.ContainsFunc(list, func(v protocol.Vector) bool { return len(v.Value) > 0 })
}

// noting is a trainer that notes whether each contribution to the statistics is of a batch that the client is in.
type noting struct {
	client.Trainer
	gave *[]bool
}

func (n noting) Contribute(p *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	list, err := n.Trainer.Contribute(p, src, run)
	if p.Phase == kernel.Statistics {
		*n.gave = append(*n.gave, something(list))
	}
	return list, err
}

func (s slow) Finish(model []byte, run protocol.Runner) error {
	time.Sleep(time.Duration(s.ratings) * time.Millisecond)
	return s.Trainer.Finish(model, run)
}

// A client's line shows the same bytes at the same times, whether the client has no ratings, few or one of each film, and
// whether its secret coins put it into batches.
func TestNeitherTimeNorSizeTellsRatings(t *testing.T) {
	effort.NotShort(t, "a federation over a network takes a second")
	t.Parallel()
	for settings, films := range map[string]int{
		"contribution=all-ratings rounds=2 epsilon=1000": 100,
		// Timed under its own coins, the client would time nothing in its first round, and answer late in the round that it is in.
		sampledStatistics: 60,
		"algorithm=ssp-c features=none rank=2 rounds=1": 3706, // of MovieLens 1M
	} {
		t.Run(settings, func(t *testing.T) {
			if strings.Contains(settings, "ssp-c") {
				effort.LongOnly(t, "statistics take longer")
			}
			everybody := rated(t, 4, films, func(u, i int) int {
				if (u+i)%4 == 0 {
					return 1 + (u+i)%5
				}
				return 0
			})
			all, coins := watchedLine(t, settings, everybody, films)
			if len(all) < 2 {
				t.Fatalf("it writes %q", all)
			}
			if settings == sampledStatistics && (len(coins) == 0 || coins[0] || !slices.Contains(coins, true)) {
				t.Fatalf("the client is in the batches %v; take another client, for the first to be without it and a later one with it", coins)
			}
			for what, ratings := range map[string]int{"no ratings": 0, "a twentieth": films / 20} {
				few, _ := watchedLine(t, settings, everybody, ratings)
				if d := cmp.Diff(all, few); d != "" {
					t.Errorf("%s: (-all films +%s):\n%s", settings, what, d)
				}
			}
		})
	}
}

const sampledStatistics = "algorithm=ssp-i epsilon=inf features=none rank=2 rounds=3 statistics.resample=1 statistics.sampling-rate=0.4"

// watchedLine returns what a client with a number of ratings writes at which times, and which batches of statistics it was in.
func watchedLine(t *testing.T, settings, everybody string, ratings int) (written []string, coins []bool) {
	const watched = 0 // whose first coin is false, and a later one true
	var text strings.Builder
	text.WriteString("user,item,rating\n")
	for i := range ratings {
		fmt.Fprintf(&text, "u%02d,i%02d,%d\n", watched, i, 1+i%5)
	}
	file := filepath.Join(t.TempDir(), "own.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	made := 0
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, settings+" tolerance=0.25 colluders=0.25 deployment.stage-timeout-s=600 deployment.tail-s=300 data="+everybody)
		f.shares = &sharing{here: make(chan struct{}, f.simulated.Cohort.All())}
		f.own = map[protocol.ClientID]string{watched: file}
		f.trainer = func(id protocol.ClientID, own client.Trainer) client.Trainer {
			if id != watched {
				return own
			}
			paced := slow{own, own.(*experiment.Party).Ratings}
			if made++; made == 1 { // the others are made up to be timed
				return noting{paced, &coins}
			}
			return paced
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
		written = append(written, fmt.Sprintf("%v: it leaves", at)) // after one to three frames, as goroutines happen to be scheduled
	})
	return written[1:], coins // without the handshake, with signatures of several lengths
}

// Answers leave after four times the time of a record with every item, in a power of two of milliseconds, and at least 8 ms
// (SECURITY.md, 6). So a machine that is three times as slow in a round still answers on time.
func TestPaceIsFourTimesTheMeasured(t *testing.T) {
	t.Parallel()
	for measured, want := range map[time.Duration]int64{0: 8, time.Millisecond: 8, 2 * time.Millisecond: 8, 3 * time.Millisecond: 16, 8 * time.Millisecond: 32, 9 * time.Millisecond: 64, 16 * time.Millisecond: 64, time.Second: 4096} {
		if got := node.PaceOf(measured); got != time.Duration(want)*time.Millisecond {
			t.Errorf("of %v measured, answers leave after %v, want %d ms", measured, got, want)
		}
	}
}
