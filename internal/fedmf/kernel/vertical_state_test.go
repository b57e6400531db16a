package kernel

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
)

// lasting makes a party with noise of its own, trimmed ratings and item steps at the end, and the
// plan of a round. Its randomness is the same for every party.
func lasting(t *testing.T) (party *Vertical, plan func(round uint64) *protocol.Plan) {
	t.Helper()
	p := soundParams(12, 5, 2)
	p.Rounds, p.LocalSteps, p.ItemSteps, p.SamplingRate = 3, 2, 4, 0.5
	p.Unit, p.ClipRatings = dp.User, 2
	rows := someRatings(rand.New(rand.NewPCG(3, 4)), p.Users, 3, 0.9)
	party = newVertical(t, &p, []int32{0, 2, 4}, rows)
	return party, func(round uint64) *protocol.Plan {
		n := protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 0.1, SamplingRate: 0.5, Steps: p.StepsOf(round), Spread: true}
		return planOf(&p, round, p.StartUsers(p.Users), n)
	}
}

var lastingSource = simulated.New(8, "party")

// A party that is stopped after any round, or after the end, and restored, continues as without
// the stop, to the bit: its messages and its final state.
func TestVerticalRestoreGoesOn(t *testing.T) {
	run := func(stopAt int) (sent [][]float64, end, state []byte) {
		party, plan := lasting(t)
		restart := func(at int) {
			if at != stopAt {
				return
			}
			kept, err := party.Save()
			if err != nil {
				t.Fatal(err)
			}
			party, _ = lasting(t)
			if err = party.Restore(kept, lastingSource); err != nil {
				t.Fatal(err)
			}
		}
		restart(0)
		for i := uint64(1); i <= 3; i++ {
			sent = append(sent, contribute(t, party, plan(i), lastingSource))
			restart(int(i))
		}
		model := party.params.StartUsers(12).Encode()
		finish := func() {
			if err := party.Finish(model, serial{}); err != nil {
				t.Fatal(err)
			}
		}
		finish()
		restart(4)
		finish() // takes no step twice
		state, err := party.Save()
		if err != nil || !party.Finished() {
			t.Fatal(party.Finished(), err)
		}
		return sent, party.Embeddings().Encode(), state
	}
	sent, end, state := run(-1)
	for stop := range 5 {
		got, last, kept := run(stop)
		if d := cmp.Diff(sent, got); d != "" {
			t.Errorf("stopped after round %d it sends something else:\n%.1000s", stop, d)
		}
		if !bytes.Equal(end, last) || !bytes.Equal(state, kept) {
			t.Errorf("stopped after round %d it ends with other embeddings", stop)
		}
	}
	party, _ := lasting(t)
	if bytes.Equal(party.Embeddings().Encode(), end) {
		t.Error("nothing was trained")
	}
}

// The κ steps at the end are taken once: steps taken before the restart have been paid for, and
// their result may have been published.
func TestVerticalTakesLastStepsOnce(t *testing.T) {
	party, plan := lasting(t)
	contribute(t, party, plan(3), lastingSource)
	model := party.params.StartUsers(12).Encode()
	if err := party.Finish(model, serial{}); err != nil {
		t.Fatal(err)
	}
	state, err := party.Save()
	if err != nil {
		t.Fatal(err)
	}
	again, _ := lasting(t)
	if err = again.Restore(state, simulated.New(9, "other randomness")); err != nil {
		t.Fatal(err)
	}
	if err = again.Finish(model, serial{}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.Embeddings().Encode(), party.Embeddings().Encode()) {
		t.Error("steps were taken again")
	}
}

// A state that does not fit is refused with the reason, and the party is as it was.
func TestVerticalRestoreRefuses(t *testing.T) {
	party, plan := lasting(t)
	contribute(t, party, plan(1), lastingSource)
	good, err := party.Save()
	if err != nil {
		t.Fatal(err)
	}
	changed := func(change func(*verticalState)) []byte {
		var s verticalState
		if failed := json.Unmarshal(good[len(verticalDomain):], &s); failed != nil {
			t.Fatal(failed)
		}
		change(&s)
		b, failed := json.Marshal(s)
		if failed != nil {
			t.Fatal(failed)
		}
		return append([]byte(verticalDomain), b...)
	}
	nan := binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.NaN()))
	for name, c := range map[string]struct {
		state []byte
		want  string
	}{
		"short":           {good[:len(good)-1], "unexpected end"},
		"empty":           {[]byte{}, "0 bytes"},
		"another version": {bytes.Replace(good, []byte("v2"), []byte("v3"), 1), "version"},
		"noise":           {changed(func(s *verticalState) { s.Last.Kind = protocol.Split }), "kind"},
		"steps":           {changed(func(s *verticalState) { s.Last.Steps = 5 }), "5 steps"},
		"rate":            {changed(func(s *verticalState) { s.Last.SamplingRate = 0 }), "rate 0"},
		"columns":         {changed(func(s *verticalState) { s.Embeddings = append(s.Embeddings, s.Embeddings...) }), "bytes"},
		"other items":     {changed(func(s *verticalState) { s.Items[0] = 1 }), "other items"},
		"not finite":      {changed(func(s *verticalState) { copy(s.Embeddings, nan) }), "row 0"},
	} {
		p, _ := lasting(t)
		if err = p.Restore(c.state, lastingSource); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
		if kept, failed := p.Save(); failed != nil || kept != nil {
			t.Errorf("%s: it was taken in part (%v)", name, failed)
		}
	}
	if err = party.Restore(good, lastingSource); err != nil {
		t.Error(err)
	}
}
