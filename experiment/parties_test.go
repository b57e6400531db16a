package experiment

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/entropy/simulated"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// rated is a training rating.
type rated struct {
	user, item int32
	value      float32
}

// training are the columns of the split, in order.
func training(e *Experiment) []rated {
	train := e.Split.Train
	all := make([]rated, train.Len())
	for k := range all {
		all[k] = rated{train.User[k], train.Item[k], train.Value[k]}
	}
	slices.SortFunc(all, byUserAndItem)
	return all
}

func byUserAndItem(a, b rated) int {
	return int(a.user-b.user)<<20 + int(a.item-b.item)
}

// Every training rating reaches exactly one party, under its own user and item.
func TestPartiesOfVFLHoldTheTrainingPart(t *testing.T) {
	for _, settings := range []string{"parties=1", "parties=10", "parties=7 seed=3", "partition=category parties=3", "parties=400"} {
		e := open(t, "algorithm=fmf-vfl "+settings)
		var got []rated
		for k, rows := range e.ratingsOfParts() {
			if len(rows) != e.Data.Users {
				t.Fatalf("%s: party %d has rows of %d users", settings, k, len(rows))
			}
			for u, r := range rows {
				for n, place := range r.Items {
					got = append(got, rated{int32(u), e.parts[k][place], r.Values[n]})
				}
			}
		}
		slices.SortFunc(got, byUserAndItem)
		want := training(e)
		if len(got) != len(want) {
			t.Errorf("%s: the parties hold %d ratings, the training part has %d", settings, len(got), len(want))
		}
		for k := range min(len(got), len(want)) {
			if got[k] != want[k] {
				t.Errorf("%s: the parties hold %+v where the training part has %+v", settings, got[k], want[k])
				break
			}
		}
	}
}

// Parties by category differ from random ones, and the trainers own what the
// partition says.
func TestPartitionReachesTheParties(t *testing.T) {
	random, category := open(t, "algorithm=fmf-vfl parties=3"), open(t, "algorithm=fmf-vfl parties=3 partition=category")
	if cmp.Equal(random.parts, category.parts) {
		t.Error("dealt by category, parties own the same items as at random")
	}
	for _, e := range []*Experiment{random, category} {
		f, err := e.Federation()
		if err != nil {
			t.Fatal(err)
		}
		owned := make([]int, e.Data.Items)
		for k, p := range f.parties.(owners) {
			if !slices.Equal(p.Items(), e.parts[k]) {
				t.Errorf("%s: party %d owns %v, want %v", e.Config.Partition, k, p.Items(), e.parts[k])
			}
			for _, j := range p.Items() {
				owned[j]++
			}
		}
		if k := slices.IndexFunc(owned, func(n int) bool { return n != 1 }); k >= 0 {
			t.Errorf("%s: item %d is owned %d times", e.Config.Partition, k, owned[k])
		}
	}
}

// Every user is with exactly one party of HFL, which fits it to all its
// training ratings: by an embedding that depends on each of them.
func TestPartiesOfHFLHoldTheTrainingPart(t *testing.T) {
	e := open(t, "algorithm=fmf-hfl parties=7 rounds=1")
	own := make([]model.Ratings, e.Data.Users)
	for _, r := range training(e) {
		own[r.user].Items, own[r.user].Values = append(own[r.user].Items, r.item), append(own[r.user].Values, r.value)
	}
	f, err := e.Federation()
	if err != nil {
		t.Fatal(err)
	}
	plan, _, err := f.Strategy.Next()
	if err != nil {
		t.Fatal(err)
	}
	found := make([]int, e.Data.Users)
	for k, p := range f.parties.(holders) {
		if _, err := p.Contribute(plan, simulated.New(1, fmt.Sprint(k)), inTurn{}); err != nil {
			t.Fatal(err)
		}
		for i, u := range p.Own() {
			found[u]++
			want := e.Params.User(own[u], e.Params.StartItems())
			if got := p.Users().Row(i); math.Abs(got[0]-want[0]) > 1e-9 {
				t.Errorf("user %d of party %d is fitted to %v, want %v", u, k, got, want)
			}
		}
	}
	if u := slices.IndexFunc(found, func(n int) bool { return n != 1 }); u >= 0 {
		t.Errorf("user %d is with %d parties", u, found[u])
	}
}

