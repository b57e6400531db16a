package training_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families" // the algorithms that there are
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/protocol"
)

// A rating of what the experiment does not list is left out, and counted; the party is
// as if it did not have it.
func TestPartySkipsWhatIsNotListed(t *testing.T) {
	whole := opened.Crowd(t, 70, 20, 1)
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	more := string(content)
	for u := range 3 {
		for i := range 40 {
			more += fmt.Sprintf("someone-%d,new-%d,4\n", u, i)
		}
	}
	for i := range 20 {
		more += fmt.Sprintf("a stranger,item-%d,2\n", i)
	}
	file := filepath.Join(t.TempDir(), "crowd.csv")
	if err := os.WriteFile(file, []byte(more), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		settings string
		which    algorithm.PartyData
		rows     func(user, item string) bool // that the party has but the lists leave out
	}{
		{"contribution=all-ratings", algorithm.PartyData{User: "someone-1"}, func(user, item string) bool { return user == "someone-1" && strings.HasPrefix(item, "new-") }},
		{"algorithm=fmf-vfl parties=3 rounds=2", algorithm.PartyData{IDs: numbered("item-", 20)}, func(user, item string) bool { return strings.HasPrefix(item, "new-") || user == "a stranger" }},
		{"algorithm=fmf-vfl parties=3 rounds=2", algorithm.PartyData{Part: 2}, nil},
		{"algorithm=fmf-hfl parties=3 rounds=2", algorithm.PartyData{IDs: numbered("someone-", 70)}, func(user, item string) bool { return strings.HasPrefix(item, "new-") || user == "a stranger" }},
	} {
		sim := opened.Experiment(t, "split.test=0 "+tt.settings+" data="+whole)
		e := opened.Joined(t, sim)
		set, err := experiment.OpenData(t.Context(), e.Config, file, nil)
		if err != nil {
			t.Fatal(err)
		}
		train, err := split.Training(set, split.Params{Whole: true})
		if err != nil {
			t.Fatal(err)
		}
		without, more := partyOf(t, e, tt.which, whole), partyOf(t, e, tt.which, file)
		if tt.rows == nil {
			owned := opened.Federation(t, sim).Trainers[tt.which.Part-1].(*kernel.Vertical).Own
			tt.rows = func(user, item string) bool {
				own := slices.ContainsFunc(owned, func(j int32) bool { return sim.Data.ItemIDs[j] == item })
				return strings.HasPrefix(item, "new-") || user == "a stranger" && own
			}
		}
		skipped := 0
		for k := range train.Value {
			if tt.rows(set.UserIDs[train.User[k]], set.ItemIDs[train.Item[k]]) {
				skipped++
			}
		}
		if skipped == 0 {
			t.Fatal("nothing is to be skipped")
		}
		checkCounts(t, without, without.Ratings, 0)
		checkCounts(t, more, without.Ratings, skipped)
		checkSame(t, tt.settings, e, more, e, without, 2)
	}
}

// numbered are as many ids.
func numbered(name string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(name, i)
	}
	return list
}

// Data that are not what the party is said to have.
func TestPartyRefusesData(t *testing.T) {
	small := opened.Experiment(t, "").Data
	one := writeRatings(t, small, "one", false, func(u, _ int32) bool { return u == 3 })
	two := writeRatings(t, small, "two", false, func(u, _ int32) bool { return u == 3 || u == 5 })
	strange := *small
	strange.ItemIDs = make([]string, small.Items)
	for j := range strange.ItemIDs {
		strange.ItemIDs[j] = fmt.Sprint("strange ", j)
	}
	ten := *small
	ten.Max = 10
	above := *small
	above.Value = slices.Clone(small.Value)
	for k := range above.Value {
		above.Value[k] = 6
	}
	below := above
	below.Value = slices.Repeat([]float32{-1}, small.Len())
	nameless := *small
	nameless.UserIDs = nil
	crowded := *small
	crowded.Users++
	crowded.UserIDs = append(slices.Clone(small.UserIDs), "one more")
	const lfl, vfl, hfl = "", "algorithm=fmf-vfl parties=3", "algorithm=fmf-hfl parties=3"
	for _, tt := range []struct {
		settings string
		which    algorithm.PartyData
		data     any // a path or a set
		reason   string
	}{
		{lfl, algorithm.PartyData{}, two, "they are of 2 users; say whose they are"},
		{lfl, algorithm.PartyData{User: "4", Part: 1}, one, "a party of lfl-sgdmf is a user, and no part 1 of any"},
		{lfl, algorithm.PartyData{Part: -1}, one, "a party of lfl-sgdmf is a user, and no part -1 of any"},
		{lfl, algorithm.PartyData{User: "4"}, &ten, "their scale is 0.5 to 10, the experiment's is 0.5 to 5"},
		{lfl, algorithm.PartyData{User: "4"}, &above, `user "1" rates item "`},
		{vfl, algorithm.PartyData{Part: 1}, &below, `with -1, outside of the scale of 0 to 5`},
		{vfl, algorithm.PartyData{User: "4"}, one, `a party of fmf-vfl is an organisation, and not the user "4"`},
		{vfl, algorithm.PartyData{Part: 4}, one, "there is no part 4; there are 1 to 3"},
		{vfl, algorithm.PartyData{Part: -1}, one, "there is no part -1; there are 1 to 3"},
		{vfl, algorithm.PartyData{IDs: strange.ItemIDs}, &strange, `the item "strange 0" that is stated is not in the catalogue`},
		{hfl, algorithm.PartyData{User: "4"}, one, `a party of fmf-hfl is an organisation, and not the user "4"`},
		{hfl, algorithm.PartyData{Part: 4}, small, "there is no part 4; there are 1 to 3"},
		{hfl, algorithm.PartyData{Part: 1, IDs: []string{"4", "6"}}, two, "2 users are stated, and a part is dealt of all 600"},
		{hfl, algorithm.PartyData{IDs: crowded.UserIDs}, &crowded, "601 users are stated; all parties together have 600"},
	} {
		e := opened.Joined(t, opened.Experiment(t, tt.settings))
		set, ok := tt.data.(*dataset.Set)
		if !ok {
			var err error
			if set, err = experiment.OpenData(t.Context(), e.Config, tt.data.(string), nil); err != nil {
				t.Fatal(err)
			}
		}
		p, err := e.Party(tt.which, set, plannedBy(e))
		if p != nil || !errors.Is(err, algorithm.ErrPartyData) || !strings.Contains(err.Error(), tt.reason) || !strings.Contains(err.Error(), set.Name+": ") {
			t.Errorf("%s %+v: error %v, want %q and the data's name in it", tt.settings, tt.which, err, tt.reason)
		}
	}
	if _, err := opened.Joined(t, opened.Experiment(t, "")).Party(algorithm.PartyData{User: "4"}, &nameless, nil); err == nil || !strings.Contains(err.Error(), "0 user ids for 600 users") {
		t.Errorf("without ids: %v", err)
	}
	if _, err := opened.Experiment(t, "algorithm=sgd-mf").Party(algorithm.PartyData{}, small, nil); err == nil || !strings.Contains(err.Error(), "all data are in one place") {
		t.Errorf("of sgd-mf: %v", err)
	}
}

