package training_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// The two kinds of noise that there are to lie about.
const (
	devicesSettings   = "accountant=rdp"
	itemPartySettings = "algorithm=vfl-sgdmf accountant=rdp item-steps=3 rounds=4"
)

// lies are statements of other terms; the reason says which, and what is right.
var lies = []struct {
	what     string
	settings string
	lie      func(*agreement.Derived)
	reason   string
}{
	{"less noise", devicesSettings, func(s *agreement.Derived) { s.Steps.First().Noise.Variance *= 0.9 }, "noise variance is "},
	{"a little less noise", devicesSettings, func(s *agreement.Derived) { s.Steps.First().Noise.Variance *= 0.9998 }, "noise variance is "},
	{"as little less as rounding could be", devicesSettings, func(s *agreement.Derived) { s.Steps.First().Noise.Variance *= 1 - 5e-5 }, "more than the budget of 10"},
	{"more noise", devicesSettings, func(s *agreement.Derived) { s.Steps.First().Noise.Variance *= 1.001 }, "noise variance is "},
	{"no noise", devicesSettings, func(s *agreement.Derived) { s.Steps.First().Noise = protocol.Noise{} }, "noise kind is none; it must be split"},
	{"replaced noise", devicesSettings, func(s *agreement.Derived) { s.Steps.First().Noise.Kind = protocol.TwoRound }, "noise kind is replace; it must be split"},
	{"NaN", devicesSettings, func(s *agreement.Derived) { s.Steps.First().Noise.Variance = math.NaN() }, "noise variance is NaN"},
	{"fewer colluders", devicesSettings, func(s *agreement.Derived) { s.Cohort.Colluders = 0 }, "colluders is 0; it must be 0.05"},
	{"more losses", devicesSettings, func(s *agreement.Derived) { s.Cohort.Tolerance = 0.9 }, "tolerance is 0.9; it must be 0.3"},
	{"more clients", devicesSettings, func(s *agreement.Derived) { s.Cohort.Clients = 6000 }, "clients is 6000; it must be 600"},
	{"another release", devicesSettings, func(s *agreement.Derived) { s.Steps.First().Name = "ratings" }, "release 1 name is ratings; it must be item-gradient"},
	{"a longer vector", devicesSettings, func(s *agreement.Derived) { s.Steps.First().Len++ }, "length is 401; it must be 400"},
	{"a smaller bound", devicesSettings, func(s *agreement.Derived) { s.Steps.First().L2 /= 2 }, "l2 is 11.18"},
	{"a bound in L1", devicesSettings, func(s *agreement.Derived) { s.Steps.First().L1 = 1 }, "l1 is 1; it must be 0"},
	{"a bound on coordinates", devicesSettings, func(s *agreement.Derived) { s.Steps.First().LInf = 1 }, "linf is 1; it must be 0"},
	{"more coordinates", devicesSettings, func(s *agreement.Derived) { s.Steps.First().MaxNonZero = 400 }, "max non zero is 400; it must be 1"},
	{"a finer scale", devicesSettings, func(s *agreement.Derived) { s.Steps.First().Scale *= 2 }, "scale is "},
	{"a narrower ring", devicesSettings, func(s *agreement.Derived) { s.Steps.First().Width = 8 }, "ring bits is 8; it must be "},
	{"a larger budget", devicesSettings, func(s *agreement.Derived) { s.Budget.Epsilon = 11 }, "budget epsilon is 11; it must be 10"},
	{"a larger delta", devicesSettings, func(s *agreement.Derived) { s.Budget.Delta = 1e-4 }, "budget delta is 0.0001; it must be 1e-05"},
	{"another accountant", devicesSettings, func(s *agreement.Derived) { s.Budget.Accountant = dp.GDPSkellam }, "budget accountant is gdp-skellam; it must be rdp"},
	{"exact samplers", devicesSettings, func(s *agreement.Derived) { s.Budget.SamplerError = 0 }, "sampler error is 0; it must be "},
	{"a smaller epsilon", devicesSettings, func(s *agreement.Derived) { s.Privacy.Epsilon = 1 }, "stated epsilon is 1; it must be 9.9"},
	{"no distance from exact noise", devicesSettings + " epsilon=100", func(s *agreement.Derived) { s.Privacy.NoiseDistance = 0 }, "noise_distance="},
	{"add-remove", devicesSettings, func(s *agreement.Derived) { s.Privacy.Relation = dp.AddRemove }, "relation=add-remove, accountant=rdp, sampling=none, noise=skellam); it must be (epsilon="},
	{"less noise of its own", itemPartySettings, func(s *agreement.Derived) { s.Steps.First().Noise.Multiplier *= 0.99 }, "noise multiplier is "},
	{"rarer samples", itemPartySettings, func(s *agreement.Derived) { s.Steps.First().Noise.SamplingRate = 0.01 }, "noise sampling rate is 0.01; it must be 0.05"},
	{"fewer steps", itemPartySettings, func(s *agreement.Derived) { s.Steps.First().Noise.Steps = 9 }, "noise steps is 9; it must be 10"},
	{"spread units", itemPartySettings, func(s *agreement.Derived) { s.Steps.First().Noise.Spread = true }, "noise spread is true; it must be false"},
	{"noise of the other kind", itemPartySettings, func(s *agreement.Derived) { s.Steps.First().Noise = protocol.Noise{Kind: protocol.Split, Variance: 1} }, "noise kind is split; it must be own"},
}

