package split

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
)

// named lists ratings as user/item.
func named(s *dataset.Set, r dataset.Ratings) []string {
	list := []string{}
	for k := range r.Value {
		list = append(list, s.UserIDs[r.User[k]]+s.ItemIDs[r.Item[k]])
	}
	return list
}

// timed is a set of three users. User a has five ratings, in the order e d c b a in time; b has two at
// one time; c has one, the latest of all.
func timed(t *testing.T) *dataset.Set {
	return open(t, ownFile(t, "t.csv", "user,item,rating,timestamp\na,a,1,15\na,b,1,14\na,c,1,13\na,d,1,12\na,e,1,11\nb,a,1,5\nb,b,1,5\nc,a,1,99\n"), read.Options{Times: true})
}

// TestSplitByTime: the parts are written out by hand.
func TestSplitByTime(t *testing.T) {
	cut := 13.5
	for name, c := range map[string]struct {
		p                       Params
		train, validation, test string
	}{
		// 0.25 of 8 is 2: the two latest are ca (99) and aa (15).
		"time":                  {Params{By: Time, Test: 0.25}, "ab ac ad ae ba bb", "", "aa ca"},
		"time, with validation": {Params{By: Time, Test: 0.25, Validation: 0.25}, "ad ae ba bb", "ab ac", "aa ca"},
		"time, said":            {Params{By: Time, Cut: &cut}, "ac ad ae ba bb", "", "aa ab ca"},
		// 0.3 of 5 is 1.5, rounded to 2; of 2, 0.6 to 1; of 1, 0.3 to 0. Which of b's two is by a draw.
		"user-time":      {Params{By: UserTime, Test: 0.3}, "ac ad ae b? ca", "", "aa ab b?"},
		"user-time, all": {Params{By: UserTime, Test: 0.99}, "ae b? ca", "", "aa ab ac ad b?"},
		"leave-one-out":  {Params{By: LeaveOneOut}, "ab ac ad ae b? ca", "", "aa b?"},
		"leave two out":  {Params{By: LeaveOneOut, Validation: 0.1}, "ac ad ae b? ca", "ab", "aa b?"},
	} {
		set := timed(t)
		split, err := Divide(set, c.p)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		parts := func(r dataset.Ratings) string {
			text := strings.Join(named(set, r), " ")
			return strings.NewReplacer("ba bb", "ba bb", "ba", "b?", "bb", "b?").Replace(text)
		}
		got := []string{parts(split.Train), parts(split.Validation), parts(split.Test)}
		if d := cmp.Diff([]string{c.train, c.validation, c.test}, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		training, err := Training(set, c.p)
		if err != nil || !cmp.Equal(training, split.Train) {
			t.Errorf("%s: the training part alone is %v, %v", name, named(set, training), err)
		}
	}
}

// TestSplitByTimeRefused says what is missing.
func TestSplitByTimeRefused(t *testing.T) {
	cut := 1.
	plain := open(t, "../read/testdata/good/movielens", read.Options{})
	for name, c := range map[string]struct {
		set  *dataset.Set
		p    Params
		want string
	}{
		"no times":           {plain, Params{By: Time}, ErrNoTimes.Error()},
		"no times of users":  {plain, Params{By: UserTime}, ErrNoTimes.Error()},
		"a word":             {plain, Params{By: "date"}, `split: by "date"; want one of [random time user-time leave-one-out]`},
		"a cut by chance":    {plain, Params{Cut: &cut}, "a cut at a time is of a split by time"},
		"nothing before":     {timed(t), Params{By: Time, Cut: &cut}, "the training part of 8 ratings is empty"},
		"one rating for all": {timed(t), Params{By: Time, Test: 0.01}, "the test part of 8 ratings is empty"},
	} {
		if _, err := Divide(c.set, c.p); name != "one rating for all" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if _, err := Divide(plain, Params{Users: UsersHeldOut, By: Time}); !errors.Is(err, ErrNoTimes) {
		t.Errorf("%v, want ErrNoTimes", err)
	}
	// Without timestamps any rating may be the test.
	split, err := Divide(open(t, "../read/testdata/good/movielens", read.Options{}), Params{By: LeaveOneOut})
	if err != nil || split.Test.Len() != 1 || split.Test.User[0] != 0 {
		t.Errorf("%v: leave-one-out takes %+v, want one of user 1, who alone has two", err, split)
	}
}

// TestSplitByTimeOfOneUser: a client has its user's file alone and trains on the ratings that the
// split of the whole set gives that user for training.
func TestSplitByTimeOfOneUser(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		users := rapid.IntRange(1, 4).Draw(t, "users")
		var all []string
		for u := range users {
			items := rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 1, 9, rapid.ID[int]).Draw(t, "items")
			for _, i := range items {
				all = append(all, fmt.Sprintf("%d,%d,3,%d\n", u, i, rapid.IntRange(0, 5).Draw(t, "time")))
			}
		}
		p := Params{By: rapid.SampledFrom([]By{UserTime, LeaveOneOut}).Draw(t, "by"), Test: 0.4, Seed: 7,
			Validation: rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "validation")}
		whole := readText(t, strings.Join(all, ""))
		training, err := Training(whole, p)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		want = named(whole, training)
		for u := range users {
			var own string
			for _, line := range all {
				if strings.HasPrefix(line, fmt.Sprint(u, ",")) {
					own += line
				}
			}
			set := readText(t, own)
			if training, err = Training(set, p); err != nil {
				t.Fatal(err)
			}
			got = append(got, named(set, training)...)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("alone users train on something else (-together +alone):\n%s", d)
		}
	})
}

