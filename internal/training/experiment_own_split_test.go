package training_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/opened"
)

// crowdInTime is a file of 70 users who rate 6 films at times of their own, and the rows of each.
func crowdInTime(t *testing.T) (file string, rows []string) {
	for u := range 70 {
		var own strings.Builder
		for i := range 6 {
			fmt.Fprintf(&own, "user-%d,item-%d,%d,%d\n", u, (u+3*i)%20, 1+(u+i)%5, 1000+(7*i+u)%11)
		}
		rows = append(rows, own.String())
	}
	return ownerFile(t, "crowd.csv", "user,item,rating,timestamp\n"+strings.Join(rows, "")), rows
}

// In a deployment nothing is measured, so a client trains on all ratings of its user: the six that crowdInTime
// writes for each. The simulator does with split.test=0.
func TestClientsTrainOnAllTheirRatings(t *testing.T) {
	effort.NotShort(t, "whole runs")
	data, rows := crowdInTime(t)
	const each = 6
	for _, split := range []string{"split.test=0", "split.test=0.5", "split.validation=0.3", "split.by=time split.time=1005", "split.by=leave-one-out", "algorithm=ssp-c feedback=implicit features=none split.positive=1"} {
		sim := opened.Experiment(t, split+" epsilon=200 rating-min=1 rating-max=5 data="+data)
		if split == "split.test=0" && (sim.Split.Train.Len() != each*len(rows) || sim.Split.Test.Len() > 0) {
			t.Errorf("the simulation trains on %d ratings and tests on %d, want %d and 0", sim.Split.Train.Len(), sim.Split.Test.Len(), each*len(rows))
		}
		e := opened.Joined(t, sim)
		for u, own := range rows[:10] {
			id := fmt.Sprintf("user-%d", u)
			set, err := experiment.OpenOwn(t.Context(), e, ownerFile(t, "own.csv", "user,item,rating,timestamp\n"+own), func(err *dataset.FileError) { t.Error(err) })
			if err != nil {
				t.Fatal(err)
			}
			p, err := e.Party(algorithm.PartyData{User: id}, set, plannedBy(e))
			if err != nil {
				t.Fatal(err)
			}
			if p.Ratings != each {
				t.Errorf("%s: %s trains on %d ratings, want %d", split, id, p.Ratings, each)
			}
		}
	}
}

// TestClientsWithClicks checks files of clicks; the columns of a client's file are no secret. Algorithms that learn from ratings
// refuse clicks. Algorithms that learn what was consumed take each click as the top of the scale.
func TestClientsWithClicks(t *testing.T) {
	file := ownerFile(t, "own.csv", "visitor,sku\na,item-1\na,item-2\na,item-1\n")
	for settings, want := range map[string]string{"algorithm=ssp-c": "has no column of ratings, so that every row is a click; say feedback implicit", "algorithm=ssp-c feedback=implicit": ""} {
		e := opened.Joined(t, opened.Experiment(t, settings+" features=none epsilon=200 data="+opened.Crowd(t, 70, 20, 1)))
		algorithm.Columns.Set(&e.Config, "user=visitor,item=sku")
		set, err := experiment.OpenOwn(t.Context(), e, file, func(*dataset.FileError) {})
		switch {
		case want == "" && (err != nil || set.Len() != 2 || float64(set.Value[0]) != e.Data.Max):
			t.Errorf("%s: %+v, %v; want two clicks worth %v", settings, set, err, e.Data.Max)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", settings, err, want)
		}
	}
}

// A program that has its ratings in memory says when they were given.
func TestRatingsInMemoryByTime(t *testing.T) {
	var list []read.Rating
	for u := range 40 {
		for i := range 5 {
			list = append(list, read.Rating{User: fmt.Sprint(u), Item: fmt.Sprint(i), Value: 3, Time: float64((i + u) % 5)})
		}
	}
	c, err := config.Resolve([]config.Setting{{Key: "split.by", Value: "leave-one-out"}, {Key: "rating-max", Value: "5"}, {Key: "rating-min", Value: "1"}, {Key: "epsilon", Value: "200"}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := read.FromRatings("ratings", list, experiment.DataOptions(c))
	if err != nil {
		t.Fatal(err)
	}
	e, err := experiment.OpenSet(c, set)
	if err != nil {
		t.Fatal(err)
	}
	for k, u := range e.Split.Test.User { // ids sort as numbers, so that they are the indices
		if (e.Split.Test.Item[k]+u)%5 != 4 {
			t.Errorf("of user %d item %d is the test, want the one at time 4", u, e.Split.Test.Item[k])
		}
	}
	if e.Split.Test.Len() != 40 {
		t.Errorf("%d ratings are the test, want one of each of 40 users", e.Split.Test.Len())
	}
}

// The split is drawn by split.seed where it is said: runs of other seeds share it, and one without
// it is split by its seed.
func TestSplitHasItsOwnSeed(t *testing.T) {
	digest := func(settings string) string {
		return opened.Experiment(t, "data=synthetic:small "+settings).Split.Digest
	}
	own := digest("seed=7")
	if digest("seed=1 split.seed=7") != own || digest("seed=2 split.seed=7") != own {
		t.Error("runs with one split.seed have other splits")
	}
	if digest("seed=1") == own {
		t.Error("runs with other seeds have one split")
	}
	if digest("split.by=leave-one-out seed=1 split.seed=7") != digest("split.by=leave-one-out seed=7") {
		t.Error("the one that is left out is drawn by another seed than split.seed")
	}
	if liked := digest("feedback=implicit algorithm=ssp-c seed=1 split.seed=7"); liked != digest("feedback=implicit algorithm=ssp-c seed=7") {
		t.Error("held-out users are drawn by another seed than split.seed")
	}
}