// TestOpenRefusesOtherTerms checks that a publisher of terms other than the derived terms is found out, and that the error names the term.
func TestOpenRefusesOtherTerms(t *testing.T) {
	honest := map[string]*agreement.Public{}
	for _, tt := range lies {
		p := honest[tt.settings]
		if p == nil {
			p = publish(t, opened.Experiment(t, tt.settings))
			honest[tt.settings] = p
		}
		lying := *p
		lying.Terms.Steps = p.Terms.Steps.Clone()
		tt.lie(&lying.Terms)
		e, err := agreement.Open(&lying)
		if e != nil || !errors.Is(err, agreement.ErrTerms) || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: error %v, want %q in it", tt.what, err, tt.reason)
		}
	}
	for settings, p := range honest {
		if _, err := agreement.Open(p); err != nil {
			t.Errorf("%s: the truth is refused: %v", settings, err)
		}
	}
}

// All lies come at once.
func TestOpenReportsEverything(t *testing.T) {
	p := publish(t, opened.Experiment(t, devicesSettings))
	p.Terms.Cohort.Clients, p.Terms.Steps.First().Len, p.Terms.Budget.Epsilon, p.Terms.Privacy.Unit = 1, 2, 3, dp.Rating
	_, err := agreement.Open(p)
	if err == nil || strings.Count(err.Error(), "; it must be ") != 4 {
		t.Errorf("four lies: %v", err)
	}
}

// Where two machines round otherwise, all take the numbers that were stated, so that
// plans, charges and statements agree.
func TestOpenTakesUpWhatWasStated(t *testing.T) {
	for _, settings := range []string{devicesSettings, itemPartySettings} {
		from := opened.Experiment(t, settings)
		p := publish(t, from)
		for _, r := range p.Terms.Steps.All() {
			r.Noise.Variance *= 1 + 1e-5
			r.Noise.Multiplier *= 1 + 1e-5
		}
		noise := p.Terms.Steps.Noise()
		e, err := agreement.Open(carried(t, p))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(e.Schedule, p.Terms.Steps) || reflect.DeepEqual(e.Schedule, from.Schedule) {
			t.Errorf("%s: the release is %+v, stated is %+v", settings, e.Schedule, p.Terms.Steps)
		}
		got, err := e.Planned()
		if err != nil {
			t.Fatal(err)
		}
		want, err := from.Planned()
		if err != nil {
			t.Fatal(err)
		}
		// More noise of 1e-5 costs between half and twice as much less of ε here.
		if less := 1 - got.Epsilon/want.Epsilon; less < 2e-6 || less > 4e-5 {
			t.Errorf("%s: with more noise it costs %v instead of %v", settings, got, want)
		}
		s, err := e.Strategy()
		if err != nil {
			t.Fatal(err)
		}
		plan, _, err := s.Next()
		if err != nil || plan.Releases[0].Noise.Variance != noise.Variance || plan.Releases[0].Noise.Multiplier != noise.Multiplier {
			t.Errorf("%s: planned is %+v, %v", settings, plan.Releases[0].Noise, err)
		}
		if run := e.Privacy.Run[0]; run.Variance != noise.Variance || run.NoiseMultiplier != noise.Multiplier {
			t.Errorf("%s: a run is charged as %+v", settings, e.Privacy.Run)
		}
	}
}

