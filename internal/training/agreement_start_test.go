package training_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lineage"
	"github.com/fedsim/fedsim/internal/opened"
)

// released writes what a session of these settings would release if it ended at its start.
func released(t *testing.T, settings string) (dir string) {
	t.Helper()
	e := opened.Experiment(t, settings)
	s, err := e.Strategy()
	if err != nil {
		t.Fatal(err)
	}
	record, err := e.Record(s, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	text, err := lineage.Encode(record)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err = os.WriteFile(filepath.Join(dir, lineage.File), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A client learns the digest of the start, its sessions and their cost. It derives the same terms without the releases, and
// cannot plan. The server with the stated releases can, and with others cannot.
func TestStartIsAgreedOn(t *testing.T) {
	const settings = "algorithm=ssp-c epsilon=3 rank=2"
	dir, other := released(t, settings), released(t, "algorithm=ssp-c epsilon=2 rank=2")
	e := opened.Experiment(t, settings+" start-from="+dir)
	plain, p := publish(t, opened.Experiment(t, settings)), publish(t, e)
	first, err := plain.Hash()
	if err != nil {
		t.Fatal(err)
	}
	if hash, failed := p.Hash(); failed != nil || hash == first {
		t.Errorf("the agreement with a start has the hash of the one without: %v", failed)
	}
	arrived := carried(t, p)
	if diff := cmp.Diff(p, arrived, cmpopts.IgnoreUnexported(agreement.Start{})); diff != "" {
		t.Errorf("on the way it changes (-sent +arrived):\n%s", diff)
	}
	if s := arrived.Facts.Start; len(s.Sessions) != 1 || *s.Sessions[0].Epsilon > 3 || *s.Sessions[0].Epsilon < 2.9 || s.Sessions[0].Unit != "user" {
		t.Errorf("the start is stated as %+v", s)
	}
	client, err := agreement.Open(arrived)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = client.Strategy(); !errors.Is(err, experiment.ErrNoReleases) {
		t.Errorf("a client without the releases plans: %v", err)
	}
	server, err := agreement.OpenFrom(arrived, e.Start)
	if err == nil {
		_, err = server.Strategy()
	}
	if err != nil {
		t.Error(err)
	}
	wrong, err := lineage.Read(other)
	if err != nil {
		t.Fatal(err)
	}
	for public, start := range map[*agreement.Public]*algorithm.Start{arrived: wrong, plain: e.Start} {
		if _, err = agreement.OpenFrom(public, start); !errors.Is(err, agreement.ErrStart) {
			t.Errorf("with other releases: %v", err)
		}
	}
	if _, err = agreement.OpenFrom(arrived, nil); !errors.Is(err, agreement.ErrStart) {
		t.Errorf("without releases: %v", err)
	}
}

// Releases of a run that a private search chose are stated as such, with the ε of the search. No session of a deployment starts
// from a run that a plain search chose, as in a simulation.
func TestStartAfterASearchIsAgreedOn(t *testing.T) {
	const settings = "algorithm=ssp-c epsilon=3 rank=2"
	private := released(t, settings+` chosen-by={"law":{"eta":1,"gamma":0.25},"runs":[[{"mechanism":"gaussian","noise_multiplier":1.5,"count":1}]]}`)
	p := publish(t, opened.Experiment(t, settings+" start-from="+private))
	if s := carried(t, p).Facts.Start.Sessions[0]; s.Chosen != "private" || s.Epsilon == nil || *s.Epsilon < 3.5 {
		t.Errorf("the start is stated as %+v", s)
	}
	if _, err := agreement.Open(carried(t, p)); err != nil {
		t.Error(err)
	}
}

// A start that does not go with the session is refused by each party, in the words of a simulation.
func TestStatedStartIsChecked(t *testing.T) {
	const settings = "algorithm=ssp-c epsilon=3 rank=2"
	e := opened.Experiment(t, settings+" start-from="+released(t, settings))
	for want, change := range map[string]func(*agreement.Start){
		"say --algorithm dp-cmf":           func(s *agreement.Start) { s.Algorithm = "dp-cmf" },
		"say --feedback implicit":          func(s *agreement.Start) { s.Feedback = "implicit" },
		"say --rank 3":                     func(s *agreement.Start) { s.Rank = 3 },
		"say --rating-min 1 --rating-max":  func(s *agreement.Start) { s.Min = 1 },
		"say --unit rating":                func(s *agreement.Start) { s.Sessions[0].Unit = "rating" },
		"had no noise":                     func(s *agreement.Start) { s.Sessions[0].Epsilon = nil },
		"without a private search":         func(s *agreement.Start) { s.Sessions[0].Chosen, s.Sessions[0].Epsilon = "plain", nil },
		`a "lucky" search chose`:           func(s *agreement.Start) { s.Sessions[0].Chosen = "lucky" },
		"depends on 0 sessions":            func(s *agreement.Start) { s.Sessions = nil },
		"32 bytes in hex are needed":       func(s *agreement.Start) { s.Digest = "ab" },
		`depends on the session "../../x"`: func(s *agreement.Start) { s.Sessions[0].Session = "../../x" },
	} {
		p := publish(t, e)
		change(p.Facts.Start)
		if _, err := agreement.Open(carried(t, p)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	p := publish(t, opened.Experiment(t, "algorithm=am-ssp epsilon=3"))
	p.Facts.Start = publish(t, e).Facts.Start
	if _, err := agreement.Open(p); err == nil || !strings.Contains(err.Error(), "a session of am-ssp starts from nothing") {
		t.Errorf("an algorithm without a start: %v", err)
	}
}
