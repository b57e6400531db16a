package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// crafted runs a client with a tiny ledger through one plan made by the server and the end of the
// session.
func crafted(t *testing.T, p *PartyParams, party client.Trainer, x *model.Matrix, n protocol.Noise) *dp.Ledger {
	t.Helper()
	ledger, err := dp.NewLedger(dp.Budget{Epsilon: 0.01, Delta: 1e-9, Accountant: dp.PLD}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := client.New(client.Config{Trainer: party, Ledger: ledger, Entropy: simulated.New(1, "party"), Noise: new(client.Samplers),
		NewSum: func(s protocol.Setup) (client.Sum, error) { return secagg.NewIdealClient(s, secagg.DrawClient), nil }})
	say := func(m protocol.Message) {
		e := protocol.Envelope{From: protocol.Party{Role: protocol.Aggregator}, Message: m}
		for _, w := range c.Step(time.Time{}, protocol.Received{Envelope: e}).Work {
			c.Step(time.Time{}, w.Do(serial{}))
		}
	}
	say(&protocol.Announce{Plan: planOf(p, 1, x, n)})
	say(&protocol.Final{Model: x.Encode()})
	return ledger
}

// More noise costs less, without an end. A server may ask for so much that unprojected embeddings
// overflow. Every output must be finite: a NaN at a rating would show the rating through any noise.
func TestNoiseBeyondMeasureShowsNothing(t *testing.T) {
	for _, clipping := range []Clipping{EmbeddingClipping, GradientClipping, BothClippings} {
		for _, unit := range []dp.Unit{dp.Rating, dp.User} {
			for _, z := range []float64{1e6, 1e12, 1e200} {
				p := soundParams(6, 8, 20)
				p.Unit, p.Clipping, p.Clip, p.LocalSteps, p.SamplingRate = unit, clipping, 5, 10, 1
				p.UserRate, p.ItemRate, p.ClipRatings = 1e150, 1e150, 0 // products overflow
				if unit == dp.User && clipping == EmbeddingClipping {
					p.ClipRatings = 2
				}
				rows := make([]model.Ratings, 6)
				rows[1] = model.Ratings{Items: []int32{2, 5}, Values: []float32{5, 1}}
				rows[4] = model.Ratings{Items: []int32{7}, Values: []float32{3}}
				party := newVertical(t, &p, model.Indices(8), rows)
				ledger := crafted(t, &p, party, p.StartUsers(6), protocol.Noise{Kind: protocol.PartyNoise, Multiplier: z, SamplingRate: 1, Steps: 10, Spread: unit == dp.User})
				if z <= 1e12 && len(ledger.Charged()) == 0 {
					t.Errorf("%s, %s, z = %g: the plan was not taken up: nothing is tested", clipping, unit, z)
				}
				if z > 1e12 && len(ledger.Charged()) != 0 {
					t.Errorf("%s, %s: a plan with noise of %g was taken up", clipping, unit, z)
				}
				for i, x := range append(party.Embeddings().Data(), party.Users.Data()...) {
					if math.IsNaN(x) || math.IsInf(x, 0) {
						t.Fatalf("%s, %s, z = %g: coordinate %d is %v", clipping, unit, z, i, x)
					}
				}
			}
		}
	}
}

// A party publishes numbers on the grid of its messages, whatever it held: the low bits of value +
// noise can tell the value.
func TestPublishedItemsAreOnTheGrid(t *testing.T) {
	p := soundParams(6, 8, 20)
	party := newVertical(t, &p, model.Indices(8), someRatings(rand.New(rand.NewPCG(1, 1)), 6, 8, 0.5))
	contribute(t, party, planOf(&p, 1, p.StartUsers(6), protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1, SamplingRate: 0.5, Steps: p.LocalSteps}), simulated.New(1, "party"))
	off := 0
	for i, x := range party.Embeddings().Data() {
		if y := x * (1 << 24); y != math.Trunc(y) {
			t.Fatalf("%v is not a multiple of 2^-24", x)
		}
		if d := math.Abs(x - party.exact().Data()[i]); d > 0x1p-25 {
			t.Fatalf("%v is %g off what was trained", x, d)
		} else if d > 0 {
			off++
		}
	}
	if off < 100 { // of 160; a float is on the grid by chance once in 2^28
		t.Errorf("only %d of 160 coordinates were rounded", off)
	}
}
