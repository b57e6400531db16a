package training_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/protocol"
)

// ownerFile writes a party's own file.
func ownerFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRecordsThatCannotBeUsedAreLeftOut checks that taking part does not depend on ratings. A user whose file holds no rating,
// a rating off the scale or a pair twice takes part with the rest of the file, and the file's owner is told the line. The
// expected rest stands beside each file: written by hand, not by the reader.
func TestRecordsThatCannotBeUsedAreLeftOut(t *testing.T) {
	const header, rest = "user,item,rating\n", "someone-1,item-2,3\nsomeone-1,item-4,5\n"
	files := []struct{ name, file, left, told string }{
		{"none", header, header, "no rating"},
		{"no bytes", "", header, "no rating"},
		{"off the scale", header + "someone-1,item-1,7\n" + rest, header + rest, "own.csv:2: rating \"7\" is outside the range 0 to 5"},
		{"all off the scale", header + "someone-1,item-1,-7\n", header, "own.csv:2: "},
		{"no number", header + rest + "someone-1,item-1,good\n", header + rest, "own.csv:4: "},
		{"a field too many", header + "someone-1,item-1,4,4\n" + rest, header + rest, "own.csv:2: "},
		{"no item", header + "someone-1,,4\n" + rest, header + rest, "own.csv:2: "},
		{"a pair twice", header + "someone-1,item-4,1\n" + rest, header + rest, "own.csv:2: user \"someone-1\" rates item \"item-4\" again on line 4"},
		{"a pair thrice", header + "someone-1,item-4,1\nsomeone-1,item-4,2\n" + rest, header + rest, "own.csv:3: "},
		{"twice, once off the scale", header + rest + "someone-1,item-4,70\n", header + rest, "own.csv:4: "},
		{"a quote astray", header + "someone-1,it\"e\"m-1,4\n" + rest, header + rest, "own.csv:2: "},
		{"a quote left open", header + rest + "someone-1,\"item-1,4\n", header + rest, "own.csv:4: "},
		{"somebody else's", header + "someone-2,item-1,4\n", header, "no rating"},
	}
	for _, settings := range []string{"contribution=all-ratings rounds=2", "rounds=2", "algorithm=dpals rounds=2", "algorithm=private-item-bias"} {
		sim := opened.Experiment(t, "split.test=0 "+settings+" data="+opened.Crowd(t, 70, 20, 1))
		e := opened.Joined(t, sim)
		for _, c := range files {
			t.Run(settings+" "+c.name, func(t *testing.T) {
				var told []string
				party := func(text string) *experiment.Party {
					set, err := experiment.OpenOwn(t.Context(), e, ownerFile(t, "own.csv", text), func(err *dataset.FileError) { told = append(told, err.Error()) })
					if err != nil {
						t.Fatal(err)
					}
					p, err := e.Party(algorithm.PartyData{User: "someone-1"}, set, plannedBy(e))
					if err != nil {
						t.Fatal(err)
					}
					return p
				}
				want, told2 := party(c.left), len(told)
				got := party(c.file)
				if said := strings.Join(told[told2:], "\n"); c.told != "no rating" && !strings.Contains(said, c.told) {
					t.Errorf("the owner is told %q, want %q", said, c.told)
				}
				if c.left == header && got.Ratings != 0 {
					t.Errorf("an empty record trains on %d ratings", got.Ratings)
				}
				checkSame(t, c.name, e, got, e, want, 2)
				if len(got.Result()) == 0 || got.Result()[0].IDs[0] != "someone-1" {
					t.Errorf("it ends with %v", got.Result())
				}
			})
		}
	}
}

