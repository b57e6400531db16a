package client_test

import (
	"fmt"
	"testing"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// history records a client's actions over all its lives, and their faults.
type history struct {
	sent    map[string]bool // messages after the setup
	masked  uint64          // the latest round of a masked input,
	set     uint64          // of a setup that was begun with a plan,
	charged uint64          // and of a charge
	broken  string
}

// observe checks effects against what a client never does. Nothing after the setup is sent twice.
// Masked inputs are of later and later rounds, and charged before. There is no setup of a round
// that is over.
func (h *history) observe(eff protocol.Effects) {
	for _, r := range eff.Persist {
		if r, ok := r.(protocol.Charged); ok {
			h.expect(r.Round > h.charged, "charged %d after it charged %d", r.Round, h.charged)
			h.charged = r.Round
		}
	}
	for _, e := range eff.Send {
		if _, ok := e.Message.(*protocol.Refusal); ok {
			continue
		}
		for m := e.Message; m != nil; m = protocol.Piggyback(m) {
			m := m.(protocol.StageMessage)
			round, stage := m.At()
			if stage < protocol.StageMaskedInput {
				h.expect(round > h.charged, "sent %s after it charged %d", word(m), h.charged)
				h.expect(round >= h.set, "sent %s after the setup of %d", word(m), h.set)
				if !ahead(m) {
					h.set = round
				}
				continue
			}
			h.expect(round == h.charged, "sent %s after it charged %d", word(m), h.charged)
			h.expect(!h.sent[word(m)], "sent %s twice", word(m))
			h.sent[word(m)] = true
			if stage == protocol.StageMaskedInput {
				h.masked = round
			}
			h.expect(round == h.masked, "sent %s, its masked input was of %d", word(m), h.masked)
		}
	}
}

func (h *history) expect(holds bool, format string, args ...any) {
	if !holds && h.broken == "" {
		h.broken = fmt.Sprintf(format, args...)
	}
}

// saying is something for an aggregator to say, of a round or about it, at
// random: the present one, or the next.
func saying(d interface{ IntN(int) int }, present uint64) string {
	i := present + uint64(d.IntN(5))/3
	begins := present + uint64(d.IntN(8)+2)/4 // one time in four the present one again
	switch n := d.IntN(36); {
	case n == 0:
		return fmt.Sprintf("announce %d", begins)
	case n <= 2:
		return fmt.Sprintf("announce %d delivery 5", begins)
	case n == 3:
		return fmt.Sprintf("invite %d", begins)
	case n <= 8:
		return fmt.Sprintf("roster %d 5", i)
	case n <= 15:
		return fmt.Sprintf("delivery %d 5", i)
	case n == 30:
		return fmt.Sprintf("announce %d anew %d", begins, 1+d.IntN(2))
	case n > 30:
		return fmt.Sprintf("proceed %d", i)
	case n == 16:
		return fmt.Sprintf("survivors %d 5", i)
	case n <= 22:
		return fmt.Sprintf("survivors %d 5 + roster %d 5", i, i+1)
	default:
		return fmt.Sprintf("quorum %d", i)
	}
}

// An aggregator may say anything in any order, and a client may restart at any
// time: it never does what it must not, and is often enough led to do what it may.
func TestAnyOrder(t *testing.T) {
	sent := make(map[string]int)
	for seed := range effort.Of[uint64](120, 220, 300) {
		dice := entropy.Public(seed, "any-order")
		cfg := client.Config{Rounds: 1000, NewSum: func(s protocol.Setup) (client.Sum, error) {
			if seed%2 == 0 {
				return secagg.NewIdealClient(s, secagg.DrawClient), nil
			}
			return &heavy{p: s, refuse: protocol.Kinds}, nil
		}}
		h := &history{sent: make(map[string]bool)}
		b := benchOf(t, cfg)
		b.waits = true
		var told []string
		for range 300 {
			command := saying(dice, h.set)
			switch n := dice.IntN(100); {
			case n == 0: // it restarts
				told = append(told, "restart")
				cfg.Last = h.charged
				b = benchOf(t, cfg)
				b.waits = true
				continue
			case n < 40 && len(b.works) > 0:
				command = "run"
			}
			told = append(told, command)
			h.observe(b.command(command))
			if h.broken != "" {
				t.Fatalf("seed %d: the client %s; it was told %q", seed, h.broken, told)
			}
			for _, e := range b.last.Send {
				sent[e.Message.Kind().String()]++
				if r := protocol.Piggyback(e.Message); r != nil {
					sent["+ "+r.Kind().String()]++
				}
			}
		}
	}
	for _, what := range []string{"advertise", "shares", "prepared", "masked-input", "+ advertise", "consistency", "unmask", "+ shares"} {
		if sent[what] < effort.Of(40, 100, 100) {
			t.Errorf("%s was sent %d times", what, sent[what])
		}
	}
}