// readText reads rows with timestamps.
func readText(t *rapid.T, rows string) *dataset.Set {
	set, err := read.Open(t.Context(), "-", read.Options{Times: true, Input: strings.NewReader("user,item,rating,timestamp\n" + rows)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestTestFileUnlisted: an item that only the test file has, and no list of items, is one without a title, as one of the data is.
func TestTestFileUnlisted(t *testing.T) {
	test := ownFile(t, "test.csv", "userId,movieId,rating\n2,4,4\n")
	set := open(t, "../read/testdata/good/movielens", read.Options{Test: test})
	at := slices.Index(set.ItemIDs, "4")
	if at < 0 || len(set.Titles) != len(set.ItemIDs) || set.Titles[at] != "" || set.Genres[at] != nil || set.Years[at] != 0 {
		t.Errorf("items %q have the titles %q", set.ItemIDs, set.Titles)
	}
	if moonlight := slices.Index(set.ItemIDs, "3"); set.Titles[moonlight] != "Moonlight" {
		t.Errorf("items %q have the titles %q", set.ItemIDs, set.Titles)
	}
}

// TestTestFile: what the file has is the test, in terms of one set.
func TestTestFile(t *testing.T) {
	data := ownFile(t, "train.csv", "user,item,rating\na,x,1\na,y,2\nb,x,3\n")
	test := ownFile(t, "test.jsonl", "{\"user\":\"b\",\"item\":\"y\",\"rating\":4}\n{\"user\":\"c\",\"item\":\"z\",\"rating\":5}\n")
	set := open(t, data, read.Options{Test: test})
	split, err := Divide(set, Params{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([][]string{{"ax", "ay", "bx"}, {"by", "cz"}}, [][]string{named(set, split.Train), named(set, split.Test)}); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	held, err := Divide(set, Params{Users: UsersHeldOut})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([][]string{{"ax", "ay"}, {"bx"}, {"by", "cz"}}, [][]string{named(set, held.Train), named(set, held.Held.Test.History), named(set, held.Held.Test.Target)}); d != "" {
		t.Errorf("with users held out (-want +got):\n%s", d)
	}
	for text, want := range map[string]string{
		"user,item,rating\nb,y,4\na,x,5\n": `own.csv:3: user "a" has rated item "x" on line 2 of ` + data + ` already`,
		"user,item\nb,y\n":                 `own.csv:1: either this file or ` + data + ` has a column of ratings`,
		"user,item,rating\nb,y,9\n":        `own.csv:2: rating "9" is outside the range 0 to 5`,
		"user,item,rating\n":               `own.csv:2: no ratings`,
		"":                                 `own.csv:1: no ratings`,
	} {
		if _, err := read.Open(t.Context(), data, read.Options{Test: ownFile(t, "own.csv", text)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := read.Open(t.Context(), data, read.Options{Test: "nowhere"}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "the test file: ") {
		t.Errorf("%v, want that the test file is not there", err)
	}
	if open(t, data, read.Options{}).Digest == set.Digest {
		t.Error("the test file does not change the digest")
	}
}

// TestHoldOutByTime: with users held out, time decides which of their ratings are predicted. About
// half of the users are held out.
func TestHoldOutByTime(t *testing.T) {
	set := timed(t)
	for by, c := range map[By]struct{ history, target string }{
		LeaveOneOut: {"ab ac ad ae", "aa"},
		UserTime:    {"ab ac ad ae", "aa"}, // 0.2 of 5
		Time:        {"ab ac ad ae", "aa"}, // 0.2 of 8, rounded, is 2: aa and ca
	} {
		found := false
		for seed := range uint64(40) { // until a is held out and another user trains
			parts, err := Divide(set, Params{Users: UsersHeldOut, By: by, Test: 0.5, Seed: seed})
			if err != nil || parts.Held.Test.Users[0] != 0 {
				continue
			}
			h := parts.Held
			found = true
			of := func(r dataset.Ratings) string {
				var a []string
				for _, p := range named(set, r) {
					if p[0] == 'a' {
						a = append(a, p)
					}
				}
				return strings.Join(a, " ")
			}
			if got := of(h.Test.History); got != c.history || of(h.Test.Target) != c.target {
				t.Errorf("%s: history %s, target %s; want %s and %s", by, got, of(h.Test.Target), c.history, c.target)
			}
			if by == Time && strings.Contains(strings.Join(named(set, h.Train), " "), "ca") {
				t.Errorf("%s: what comes after the cut is trained on", by)
			}
		}
		if !found {
			t.Errorf("%s: user a was never held out", by)
		}
	}
}
