package training_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/opened"
)

// TestPublicUsersLeaveTheFederation checks that ratings of public users are in no part of the split, with explicit and with
// implicit feedback. These ratings are not lost: the algorithm learns from them beside the other features.
func TestPublicUsersLeaveTheFederation(t *testing.T) {
	whole, err := read.Open(t.Context(), "synthetic:small", read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, settings := range []string{"algorithm=dp-cmf", "algorithm=dp-cmf feedback=implicit", "algorithm=private-ease", "algorithm=ssp-c split.validation=0.2", "algorithm=lfl-sgdmf"} {
		e := opened.Experiment(t, "data=synthetic:small epsilon=10 public-users=60 "+settings)
		if e.Data.Users != 540 || e.Cohort.Clients != 540 {
			t.Errorf("%s: %d users and %d clients, want 540 of both", settings, e.Data.Users, e.Cohort.Clients)
		}
		gave := make(map[string]bool) // by users who are not public
		for k, u := range whole.User {
			if id := whole.UserIDs[u]; !slices.Contains(e.Data.Raters.IDs, id) {
				gave[fmt.Sprint(id, " ", whole.Item[k], " ", whole.Value[k])] = true
			}
		}
		seen := 0
		parts := []dataset.Ratings{e.Split.Train, e.Split.Validation, e.Split.Test}
		if e.Held != nil {
			parts = append(parts, e.Held.Validation.History, e.Held.Test.History)
		}
		for _, part := range parts {
			seen += part.Len()
			for k, u := range part.User {
				if r := fmt.Sprint(e.Data.UserIDs[u], " ", part.Item[k], " ", part.Value[k]); !gave[r] {
					t.Fatalf("%s: %q is in a part, and given by nobody who takes part", settings, r)
				}
			}
		}
		if e.Held == nil && seen != len(gave) { // implicit feedback leaves out what is not liked
			t.Errorf("%s: %d ratings are in parts, want all %d of those who take part", settings, seen, len(gave))
		}
		if !strings.Contains(settings, "cmf") {
			continue
		}
		if names := categories(e); !slices.Equal(names, []string{"genres", "rater", "year"}) {
			t.Errorf("%s: features are %v", settings, names)
		}
	}
}

func categories(e *experiment.Experiment) []string {
	var names []string
	for _, c := range e.Features.Categories {
		names = append(names, c.Name)
	}
	return names
}

// Features that are asked for are all there are.
func TestPublicUsersWithFeatures(t *testing.T) {
	for features, want := range map[string][]string{"genres": {"genres"}, "genres,rater": {"genres", "rater"}, "rater": {"rater"}} {
		e := opened.Experiment(t, "data=synthetic:small epsilon=10 algorithm=dp-cmf public-users=60 features="+features)
		if got := categories(e); !slices.Equal(got, want) {
			t.Errorf("features %s: %v, want %v", features, got, want)
		}
	}
	if e := opened.Experiment(t, "data=synthetic:small epsilon=10 algorithm=ssp-c public-users=60 features=none"); e.Features != nil || e.Data.Users != 540 {
		t.Errorf("with features none there are %v, of %d users", e.Features, e.Data.Users)
	}
}

// Of a file of ids, exactly they are public; binary keeps of what they gave the four stars of five.
func TestPublicUsersOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ids.txt")
	if err := os.WriteFile(file, []byte("17\n\n3\r\n400\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := opened.Experiment(t, "data=synthetic:small epsilon=10 algorithm=dp-cmf public-binary=yes public-ids="+file)
	if !slices.Equal(e.Data.Raters.IDs, []string{"3", "17", "400"}) {
		t.Errorf("public are %v", e.Data.Raters.IDs)
	}
	liked := 0
	for _, v := range e.Data.Raters.Value {
		if v >= 4 {
			liked++
		}
	}
	for _, c := range e.Features.Categories {
		if c.Name == "rater" && (len(c.Value) != liked || slices.ContainsFunc(c.Weight, func(w float64) bool { return w != 1 })) {
			t.Errorf("%d features for %d ratings of four stars, with weights %v", len(c.Value), liked, c.Weight)
		}
	}
	if liked == 0 {
		t.Fatal("nobody liked anything: the test shows nothing")
	}
}

// Other public users, or other weights, make another session where settings do; what is left alone makes none.
func TestPublicUsersMakeAnotherSession(t *testing.T) {
	effort.NotShort(t, "whole runs")
	const settings = "data=synthetic:small-150 algorithm=vfl-sgdmf accountant=rdp "
	plain := opened.Experiment(t, settings).Session()
	if opened.Experiment(t, settings+"public-users=0").Session() != plain {
		t.Error("nobody is public, and the session is another")
	}
	if opened.Experiment(t, settings+"public-users=60").Session() == plain {
		t.Error("60 users are public, and the session is the same")
	}
}