// told gives a key another value.
func told(key, value string) func(*agreement.Public) {
	return func(p *agreement.Public) {
		if err := p.Config.Set(key, value); err != nil {
			panic(err)
		}
	}
}

// A configuration that is not one of a deployment, or leaves something open, and facts
// that cannot be.
func TestOpenRefusesAgreements(t *testing.T) {
	const vfl, category = "algorithm=fmf-vfl parties=3", "algorithm=fmf-vfl parties=3 partition=category"
	for _, tt := range []struct {
		settings string
		change   func(*agreement.Public)
		reason   string
	}{
		{"", func(p *agreement.Public) { p.Session = protocol.SessionID{} }, "there is no session"},
		{"", told("secagg", "ideal"), "secagg is ideal; as it is deployed it is real"},
		{"", told("secagg", "none"), "secagg: none is a plain sum"},
		{"", told("noise-draw", "sum"), "noise-draw is sum; as it is deployed it is client"},
		{"", told("noise", "replace"), "noise: replaced noise shows every sum twice"},
		{"", told("algorithm", "sgd-mf"), "algorithm: sgd-mf has all ratings in one place"},
		{"", told("rank", "auto"), "rank is auto; with nothing left open it is 1"},
		{"", told("model.learning-rate", "auto"), "model.learning-rate is auto; with nothing left open it is 0."},
		{"", told("rounds", "0"), "rounds: 0 is not a whole number from 1"},
		{"", told("delta", "0.01"), "delta: dp: delta is too large: 0.01 is not below 1/600"},
		{"", told("rating-max", "4"), "the rating scale is 0.5 to 5; the configuration states 0.5 to 4"},
		{"", told("mode", "active"), "secagg real: "},
		{"", told("epsilon", "1e-9"), "samplers go up to"},
		{vfl, told("parties", "1"), "parties: a single party has no other party to hide among"},
		{vfl, told("parties", "401"), "impossible number of parties: 401 for 400 items"},
		{"algorithm=fmf-hfl", told("parties", "601"), "impossible number of parties: 601 for 600 users"},
		{"", func(p *agreement.Public) { p.Facts.Name = "" }, "the name is not a text of 1 to 255 bytes in UTF-8"},
		{"", func(p *agreement.Public) { p.Facts.Name = strings.Repeat("a", 256) }, "the name is not a text of 1 to 255 bytes in UTF-8"},
		{"", func(p *agreement.Public) { p.Facts.Name = "synthetic:ours" }, "counts of a set of this name are published: true; as far as is known here: false"},
		{"", func(p *agreement.Public) { p.Facts.Published = false }, "are published: false; as far as is known here: true"},
		{"", func(p *agreement.Public) { p.Facts.Min = -1 }, "the rating scale is -1 to 5; there must be two finite numbers"},
		{"", func(p *agreement.Public) { p.Facts.Max = math.Inf(1) }, "the rating scale is 0.5 to +Inf; there must be two finite numbers"},
		{"", func(p *agreement.Public) { p.Facts.Max = 0.5 }, "the rating scale is 0.5 to 0.5; there must be two finite numbers"},
		{"", func(p *agreement.Public) { p.Facts.Min = math.NaN() }, "the rating scale is NaN to 5; there must be two finite numbers"},
		{"", func(p *agreement.Public) { p.Facts.Users = 0 }, "there are 0 users and 400 items; of each at least 1"},
		{"", func(p *agreement.Public) { p.Facts.Users = 1<<22 + 1 }, "there are 4194305 users and 400 items; of each at least 1 and at most 4194304"},
		{"", func(p *agreement.Public) { p.Facts.ItemIDs = nil }, "there are 600 users and 0 items"},
		{"", func(p *agreement.Public) { p.Facts.Users = 1 << 20; told("rank", "129")(p) }, "at rank 129 are too many; at most 134217728 coordinates"},
		{"", func(p *agreement.Public) { p.Facts.ItemIDs[7] = p.Facts.ItemIDs[3] }, `items 3 and 7 have one id, "4"`},
		{"", func(p *agreement.Public) { p.Facts.ItemIDs[7] = "" }, `the id of item 7 is ""; it must be a text in UTF-8`},
		{"", func(p *agreement.Public) { p.Facts.ItemIDs[7] = "\xff" }, `the id of item 7 is "\xff"; it must be a text in UTF-8`},
		{"", func(p *agreement.Public) { p.Facts.UserIDs = []string{"42"} }, "the ids of 1 users are stated; lfl-sgdmf does not need them"},
		{"", func(p *agreement.Public) { p.Facts.Genres = [][]string{{"War"}} }, "genres of 1 items are stated; nothing is dealt by them"},
		{vfl, func(p *agreement.Public) { p.Facts.UserIDs = p.Facts.UserIDs[:599] }, "599 ids for 600 users; parties that hold items line up rows by them"},
		{vfl, func(p *agreement.Public) { p.Facts.UserIDs[1] = p.Facts.UserIDs[0] }, `users 0 and 1 have one id, "1"`},
		{category, func(p *agreement.Public) { p.Facts.Genres = nil }, "genres of 0 items are stated; there are 400"},
		{category, func(p *agreement.Public) { p.Facts.Genres = make([][]string, 400) }, "no categories"},
		// The terms are about other facts.
		{"", func(p *agreement.Public) { p.Facts.Users = 601 }, "clients is 600; it must be 601"},
		{"", func(p *agreement.Public) { p.Facts.ItemIDs = p.Facts.ItemIDs[:399] }, "length is 400; it must be 399"},
		{"", func(p *agreement.Public) { p.Facts.Max = 4; told("rating-max", "4")(p) }, "l2 is 22.360679774997898; it must be 16"},
	} {
		p := carried(t, publish(t, opened.Experiment(t, tt.settings)))
		tt.change(p)
		if e, err := agreement.Open(p); err == nil || e != nil || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: error %v, want %q in it", tt.settings, err, tt.reason)
		}
	}
}