// A run without noise and one in which parties train alone are of the same
// parties, data and start, under another session: draws of one say nothing of
// the other's.
func TestVariantsOfOrganisations(t *testing.T) {
	for _, a := range []string{"vfl-sgdmf", "hfl-sgdmf", "hfl-synsgd"} {
		e := open(t, "accountant=rdp dropout=0.2 leave=0.1 away=0.1 algorithm="+a)
		n, err := e.NonPrivate()
		if err != nil {
			t.Fatal(err)
		}
		if n.Steps.First().Noise != (protocol.Noise{}) || n.Config.Private() || n.Privacy.Run != nil || n.session == e.session {
			t.Errorf("%s: without noise it has noise %+v and session %x", a, n.Steps.First().Noise, n.session)
		}
		if !(n.silo.ItemRate > e.silo.ItemRate) || n.Config.Dropout != Fixed(0.2) || n.Config.Leave != 0.1 {
			t.Errorf("%s: without noise the rate is %v, with noise %v; dropout %v", a, n.silo.ItemRate, e.silo.ItemRate, n.Config.Dropout)
		}
		if n.Split != e.Split || !cmp.Equal(n.parts, e.parts) || n.Params != e.Params {
			t.Errorf("%s: without noise there are other parties", a)
		}
		if e.Steps.First().Noise.Kind != protocol.Own || !e.Config.Private() {
			t.Errorf("%s: making the variant changed the experiment", a)
		}
	}
	e := open(t, "algorithm=vfl-sgdmf accountant=rdp dropout=0.2 leave=0.1 away=0.1")
	l, err := e.LocalOnly()
	if err != nil {
		t.Fatal(err)
	}
	// The noise is the same, and nobody's averages it.
	rates := l.silo
	if !(l.silo.UserRate < e.silo.UserRate) {
		t.Errorf("alone the rate is %v, together %v", l.silo.UserRate, e.silo.UserRate)
	}
	rates.UserRate = e.silo.UserRate
	if !reflect.DeepEqual(l.Steps, e.Steps) || rates != e.silo || l.session == e.session || l.Config.Dropout != Fixed(0) || l.Config.Leave != 0 || l.Config.Away != 0 {
		t.Errorf("alone: release %+v, session %x, dropout %v", l.Steps, l.session, l.Config.Dropout)
	}
	for _, a := range []string{"lfl-sgdmf", "hfl-sgdmf"} {
		if l, err := open(t, "accountant=rdp algorithm="+a).LocalOnly(); l != nil || err != nil {
			t.Errorf("%s: training alone is a run of its own: %v, %v", a, l, err)
		}
	}
}

// Runs whose noise differs must not draw the same: the difference of two such
// runs of one seed would cancel noise that each was charged for.
func TestSessionsDifferWithTheNoise(t *testing.T) {
	seen := make(map[protocol.SessionID]string)
	for _, settings := range []string{
		"", "epsilon=5", "rounds=50", "local-steps=5", "sampling-rate=0.1", "item-steps=5", "parties=5", "colluders=0.2", "tolerance=0.1", "rank=2",
		"unit=user", "unit=user clip-ratings=4", "clipping=both clip-norm=1", "clipping=both clip-norm=2", "clipping=gradient clip-norm=2",
	} {
		e := open(t, "algorithm=vfl-sgdmf accountant=rdp "+settings)
		if other, ok := seen[e.session]; ok {
			t.Errorf("%q and %q share a session", other, settings)
		}
		seen[e.session] = settings
	}
	same := open(t, "algorithm=vfl-sgdmf accountant=rdp")
	if seen[same.session] != "" {
		t.Error("the same experiment has another session")
	}
}