// TestFilesThatAreNoRecord checks that faults that are not about ratings are errors.
func TestFilesThatAreNoRecord(t *testing.T) {
	e := opened.Joined(t, opened.Experiment(t, "data="+opened.Crowd(t, 70, 20, 1)))
	for name, path := range map[string]string{
		"no such file":      filepath.Join(t.TempDir(), "none.csv"),
		"no ratings in it":  t.TempDir(),
		"another kind":      ownerFile(t, "own.csv", "a,b,c\n1,2,3\n"),
		"no header":         ownerFile(t, "own.csv", "\x00\x01\x02"),
		"never-ending line": ownerFile(t, "own.csv", "user,item,rating\n"+strings.Repeat("x", 1<<21)+"\n"),
	} {
		if set, err := experiment.OpenOwn(t.Context(), e, path, func(*dataset.FileError) {}); err == nil {
			t.Errorf("%s: %+v", name, set)
		}
	}
}

// A party that is empty is a client of the simulation too: it has a trainer, and contributes
// what an empty record of a deployment does.
func TestEmptyRecordAsSimulated(t *testing.T) {
	for _, settings := range []string{"contribution=all-ratings rounds=2", "rounds=2", "algorithm=dpals rounds=2"} {
		whole := opened.Crowd(t, 70, 20, 1)
		c := opened.Experiment(t, settings+" data="+whole)
		emptied := *c.Data
		emptied.Ratings = dataset.Ratings{Users: c.Data.Users, Items: c.Data.Items}
		for k, u := range c.Data.User {
			if c.Data.UserIDs[u] != "someone-3" {
				emptied.User, emptied.Item, emptied.Value = append(emptied.User, u), append(emptied.Item, c.Data.Item[k]), append(emptied.Value, c.Data.Value[k])
			}
		}
		sim, err := experiment.OpenSet(c.Config, &emptied)
		if err != nil {
			t.Fatal(err)
		}
		if sim.Cohort.Clients != 70 {
			t.Fatalf("%d clients, want 70", sim.Cohort.Clients)
		}
		e := opened.Joined(t, sim)
		set, err := experiment.OpenOwn(t.Context(), e, ownerFile(t, "own.csv", "user,item,rating\n"), func(*dataset.FileError) {})
		if err != nil {
			t.Fatal(err)
		}
		p, err := e.Party(algorithm.PartyData{}, set, plannedBy(e))
		if err != nil {
			t.Fatal(err)
		}
		at := -1
		for u, id := range sim.Data.UserIDs {
			if id == "someone-3" {
				at = u
			}
		}
		checkSame(t, settings, e, p, sim, opened.Federation(t, sim).Trainers[at], 2)
		contributed := contribute(t, e, partyOfSet(t, e, set), 1)
		for _, v := range contributed[0] {
			for part := range v.Parts() {
				for _, x := range part {
					if x != 0 {
						t.Fatalf("%s: an empty record contributes %v", settings, x)
					}
				}
			}
		}
	}
}