// A party's data are opened on the scale of the experiment, whatever their format's is.
func TestOpenDataOnTheScale(t *testing.T) {
	e := opened.Joined(t, opened.Experiment(t, "rating-max=6 data="+opened.Crowd(t, 70, 20, 1))) // 0 to 6; the format has 0 to 5
	set, err := experiment.OpenData(t.Context(), e.Config, opened.Crowd(t, 2, 20, 3), nil)
	if err != nil || set.Min != 0 || set.Max != 6 {
		t.Errorf("scale %v to %v, %v; want 0 to 6", set.Min, set.Max, err)
	}
	e = opened.Joined(t, opened.Experiment(t, ""))
	heard := int64(0)
	if set, err = experiment.OpenData(t.Context(), e.Config, writeRatings(t, e.Data, "none", false, nil), func(done, _ int64) { heard = done }); err == nil || set != nil {
		t.Errorf("without ratings: %v", err)
	}
	whole := wholeSet(t, false)
	if _, err = experiment.OpenData(t.Context(), e.Config, whole, func(done, _ int64) { heard = done }); err != nil || heard == 0 {
		t.Errorf("%v; progress heard %d", err, heard)
	}
}

// To a plan that counts on fewer colluders, and so on less noise, a party contributes
// nothing, and is then as it was before.
func TestPartyRefusesPlans(t *testing.T) {
	for _, tt := range []struct {
		settings string
		which    algorithm.PartyData
	}{
		{"contribution=all-ratings", algorithm.PartyData{User: "4"}}, {"algorithm=vfl-sgdmf accountant=rdp parties=3 rounds=2", algorithm.PartyData{Part: 1}}, {"algorithm=hfl-sgdmf accountant=rdp parties=3 rounds=2", algorithm.PartyData{Part: 1, IDs: numbered("", 601)[1:]}},
	} {
		e := opened.Joined(t, opened.Experiment(t, tt.settings))
		party, untouched := partyOf(t, e, tt.which, "synthetic:small"), partyOf(t, e, tt.which, "synthetic:small")
		s, err := e.Strategy()
		if err != nil {
			t.Fatal(err)
		}
		plan, _, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		crafted := *plan
		crafted.Cohort.Colluders = 0
		if v, err := party.Contribute(&crafted, simulated.New(1, "party"), protocol.Workers(1)); v != nil || !errors.Is(err, agreement.ErrTerms) {
			t.Errorf("%s: %v", tt.settings, err)
		}
		checkSame(t, tt.settings, e, party, e, untouched, 2)
	}
}

// A party has no result before it finished, nor after it could not.
func TestResultOfAFinishedParty(t *testing.T) {
	for settings, which := range map[string]algorithm.PartyData{"": {User: "4"}, "algorithm=fmf-vfl parties=3": {Part: 1}, "algorithm=fmf-hfl parties=3": {Part: 1, IDs: numbered("", 601)[1:]}} {
		e := opened.Joined(t, opened.Experiment(t, settings))
		party := partyOf(t, e, which, "synthetic:small")
		if party.Result() != nil {
			t.Errorf("%s: a result before the end", settings)
		}
		if err := party.Finish(make([]byte, 3), protocol.Workers(1)); err == nil || party.Result() != nil {
			t.Errorf("%s: a model of three bytes: %v, result %v", settings, err, party.Result())
		}
		s, err := e.Strategy()
		if err != nil {
			t.Fatal(err)
		}
		if err := party.Finish(s.Model(), protocol.Workers(1)); err != nil || len(party.Result()) == 0 {
			t.Errorf("%s: %v, result %v", settings, err, party.Result())
		}
		for _, x := range party.Result()[0].Data() {
			if math.IsNaN(x) || x < 0 {
				t.Fatalf("%s: it ends with %v", settings, x)
			}
		}
	}
}