// TestDecodeRefuses checks that Decode refuses bytes that are not a canonical encoding.
func TestDecodeRefuses(t *testing.T) {
	good, err := os.ReadFile("testdata/public.json")
	if err != nil {
		t.Fatal(err)
	}
	text := string(good)
	instead := func(old, with string) string {
		if strings.Count(text, old) != 1 {
			t.Fatalf("%q is %d times in the file", old, strings.Count(text, old))
		}
		return strings.Replace(text, old, with, 1)
	}
	for _, tt := range []struct{ what, text, reason string }{
		{"nothing", "", "EOF"},
		{"half", text[:len(text)/2], "unexpected EOF"},
		{"no line feed", strings.TrimSuffix(text, "\n"), "not the canonical one"},
		{"a space", instead(`"facts":{`, `"facts": {`), "not the canonical one"},
		{"another one behind it", text + text, "something follows its end"},
		{"a second entry", instead(`"rank":"1"`, `"rank":"2","rank":"1"`), `the name "rank" is there twice`},
		{"another order", instead(`"rating-max":"5","rating-min":"1"`, `"rating-min":"1","rating-max":"5"`), "not the canonical one"},
		{"capitals", instead(`"published"`, `"Published"`), "not the canonical one"},
		{"another form of a number", instead(`"tolerance":"0.25"`, `"tolerance":"0.250"`), "not the canonical one"},
		{"escapes", instead(`"é"`, `"\u00e9"`), "not the canonical one"},
		{"an unknown key", instead(`"rank":"1"`, `"rank":"1","ranks":"1"`), "not the canonical one"},
		{"an unknown entry", instead(`"published"`, `"secret":1,"published"`), `unknown field "secret"`},
		{"a key of simulations", instead(`"rank":"1"`, `"dropout":"0.5","rank":"1"`), "not the canonical one"},
		{"a missing key", instead(`"rank":"1",`, ``), "its configuration lacks rank"},
		{"a wrong value", instead(`"rank":"1"`, `"rank":"one"`), `rank: "one" is not a number, inf or auto`},
		{"another version", instead("fedsim/agreement/public/v1", "fedsim/agreement/public/v2"), `its format is "fedsim/agreement/public/v2"; this version reads`},
		{"a short session", instead("fed5000", "fed500"), "16 bytes in hex are needed"},
		{"a session that is no number", instead("fed5000", "fed50x0"), "16 bytes in hex are needed"},
		{"a session in capitals", instead("fed5000", "FED5000"), "not the canonical one"},
		{"unknown noise", instead(`"kind":"none"`, `"kind":"laplace"`), "it must be one of none, split, replace, own, local"},
		{"too much", text + strings.Repeat(" ", agreement.MaxPublic), "at most 67108864 are read"},
	} {
		p, err := agreement.Decode([]byte(tt.text))
		if err == nil || p != nil || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: error %v, want %q in it", tt.what, err, tt.reason)
		}
	}
}

