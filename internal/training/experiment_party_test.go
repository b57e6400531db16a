package training_test

import (
	"archive/zip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families" // the algorithms that there are
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// writeRatings writes a set's ratings, those wanted, as a folder in MovieLens' format
// of the name, or packed into an archive.
func writeRatings(t *testing.T, set *dataset.Set, name string, packed bool, wanted func(user, item int32) bool) string {
	t.Helper()
	var csv strings.Builder
	csv.WriteString("userId,movieId,rating,timestamp\n")
	for k, v := range set.Value {
		if wanted(set.User[k], set.Item[k]) {
			fmt.Fprintf(&csv, "%s,%s,%v,0\n", set.UserIDs[set.User[k]], set.ItemIDs[set.Item[k]], v)
		}
	}
	dir := filepath.Join(t.TempDir(), name)
	if !packed {
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "ratings.csv"), []byte(csv.String()), 0o600)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	f, err := os.Create(dir + ".zip")
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	w, err := z.Create(name + "/ratings.csv")
	if err == nil {
		_, err = w.Write([]byte(csv.String()))
	}
	if err = errors.Join(err, z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// partyOf makes the party of an experiment that has the data.
func partyOf(t *testing.T, e *experiment.Experiment, which algorithm.PartyData, data string) *experiment.Party {
	t.Helper()
	set, err := experiment.OpenData(t.Context(), e.Config, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.Party(which, set, plannedBy(e))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// plannedBy checks plans as a deployment's client does.
func plannedBy(e *experiment.Experiment) func(*protocol.Plan) error {
	return func(p *protocol.Plan) error { return agreement.CheckPlan(e, p) }
}

// contribute runs rounds of an experiment at one party, which is told as the
// average what it sent itself, and returns all that it contributes.
func contribute(t *testing.T, e *experiment.Experiment, party client.Trainer, rounds int) [][]protocol.Vector {
	t.Helper()
	strategy, err := e.Strategy()
	if err != nil {
		t.Fatal(err)
	}
	src := simulated.New(5, "the party")
	var all [][]protocol.Vector
	for range rounds {
		plan, _, err := strategy.Next()
		if err != nil {
			t.Fatal(err)
		}
		vectors, err := party.Contribute(plan, src, protocol.Workers(1))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, vectors)
		sums := protocol.Sums{Survivors: e.Cohort.Required()}
		for k, v := range vectors {
			sum := make([]float64, plan.Releases[k].Len)
			at := 0 // in what is listed
			for part := range v.Parts() {
				for _, x := range part {
					j := at
					if v.Index != nil {
						block := max(v.Block, 1)
						j = int(v.Index[at/block])*block + at%block
					}
					sum[j] = x
					at++
				}
			}
			sums.Values = append(sums.Values, sum)
		}
		if err := strategy.Absorb(plan, sums, protocol.Workers(1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := party.Finish(strategy.Model(), protocol.Workers(1)); err != nil {
		t.Fatal(err)
	}
	return all
}

// checkSame compares a party with the simulator's trainer of the same client, bit by
// bit, over some rounds. The server's sides are of the two experiments, in one session.
func checkSame(t *testing.T, what string, e *experiment.Experiment, party client.Trainer, sim *experiment.Experiment, simulated client.Trainer, rounds int) {
	t.Helper()
	got, want := contribute(t, e, party, rounds), contribute(t, sim, simulated, rounds)
	if !reflect.DeepEqual(want, got) {
		t.Errorf("%s: contributions (-simulated +party):\n%.2000s", what, cmp.Diff(want, got))
	}
}

// wholes are where all ratings come from.
var wholes = map[string]func(t *testing.T) string{
	"synthetic": func(*testing.T) string { return "synthetic:small-80" },
	"folder":    func(t *testing.T) string { return wholeSet(t, false) },
	"zip":       func(t *testing.T) string { return wholeSet(t, true) },
}

// wholeSet are the ratings of synthetic:small-80 as a file, without a list of items.
func wholeSet(t *testing.T, packed bool) string {
	t.Helper()
	set, err := read.Open(t.Context(), "synthetic:small-80", read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return writeRatings(t, set, "whole", packed, func(int32, int32) bool { return true })
}

// A device that holds its own user's ratings alone, or finds that user among others',
// contributes bit for bit what the simulator has it contribute.
func TestDevicesAsSimulated(t *testing.T) {
	for name, whole := range wholes {
		for _, settings := range []string{"rank=2", "contribution=all-ratings seed=3"} {
			t.Run(name+" "+settings, func(t *testing.T) {
				t.Parallel()
				data := whole(t)
				sim := opened.Experiment(t, "split.test=0 "+settings+" data="+data)
				e := opened.Joined(t, sim)
				for _, user := range []int{0, 41, 79} {
					id := sim.Data.UserIDs[user]
					alone := writeRatings(t, sim.Data, "mine", name == "zip", func(u, _ int32) bool { return int(u) == user })
					for what, party := range map[string]*experiment.Party{
						"alone": partyOf(t, e, algorithm.PartyData{}, alone), "alone, named": partyOf(t, e, algorithm.PartyData{User: id}, alone), "among all": partyOf(t, e, algorithm.PartyData{User: id}, data),
					} {
						items, _ := sim.Train.Row(user)
						checkCounts(t, party, len(items), 0)
						f := opened.Federation(t, sim)
						checkSame(t, "user "+id+" "+what, e, party, sim, f.Trainers[user], 3)
						u := model.NewMatrix(1, algorithm.Rank.Int(e.Config))
						copy(u.Row(0), f.Trainers[user].(*kernel.User).U)
						checkResult(t, party, model.NewEmbeddings("user_embeddings", u, []string{id}))
					}
				}
			})
		}
	}
}

// checkCounts compares on how many ratings a party trains, and how many it skips.
func checkCounts(t *testing.T, p *experiment.Party, ratings, skipped int) {
	t.Helper()
	if p.Ratings != ratings || p.Skipped != skipped {
		t.Errorf("a party trains on %d ratings and skips %d, want %d and %d", p.Ratings, p.Skipped, ratings, skipped)
	}
}

// checkResult compares what a party ends with.
func checkResult(t *testing.T, p *experiment.Party, want ...model.Embeddings) {
	t.Helper()
	got := p.Result()
	if len(got) != len(want) {
		t.Fatalf("%d results, want %d", len(got), len(want))
	}
	for i, w := range want {
		rows, cols := w.Dims()
		r, c := got[i].Dims()
		if got[i].Name != w.Name || !slices.Equal(got[i].IDs, w.IDs) || r != rows || c != cols || len(w.IDs) != rows || !slices.Equal(got[i].Data(), w.Data()) {
			t.Errorf("result %s of %v is\n%v, want %s of %v\n%v", got[i].Name, got[i].IDs, got[i].Data(), w.Name, w.IDs, w.Data())
		}
	}
}

// A party of VFL that has the ratings of its items alone, or finds them among all,
// contributes bit for bit what the simulator has it contribute. Every item has a rating,
// so that its own data list all that the partition deals it.
func TestItemPartiesAsSimulated(t *testing.T) {
	effort.NotShort(t, "whole federations; TestUserPartiesAsSimulated has some")
	for name, whole := range wholes {
		for _, settings := range []string{
			"accountant=rdp item-steps=2", "unit=user accountant=rdp rank=2", "epsilon=inf seed=4", "partition=category epsilon=inf",
		} {
			if strings.Contains(settings, "category") && name != "synthetic" {
				continue // the files list no genres
			}
			t.Run(name+" "+settings, func(t *testing.T) {
				if name == "zip" {
					effort.LongOnly(t, "a folder has the same files")
				}
				t.Parallel()
				data := whole(t)
				sim := opened.Experiment(t, "split.test=0 "+"algorithm=vfl-sgdmf parties=3 rounds=2 "+settings+" data="+data)
				e := opened.Joined(t, sim)
				for k, of := range opened.Federation(t, sim).Trainers {
					items := of.(*kernel.Vertical).Own
					alone := writeRatings(t, sim.Data, "ours", name == "zip", func(_, j int32) bool { return slices.Contains(items, j) })
					for what, party := range map[string]*experiment.Party{
						"alone": partyOf(t, e, algorithm.PartyData{IDs: model.At(sim.Data.ItemIDs, items)}, alone), "alone, dealt": partyOf(t, e, algorithm.PartyData{Part: k + 1}, alone), "among all": partyOf(t, e, algorithm.PartyData{Part: k + 1}, data),
					} {
						f := opened.Federation(t, sim)
						checkSame(t, fmt.Sprintf("party %d %s", k+1, what), e, party, sim, f.Trainers[k], 2)
						var ids []string
						trained := 0
						for _, j := range items {
							ids = append(ids, sim.Data.ItemIDs[j])
						}
						for _, j := range sim.Split.Train.Item {
							if slices.Contains(items, j) {
								trained++
							}
						}
						checkCounts(t, party, trained, 0)
						checkResult(t, party, model.NewEmbeddings("item_embeddings", f.Trainers[k].(*kernel.Vertical).Embeddings(), ids))
					}
				}
			})
		}
	}
}

// TestUserPartiesAsSimulated checks that a deployed party with users ends as in a simulation. Alone it does not know which of all users its own are.
// That decides only the order in which it fine-tunes for itself.
func TestUserPartiesAsSimulated(t *testing.T) {
	for name, whole := range wholes {
		for _, settings := range []string{"algorithm=hfl-sgdmf accountant=rdp", "algorithm=hfl-sgdmf epsilon=inf train=both rank=2", "algorithm=hfl-synsgd accountant=rdp"} {
			t.Run(name+" "+settings, func(t *testing.T) {
				t.Parallel()
				data := whole(t)
				sim := opened.Experiment(t, "split.test=0 "+"parties=3 rounds=2 "+settings+" data="+data)
				e := opened.Joined(t, sim)
				for k, of := range opened.Federation(t, sim).Trainers {
					users := of.(*kernel.Horizontal).Own
					alone := writeRatings(t, sim.Data, "ours", name == "zip", func(u, _ int32) bool { return slices.Contains(users, u) })
					trained := 0
					for _, u := range users {
						items, _ := sim.Train.Row(int(u))
						trained += len(items)
					}
					for what, party := range map[string]*experiment.Party{
						"alone":     partyOf(t, e, algorithm.PartyData{IDs: model.At(sim.Data.UserIDs, users)}, alone),
						"among all": partyOf(t, e, algorithm.PartyData{Part: k + 1, IDs: sim.Data.UserIDs}, data),
					} {
						f := opened.Federation(t, sim)
						checkSame(t, fmt.Sprintf("party %d %s", k+1, what), e, party, sim, f.Trainers[k], 2)
						checkCounts(t, party, trained, 0)
						checkTuned(t, party, sim, f.Trainers[k].(*kernel.Horizontal), what == "among all")
					}
				}
			})
		}
	}
}

// checkTuned compares the results of a party that has users. It compares the numbers only where
// they have to be equal.
func checkTuned(t *testing.T, party *experiment.Party, sim *experiment.Experiment, want *kernel.Horizontal, numbers bool) {
	t.Helper()
	var ids []string
	for _, u := range want.Own {
		ids = append(ids, sim.Data.UserIDs[u])
	}
	got := party.Result()
	if numbers {
		checkResult(t, party, model.NewEmbeddings("user_embeddings", want.Tuned.Users, ids), model.NewEmbeddings("item_embeddings", want.Tuned.Items, sim.Data.ItemIDs))
	} else if len(got) != 2 || !slices.Equal(got[0].IDs, ids) || !slices.Equal(got[1].IDs, sim.Data.ItemIDs) {
		t.Errorf("results %+v are not of users %v and all items", got, ids)
	}
}

// TestPartiesWhoseIDsSortOtherwise checks ids that sort differently. In the whole set ids are texts, in the order of
// texts; in a party's own data they are numbers, in the order of numbers. They are matched all the same.
func TestPartiesWhoseIDsSortOtherwise(t *testing.T) {
	csv := "user,item,rating\n"
	var one, items string // of user 7, and of items 2 and 10
	for u := range 70 {
		for k, item := range []string{"2", "10", "1", "x"} {
			user := fmt.Sprint(u)
			if u == 69 {
				user = "guest"
			}
			line := fmt.Sprintf("%s,%s,%d\n", user, item, 1+(3*u+2*k)%5)
			csv += line
			if user == "7" && item != "x" {
				one += line
			}
			if user != "guest" && k < 2 {
				items += line
			}
		}
	}
	file := func(text string) string {
		file := filepath.Join(t.TempDir(), "ratings.csv")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	whole := file(csv)
	for _, tt := range []struct {
		settings string
		which    algorithm.PartyData
		data     string
	}{
		{"contribution=all-ratings", algorithm.PartyData{User: "7"}, file("user,item,rating\n" + one)},
		{"algorithm=vfl-sgdmf accountant=rdp parties=3 rounds=2", algorithm.PartyData{IDs: []string{"10", "2"}}, file("user,item,rating\n" + items)},
	} {
		sim := opened.Experiment(t, "split.test=0 "+tt.settings+" data="+whole)
		e := opened.Joined(t, sim)
		set, err := experiment.OpenData(t.Context(), e.Config, whole, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"1", "10", "2", "x"}; !slices.Equal(e.Data.ItemIDs, want) {
			t.Fatalf("items %v, want %v", e.Data.ItemIDs, want)
		}
		// keep selects the same ratings, in the order of the whole set.
		keep := func(user, item string) bool {
			if tt.which.User != "" {
				return user == "7" && item != "x"
			}
			return user != "guest" && (item == "2" || item == "10")
		}
		same := *set
		same.Ratings = dataset.Ratings{Users: set.Users, Items: set.Items}
		for k, v := range set.Value {
			if keep(set.UserIDs[set.User[k]], set.ItemIDs[set.Item[k]]) {
				same.User, same.Item, same.Value = append(same.User, set.User[k]), append(same.Item, set.Item[k]), append(same.Value, v)
			}
		}
		which := tt.which
		var want client.Trainer
		if which.User != "" {
			p, err := e.Party(which, &same, plannedBy(e))
			if err != nil {
				t.Fatal(err)
			}
			want = p
		} else { // of the items 10 and 2, places 1 and 2 of the catalogue
			train, err := split.Training(&same, split.Params{Whole: true})
			if err != nil {
				t.Fatal(err)
			}
			all := []int32{-1, 1, 2, -1}
			users := make([]int32, e.Data.Users)
			for u := range users {
				users[u] = int32(u)
			}
			p, err := e.Instance().Party(which, &algorithm.LocalData{Set: &same, Rows: train.ByUser(), Items: all, Users: users})
			if err != nil {
				t.Fatal(err)
			}
			want = p.Trainer
		}
		checkSame(t, tt.settings, e, partyOf(t, e, which, tt.data), e, want, 2)
	}
}

// TestDeviceHasNoState checks that a user's client saves no state and refuses one. After a restart the client
// fits its own ratings again.
func TestDeviceHasNoState(t *testing.T) {
	sim := opened.Experiment(t, "split.test=0 "+"rank=2 data=synthetic:small")
	e := opened.Joined(t, sim)
	party := partyOf(t, e, algorithm.PartyData{User: sim.Data.UserIDs[0]}, "synthetic:small")
	contribute(t, e, party, 1)
	if state, err := party.Save(); state != nil || err != nil {
		t.Errorf("it keeps %x, %v", state, err)
	}
	if err := party.Restore([]byte("state"), entropy.System()); err == nil {
		t.Error("it took a state")
	}
}

// TestLargestRecord checks that the largest record has every item, except the share that is kept for tests, and that
// a user's client can train on it, whatever the algorithm and the split.
func TestLargestRecord(t *testing.T) {
	for _, settings := range []string{"", "algorithm=ssp-c", "algorithm=ssp-c feedback=implicit", "algorithm=dpals rating-min=1 rating-max=5 data=" + opened.Crowd(t, 60, 20, 1)} {
		e := opened.Joined(t, opened.Experiment(t, settings))
		set, err := e.LargestRecord()
		if err != nil {
			t.Fatal(err)
		}
		p, err := e.Party(algorithm.PartyData{}, set, plannedBy(e))
		if err != nil {
			t.Fatal(err)
		}
		items := len(e.Data.ItemIDs)
		least := 4 * items / 5 // a tenth is for tests, give or take
		if set.Users != 1 || set.Len() != items || p.Ratings < least {
			t.Errorf("%q: %d users, %d ratings of %d items, of which %d are trained on; want at least %d", settings, set.Users, set.Len(), items, p.Ratings, least)
		}
	}
	e := opened.Joined(t, opened.Experiment(t, "algorithm=vfl-sgdmf accountant=rdp"))
	if set, err := e.LargestRecord(); set != nil || err != nil {
		t.Errorf("of an organisation: %v, %v", set, err)
	}
}
