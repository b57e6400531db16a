package training_test

import (
	"crypto/ed25519"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/opened"
)

// gift is one of a donor with a key from a seed of one byte.
func gift(seed byte, items []string, values ...float32) agreement.Gift {
	g := agreement.Gift{Federation: "f", At: 1, Items: items, Values: values}
	g.Sign(ed25519.NewKeyFromSeed(append(make([]byte, 31), seed)))
	return g
}

// A signature covers all that a gift says.
func TestGiftIsSignedAsAWhole(t *testing.T) {
	for what, change := range map[string]func(*agreement.Gift){
		"federation": func(g *agreement.Gift) { g.Federation = "other" },
		"time":       func(g *agreement.Gift) { g.At++ },
		"item":       func(g *agreement.Gift) { g.Items[0] = "3" },
		"value":      func(g *agreement.Gift) { g.Values[1] = 5 },
		"one less":   func(g *agreement.Gift) { g.Items, g.Values = g.Items[:1], g.Values[:1] },
		"no ratings": func(g *agreement.Gift) { g.Items, g.Values = nil, nil },
		"no value":   func(g *agreement.Gift) { g.Values = g.Values[:1] },
		"key":        func(g *agreement.Gift) { g.Key = gift(2, nil).Key },
		"no key":     func(g *agreement.Gift) { g.Key = nil },
		"signature":  func(g *agreement.Gift) { g.Signature[3]++ },
	} {
		g := gift(1, []string{"1", "2"}, 4, 3)
		if err := g.Verify(); err != nil {
			t.Fatal(err)
		}
		if change(&g); !errors.Is(g.Verify(), agreement.ErrGift) {
			t.Errorf("another %s: %v", what, g.Verify())
		}
	}
}

// All parties know of the donors and their ratings, and the statement counts them.
func TestDonorsAreAgreedOn(t *testing.T) {
	e := opened.Experiment(t, "algorithm=ssp-c epsilon=3 rank=2")
	plain := publish(t, e)
	if strings.Contains(string(encode(t, plain)), "donors") || strings.Contains(plain.Terms.Privacy.String(), "open") {
		t.Error("there are no donors, and the description names them")
	}
	publishWith := func(settings string, gifts ...agreement.Gift) (*agreement.Public, error) {
		e := opened.Experiment(t, settings)
		f, err := agreement.FactsOf(e.Config, e.Data)
		if err != nil {
			t.Fatal(err)
		}
		f.Donors = gifts
		return agreement.Publish(e.Config, f, someSession)
	}
	p, err := publishWith("algorithm=ssp-c epsilon=3 rank=2", gift(2, []string{"9", "1", "unlisted"}, 5, 2, 1), gift(1, []string{"4"}, 3))
	if err != nil {
		t.Fatal(err)
	}
	client, err := agreement.Open(carried(t, p))
	if err != nil {
		t.Fatal(err)
	}
	r := client.Data.Raters
	if r == nil || r.Users != 2 || r.Len() != 3 || p.Terms.Privacy.Open != 2 {
		t.Fatalf("the donors are %+v, and %d are stated; want 2 with 3 ratings of items in the catalogue", r, p.Terms.Privacy.Open)
	}
	items, values := r.ByUser().Row(0)
	if want := slices.Index(client.Data.ItemIDs, "1"); int(items[0]) != want || values[0] != 2 || values[1] != 5 {
		t.Errorf("the first has %v of items %v", values, items)
	}
	p.Terms.Privacy.Open = 1
	if _, err := agreement.Open(p); !errors.Is(err, agreement.ErrTerms) {
		t.Errorf("another count of donors is stated: %v", err)
	}
	for want, of := range map[string]struct {
		settings string
		gifts    []agreement.Gift
	}{
		"two gifts are by the key":        {"algorithm=ssp-c", []agreement.Gift{gift(1, []string{"4"}, 3), gift(1, []string{"5"}, 3)}},
		"outside of the scale":            {"algorithm=ssp-c", []agreement.Gift{gift(1, []string{"4"}, 9)}},
		"have one id":                     {"algorithm=ssp-c", []agreement.Gift{gift(1, []string{"4", "4"}, 3, 3)}},
		"lfl-sgdmf learns from no such":   {"algorithm=lfl-sgdmf", []agreement.Gift{gift(1, []string{"4"}, 3)}},
		"of ssp-c learns from no such":    {"algorithm=ssp-c feedback=implicit", []agreement.Gift{gift(1, []string{"4"}, 3)}},
		"dp-cmf learns from no such":      {"algorithm=dp-cmf", []agreement.Gift{gift(1, []string{"4"}, 3)}},
		"no gift as a user has signed it": {"algorithm=ssp-c", []agreement.Gift{{Items: []string{"4"}, Values: []float32{3}}}},
	} {
		if _, err := publishWith(of.settings, of.gifts...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// encode is the canonical form.
func encode(t *testing.T, p *agreement.Public) []byte {
	t.Helper()
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Users who are drawn from a set that is at hand are of simulations.
func TestDrawnDonorsAreNotDeployed(t *testing.T) {
	c := opened.Experiment(t, "algorithm=ssp-c public-users=3").Config
	if _, err := algorithm.Deployed(c); err == nil || !strings.Contains(err.Error(), "fednode client --donate") {
		t.Error(err)
	}
}