// FuzzDecode checks that Encode writes a decoded publication as it came, and that judging it never panics.
func FuzzDecode(f *testing.F) {
	good, err := os.ReadFile("testdata/public.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(bytes.Replace(good, []byte("fmf-lfl"), []byte("fmf-vfl"), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := agreement.Decode(b)
		if err != nil {
			return
		}
		if again, err := p.Encode(); err != nil || !bytes.Equal(again, b) {
			t.Errorf("it is written as\n%s\n%v, and was read from\n%s", again, err, b)
		}
		if c, err := algorithm.Deployed(p.Config); err == nil && c.Equal(p.Config) {
			_ = p.Facts.Validate(c)
		}
	})
}

// Every plan of the server's is one of the experiment's, in every round; a plan with
// one thing changed is not.
func TestCheckPlan(t *testing.T) {
	for _, settings := range []string{devicesSettings, itemPartySettings, "algorithm=vfl-sgdmf unit=user accountant=rdp rounds=3 item-steps=2", "algorithm=fmf-hfl rounds=3", "algorithm=hfl-synsgd accountant=rdp rounds=3"} {
		e := opened.Joined(t, opened.Experiment(t, settings))
		s, err := e.Strategy()
		if err != nil {
			t.Fatal(err)
		}
		var last *protocol.Plan
		for {
			p, done, err := s.Next()
			if err != nil {
				t.Fatal(err)
			}
			if done {
				break
			}
			if err := agreement.CheckPlan(e, p); err != nil {
				t.Errorf("%s: %v", settings, err)
			}
			last = p
		}
		for what, change := range map[string]func(*protocol.Plan){
			"session is":              func(p *protocol.Plan) { p.Session[0]++ },
			"round 0 is planned":      func(p *protocol.Plan) { p.Round = 0 },
			"is planned; there are 1": func(p *protocol.Plan) { p.Round++ },
			"phase is":                func(p *protocol.Plan) { p.Phase = "another" },
			"clients is":              func(p *protocol.Plan) { p.Cohort.Clients++ },
			"tolerance is":            func(p *protocol.Plan) { p.Cohort.Tolerance += 1e-12 },
			"colluders is":            func(p *protocol.Plan) { p.Cohort.Colluders = 0 },
			"number of releases is 2": func(p *protocol.Plan) { p.Releases = append(p.Releases, p.Releases[0]) },
			"number of releases is 0": func(p *protocol.Plan) { p.Releases = nil },
			"name is":                 func(p *protocol.Plan) { p.Releases[0].Name = "another" },
			"length is":               func(p *protocol.Plan) { p.Releases[0].Len-- },
			"l2 is":                   func(p *protocol.Plan) { p.Releases[0].L2 *= 1 - 1e-15 },
			"l1 is":                   func(p *protocol.Plan) { p.Releases[0].L1 = 1 },
			"linf is":                 func(p *protocol.Plan) { p.Releases[0].LInf++ },
			"max non zero is":         func(p *protocol.Plan) { p.Releases[0].MaxNonZero-- },
			"scale is":                func(p *protocol.Plan) { p.Releases[0].Scale *= 2 },
			"ring bits is":            func(p *protocol.Plan) { p.Releases[0].Width-- },
			"noise variance is":       func(p *protocol.Plan) { p.Releases[0].Noise.Variance = 1 },
			"noise multiplier is":     func(p *protocol.Plan) { p.Releases[0].Noise.Multiplier = 1 },
			"noise steps is":          func(p *protocol.Plan) { p.Releases[0].Noise.Steps++ },
			"noise sampling rate is":  func(p *protocol.Plan) { p.Releases[0].Noise.SamplingRate = 0.5 },
			"noise spread is":         func(p *protocol.Plan) { p.Releases[0].Noise.Spread = !p.Releases[0].Noise.Spread },
			"noise kind is replace":   func(p *protocol.Plan) { p.Releases[0].Noise.Kind = protocol.TwoRound },
		} {
			p := *last
			p.Releases = slices.Clone(last.Releases)
			change(&p)
			if err := agreement.CheckPlan(e, &p); !errors.Is(err, agreement.ErrTerms) || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: error %v, want %q in it", settings, err, what)
			}
		}
	}
}

