package protocol_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/fedsim/fedsim/protocol"
)

func hashed() *protocol.Plan {
	p := &protocol.Plan{
		Round: 7, Phase: "item-gradient", Cohort: protocol.Cohort{Clients: 100, Tolerance: 0.3, Colluders: 0.05},
		Releases: []protocol.Release{
			{Name: "V", Len: 20, L2: 2.5, LInf: 1, MaxNonZero: 3, Scale: 1024, Width: 29, Noise: protocol.Noise{Kind: protocol.Split, Variance: 1e6}},
			{Name: "counts", Len: 4, L2: 1, L1: 2, MaxNonZero: 4, Scale: 1, Width: 16,
				Noise: protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1.5, SamplingRate: 0.25, Steps: 8, Spread: true}},
		},
		Broadcast: []byte("model"),
	}
	for i := range p.Session {
		p.Session[i] = byte(i)
	}
	return p
}

// vector is the result of testdata/plan.py for the plan hashed, computed outside Go.
type vector struct {
	Hash           string
	Seed           string
	PlanSignature  string `json:"plan_signature"`
	FinalSignature string `json:"final_signature"`
}

func readVector(t *testing.T) (v vector) {
	t.Helper()
	text, err := os.ReadFile("testdata/plan.json")
	if err != nil {
		t.Fatal(err)
	}
	if err = json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestPlanHash(t *testing.T) {
	if got, want := hashed().Hash(), readVector(t).Hash; hex.EncodeToString(got[:]) != want {
		t.Errorf("the plan hashes to %x, want %s", got, want)
	}
}

// changes are all the single things that a plan says, changed.
var changes = []func(*protocol.Plan){
	func(p *protocol.Plan) { p.Session[15]++ },
	func(p *protocol.Plan) { p.Round++ },
	func(p *protocol.Plan) { p.Phase = "item-gradien" },
	func(p *protocol.Plan) { p.Cohort.Clients++ },
	func(p *protocol.Plan) { p.Cohort.Tolerance = 0.2 },
	func(p *protocol.Plan) { p.Cohort.Colluders = 0.06 },
	func(p *protocol.Plan) { p.Releases = p.Releases[:1] },
	func(p *protocol.Plan) { p.Releases[0], p.Releases[1] = p.Releases[1], p.Releases[0] },
	func(p *protocol.Plan) { p.Releases[0].Name = "W" },
	func(p *protocol.Plan) { p.Releases[0].Len++ },
	func(p *protocol.Plan) { p.Releases[0].L2++ },
	func(p *protocol.Plan) { p.Releases[0].L1++ },
	func(p *protocol.Plan) { p.Releases[0].LInf++ },
	func(p *protocol.Plan) { p.Releases[0].MaxNonZero++ },
	func(p *protocol.Plan) { p.Releases[0].Sensitivity = 0.1 },
	func(p *protocol.Plan) { p.Releases[0].Scale++ },
	func(p *protocol.Plan) { p.Releases[0].Width++ },
	func(p *protocol.Plan) { p.Releases[0].Noise.Kind = protocol.TwoRound },
	func(p *protocol.Plan) { p.Releases[0].Noise.Variance++ },
	func(p *protocol.Plan) { p.Releases[1].Noise.Multiplier++ },
	func(p *protocol.Plan) { p.Releases[1].Noise.SamplingRate = 0.5 },
	func(p *protocol.Plan) { p.Releases[1].Noise.Steps++ },
	func(p *protocol.Plan) { p.Releases[1].Noise.Spread = false },
	func(p *protocol.Plan) { p.Broadcast = []byte("Model") },
	func(p *protocol.Plan) { p.Broadcast = nil },
}

// Every single thing that a plan says is bound.
func TestPlanHashBindsEverything(t *testing.T) {
	seen := map[[32]byte]int{hashed().Hash(): -1}
	for i, change := range changes {
		p := hashed()
		change(p)
		h := p.Hash()
		if other, ok := seen[h]; ok {
			t.Errorf("changes %d and %d hash alike", i, other)
		}
		seen[h] = i
	}
}

// Items keep their bounds: moving a byte from one to its neighbour shows.
func TestTranscriptKeepsItemsApart(t *testing.T) {
	a := protocol.NewTranscript("d").Text("ab").Bytes([]byte("c")).Sum()
	b := protocol.NewTranscript("d").Text("a").Bytes([]byte("bc")).Sum()
	c := protocol.NewTranscript("da").Text("b").Bytes([]byte("c")).Sum()
	if a == b || b == c || a == c {
		t.Error("different items hash alike")
	}
}

func TestBitmap(t *testing.T) {
	b := protocol.NewBitmap(11)
	for _, i := range []int{0, 7, 10} {
		b.Set(i)
	}
	if b[0] != 0b1000_0001 || b[1] != 0b100 || b.Count() != 3 || !b.Has(10) || b.Has(9) || b.Has(16) || b.Has(-1) {
		t.Errorf("0, 7 and 10 of 11 are %08b", b)
	}
	if !b.Fits(11) || b.Fits(10) || b.Fits(8) || b.Fits(17) || !protocol.NewBitmap(16).Fits(16) || !protocol.Bitmap(nil).Fits(0) {
		t.Error("a bitmap fits a roster that it does not, or not one that it does")
	}
	o := protocol.NewBitmap(11)
	o.Set(7)
	if !o.Subset(b) || b.Subset(o) || !o.Subset(o) || b.Subset(b[:1]) {
		t.Error("{7} is a subset of {0, 7, 10} and not the other way round")
	}
}