func partyOfSet(t *testing.T, e *experiment.Experiment, set *dataset.Set) *experiment.Party {
	t.Helper()
	p, err := e.Party(algorithm.PartyData{}, set, func(*protocol.Plan) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// weights returns a party's stated share in each round: the last coordinate of its one
// vector, which no noise hides.
func weights(t *testing.T, e *experiment.Experiment, p *experiment.Party) []float64 {
	t.Helper()
	var list []float64
	for _, vectors := range contribute(t, e, p, 2) {
		var last float64
		for part := range vectors[0].Parts() {
			last = part[len(part)-1]
		}
		list = append(list, last)
	}
	return list
}

// TestWeightsDoNotFollowFromRatings checks that an organisation's weight, which is public and exact, does not move with a
// rating. The weight is m_k/m or n_k/n of the number that its owner states. Without a statement the organisation takes no part. The
// two examples once gave a rating away: 3 of 6 items became 2 of 6, and 5 of 8 users became
// 4 of 8.
func TestWeightsDoNotFollowFromRatings(t *testing.T) {
	whole := "user,item,rating\n"
	for u := range 8 {
		for i := range 6 {
			whole += "u" + string(rune('0'+u)) + ",i" + string(rune('0'+i)) + ",3\n"
		}
	}
	data := ownerFile(t, "whole.csv", whole)
	for _, c := range []struct {
		settings, file, less, more string
		ids                        []string
		want                       float64
		remedy                     string
	}{
		{
			"algorithm=fmf-vfl parties=2 colluders=0 rounds=2", "u0,i0,3\nu1,i1,3\nu2,i2,3\n", "u0,i0,3\nu1,i1,3\n", "u0,i0,3\nu1,i1,3\nu2,i2,3\nu2,i3,3\n",
			[]string{"i2", "i0", "i1"}, 0.5, "the items",
		},
		{
			"algorithm=fmf-hfl parties=2 colluders=0 rounds=2", "u0,i0,3\nu1,i1,3\nu2,i1,3\nu3,i2,3\nu4,i0,3\n", "u0,i0,3\nu1,i1,3\nu2,i1,3\nu3,i2,3\n", "u0,i0,3\nu1,i1,3\nu2,i1,3\nu3,i2,3\nu4,i0,3\nu5,i0,3\n",
			[]string{"u0", "u1", "u2", "u3", "u4"}, 0.625, "the users",
		},
	} {
		sim := opened.Experiment(t, "split.test=0 "+c.settings+" data="+data)
		e := opened.Joined(t, sim)
		for what, rows := range map[string]string{"all": c.file, "one less": c.less, "one more": c.more, "none": ""} {
			set, err := experiment.OpenOwn(t.Context(), e, ownerFile(t, "own.csv", "user,item,rating\n"+rows), func(*dataset.FileError) {})
			if err != nil {
				t.Fatal(err)
			}
			if p, refused := e.Party(algorithm.PartyData{}, set, plannedBy(e)); refused == nil || !strings.Contains(refused.Error(), c.remedy) {
				t.Errorf("%s, %s: without a list %v, %v; want it refused with the remedy", c.settings, what, p, refused)
			}
			p, err := e.Party(algorithm.PartyData{IDs: c.ids}, set, plannedBy(e))
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range weights(t, e, p) {
				if w != c.want {
					t.Errorf("%s, %s: weight %v, want %v", c.settings, what, w, c.want)
				}
			}
		}
	}
}

// A list that cannot be is refused for what it is, whatever the ratings are.
func TestListsThatCannotBe(t *testing.T) {
	vfl := opened.Joined(t, opened.Experiment(t, "algorithm=fmf-vfl parties=3 rounds=2 data="+opened.Crowd(t, 70, 20, 1)))
	hfl := opened.Joined(t, opened.Experiment(t, "algorithm=fmf-hfl parties=3 rounds=2 data="+opened.Crowd(t, 70, 20, 1)))
	lfl := opened.Joined(t, opened.Experiment(t, "rounds=2 data="+opened.Crowd(t, 70, 20, 1)))
	for _, c := range []struct {
		e      *experiment.Experiment
		which  algorithm.PartyData
		reason string
	}{
		{vfl, algorithm.PartyData{IDs: []string{"item-1", "item-99"}}, `"item-99"`},
		{vfl, algorithm.PartyData{IDs: []string{"item-1", "item-1"}}, `"item-1"`},
		{vfl, algorithm.PartyData{IDs: []string{"item-1"}, Part: 1}, "one of the two"},
		{hfl, algorithm.PartyData{IDs: []string{"x", "y", "x"}}, `"x"`},
		{hfl, algorithm.PartyData{IDs: strings.Fields(strings.Repeat("a ", 71))}, `"a"`},
		{hfl, algorithm.PartyData{IDs: []string{"x"}, Part: 1}, "all 70"},
		{hfl, algorithm.PartyData{Part: 1}, "the users"},
		{lfl, algorithm.PartyData{User: "someone-1", IDs: []string{"x"}}, "a user"},
	} {
		set, err := experiment.OpenOwn(t.Context(), c.e, ownerFile(t, "own.csv", "user,item,rating\nsomeone-1,item-1,3\n"), func(*dataset.FileError) {})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.e.Party(c.which, set, plannedBy(c.e)); !errors.Is(err, algorithm.ErrPartyData) || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%+v: %v, want %q", c.which, err, c.reason)
		}
	}
}