// The steps that are paid for in advance stand in the last plan, and in no other.
func TestCheckPlanOfTheLastRound(t *testing.T) {
	e := opened.Joined(t, opened.Experiment(t, itemPartySettings)) // 10 steps a round, 3 after the fourth
	for round, steps := range []int{10, 10, 10, 13} {
		for asked := 9; asked <= 14; asked++ {
			p := e.Plan(uint64(round + 1))
			p.Releases[0].Noise.Steps = asked
			if err := agreement.CheckPlan(e, p); (err == nil) != (asked == steps) {
				t.Errorf("round %d, %d steps: %v", round+1, asked, err)
			}
		}
	}
}

// TestSpentAtMost checks the bound on the cost of attempts, with the events counted by hand. Each attempt has one Skellam release
// (LFL), or T' sampled steps and κ more with the last of T (VFL). The steps count at every party where a user's
// ratings lie with all parties.
func TestSpentAtMost(t *testing.T) {
	for _, tt := range []struct {
		settings string
		attempts int
		steps    int // number of events, all of one kind
	}{
		{devicesSettings, 1, 1}, {devicesSettings, 7, 7}, {devicesSettings, 10, 10},
		{itemPartySettings, 1, 10}, {itemPartySettings, 3, 30}, {itemPartySettings, 4, 43},
		{"algorithm=vfl-sgdmf unit=user accountant=rdp rounds=3 item-steps=2 parties=4", 2, 80},
		{"algorithm=vfl-sgdmf unit=user accountant=rdp rounds=3 item-steps=2 parties=4", 3, 128},
		{"algorithm=hfl-synsgd accountant=rdp rounds=30", 30, 30},
	} {
		e := opened.Joined(t, opened.Experiment(t, tt.settings))
		n, b := e.Schedule.First().Noise, e.Privacy.Budget
		event := dp.SubsampledGaussian(n.Multiplier, n.SamplingRate)
		if n.Kind == protocol.Split {
			d2, d1 := e.Schedule.First().Bounds()
			event = dp.Skellam(n.Variance, d2, d1)
		}
		want, err := dp.Problem{Events: []dp.Event{event.Times(tt.steps)}, Delta: b.Delta, Accountant: b.Accountant, SamplerError: b.SamplerError}.Epsilon()
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.SpentAtMost(tt.attempts)
		if err != nil || got != want {
			t.Errorf("%s: %d attempts cost %v, %v, want %v", tt.settings, tt.attempts, got, err, want)
		}
		planned, err := e.Planned()
		if err != nil || (tt.attempts == e.Schedule.Rounds()) != (planned == got) {
			t.Errorf("%s: %d attempts cost %v, all planned ones %v (%v)", tt.settings, tt.attempts, got, planned, err)
		}
		// No client's ledger holds more.
		ledger, err := dp.NewLedger(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := e.Strategy()
		if err != nil {
			t.Fatal(err)
		}
		for range tt.attempts {
			p, _, err := s.Next()
			if err != nil {
				t.Fatal(err)
			}
			events, err := p.Charges()
			if err != nil {
				t.Fatal(err)
			}
			if err := ledger.Charge(p.Session, p.Round, events); err != nil {
				t.Fatalf("%s: %v", tt.settings, err)
			}
		}
		if ledger.Spent().Epsilon > got.Epsilon {
			t.Errorf("%s: a ledger holds %v, at most is %v", tt.settings, ledger.Spent(), got)
		}
	}
	e := opened.Joined(t, opened.Experiment(t, devicesSettings))
	if got, err := e.SpentAtMost(0); err != nil || got.Epsilon != 0 {
		t.Errorf("no attempt costs %v, %v", got, err)
	}
	for _, attempts := range []int{-1, 11} {
		if _, err := e.SpentAtMost(attempts); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d attempts; there are at most 10", attempts)) {
			t.Errorf("%d attempts: %v", attempts, err)
		}
	}
	free := opened.Joined(t, opened.Experiment(t, "algorithm=fmf-lfl"))
	got, err := free.SpentAtMost(3)
	if s := free.Statement(got); err != nil || !math.IsInf(got.Epsilon, 1) || s.Validate() != nil {
		t.Errorf("without privacy: %v, %v, %s", got, err, s)
	}
}

