package split

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
)

// liang is the protocol of Liang et al. (WWW 2018, section 4.1), at a size for a set of 600 users.
func liang() Params {
	return Params{Users: UsersHeldOut, Test: 50, Validation: 40, Positive: 4, Least: 5, Exact: true, Seed: 3}
}

// TestHoldOutByNumber: so many users are held out, of each exactly a fifth is to be predicted, and users with fewer than five
// likes are nowhere. The counts are taken of the ratings here, one by one.
func TestHoldOutByNumber(t *testing.T) {
	set := open(t, "synthetic:small", read.Options{})
	p := liang()
	p.Least = 40 // of generated users none has fewer than five
	h := holdOut(t, set, p)
	if len(h.Test.Users) != 50 || len(h.Validation.Users) != 40 || len(h.TrainUsers) != set.Users-90 {
		t.Errorf("%d test, %d validation, %d training users, want 50, 40, %d", len(h.Test.Users), len(h.Validation.Users), len(h.TrainUsers), set.Users-90)
	}
	likes := make([]int, set.Users)
	for k, v := range set.Value {
		if v >= 4 {
			likes[set.User[k]]++
		}
	}
	few := 0
	for _, part := range []HeldOut{h.Test, h.Validation} {
		history, target := part.History.ByUser(), part.Target.ByUser()
		for _, u := range part.Users {
			had, _ := history.Row(int(u))
			want, _ := target.Row(int(u))
			all, fifth := likes[u], likes[u]/5
			if all < p.Least {
				all, fifth = 0, 0
				few++
			}
			if len(want) != fifth || len(had) != all-fifth {
				t.Errorf("user %d likes %d: %d in the history and %d in the target, want %d and %d", u, likes[u], len(had), len(want), all-fifth, fifth)
			}
		}
	}
	train := h.Train.ByUser()
	for _, u := range h.TrainUsers {
		row, _ := train.Row(int(u))
		want := likes[u]
		if want < p.Least {
			want = 0
			few++
		}
		if len(row) != want {
			t.Errorf("user %d trains on %d, want %d", u, len(row), want)
		}
	}
	if few == 0 || few == set.Users {
		t.Fatalf("%d of %d users have too few: the test shows nothing", few, set.Users)
	}
}

// TestHoldOutByNumberKeepsUsersApart: without the ratings of one user, the ratings of all other users
// stay in their part. The privacy of a user rests on that: see [Set.HoldOut].
func TestHoldOutByNumberKeepsUsersApart(t *testing.T) {
	set := open(t, "synthetic:small", read.Options{})
	_, before := holdOutByID(set, holdOut(t, set, liang()))
	for _, user := range []int32{0, 17, 301, 599} {
		less := *set
		less.Ratings = dataset.Ratings{Users: set.Users, Items: set.Items}
		for k, u := range set.User {
			if u != user {
				less.User, less.Item, less.Value = append(less.User, u), append(less.Item, set.Item[k]), append(less.Value, set.Value[k])
			}
		}
		_, after := holdOutByID(&less, holdOut(t, &less, liang()))
		for pair, part := range before {
			if pair.user != set.UserIDs[user] && after[pair] != part {
				t.Fatalf("without the ratings of user %d, %v is in the part %q, was in %q", user, pair, after[pair], part)
			}
		}
	}
}

// TestHoldOutOfAnotherSeed: another seed holds out other users, and a larger number holds out all test
// users of a smaller one.
func TestHoldOutOfAnotherSeed(t *testing.T) {
	set := open(t, "synthetic:small", read.Options{})
	p := liang()
	first := holdOut(t, set, p)
	p.Test = 60
	more := holdOut(t, set, p)
	for _, u := range first.Test.Users {
		if !slices.Contains(more.Test.Users, u) {
			t.Errorf("user %d is one of 50, and not of 60", u)
		}
	}
	p.Test, p.Seed = 50, 4
	if other := divided(t, set, p); slices.Equal(other.Held.Test.Users, first.Test.Users) || other.Digest == divided(t, set, liang()).Digest {
		t.Error("another seed holds out the same users")
	}
}

// TestHoldOutShareBesideNumber: a share beside a number is a share of all users, rounded to the
// nearest number.
func TestHoldOutShareBesideNumber(t *testing.T) {
	set := open(t, "synthetic:small", read.Options{})
	h := holdOut(t, set, Params{Users: UsersHeldOut, Test: 50, Validation: 0.1})
	if len(h.Validation.Users) != 60 || len(h.Test.Users) != 50 {
		t.Errorf("%d validation and %d test users, want 60 and 50", len(h.Validation.Users), len(h.Test.Users))
	}
}

func TestHoldOutByNumberRefuses(t *testing.T) {
	set := open(t, "synthetic:small", read.Options{})
	for _, c := range []struct {
		test, validation float64
		least            int
		want             string
	}{
		{10000, 10000, 0, "10000 for the test and 10000 for validation are to be held out of 600 users, which leaves no user to train"},
		{400, 200, 0, "leaves no user to train"},
		{10.5, 0, 0, "test share is 10.5; want more than 0 and less than 1, or a whole number of users"},
		{0.1, 1.5, 0, "validation share is 1.5"},
		{50, 0, -1, "at least -1 ratings"},
		{50, 40, 100000, "training users have none"},
	} {
		t.Run(fmt.Sprint(c.test, c.validation, c.least), func(t *testing.T) {
			_, err := Divide(set, Params{Users: UsersHeldOut, Test: c.test, Validation: c.validation, Least: c.least})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if _, err := Training(set, liang()); err == nil || !strings.Contains(err.Error(), "follows from all users") {
		t.Errorf("a party that holds out by number: %v", err)
	}
}