// Sums are among the clients of the list, where the mode rests on it.
func TestSumParams(t *testing.T) {
	list := make([]ed25519.PublicKey, 10)
	for i := range list {
		list[i] = bytes.Repeat([]byte{byte(i)}, ed25519.PublicKeySize)
	}
	active := opened.Joined(t, opened.Experiment(t, "algorithm=fmf-vfl rounds=7 secagg=real mode=active"))
	p := active.SumParams(list)
	if p.Mode != secagg.Active || p.Rounds != 7 || !cmp.Equal(p.Identities, list) || len(p.Beacon) > 0 {
		t.Errorf("active: %+v", p)
	}
	s, err := active.Strategy()
	if err != nil {
		t.Fatal(err)
	}
	plan, _, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(plan); err != nil {
		t.Error(err)
	}
	if err := active.SumParams(list[:9]).Validate(plan); err == nil || !strings.Contains(err.Error(), "9 keys for 10 clients") {
		t.Errorf("a list of nine: %v", err)
	}
	if p := opened.Joined(t, opened.Experiment(t, "algorithm=fmf-vfl rounds=7")).SumParams(list); p.Mode != secagg.SemiHonest || p.Identities != nil || p.Rounds != 7 {
		t.Errorf("semi-honest: %+v", p)
	}
}

// The key's words are the names of the modes: an experiment compares them.
func TestModesAreNamedAsTheirKeySays(t *testing.T) {
	names := []string{secagg.SemiHonest.String(), secagg.Active.String()}
	if d := cmp.Diff(names, algorithm.Mode.Words); d != "" || algorithm.Mode.Default != names[0] {
		t.Errorf("default %q, words (-want +got):\n%s", algorithm.Mode.Default, d)
	}
}
