package split

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/idhash"
	"github.com/fedsim/fedsim/dataset/internal/idtext"
)

// PublicUsers say whose ratings are public.
type PublicUsers struct {
	Count int      // so many users, drawn by their ids alone: a larger count has all of a smaller one; 0 where IDs names the users
	IDs   []string // these users, in any order, each once
	// Least is the fewest stars of a rating that counts, with the weight 1; at 0 all do, and the
	// rating is the weight.
	Least float64
}

// TakeOut returns a copy of the set without its public users, who become its raters (DP-CMF paper,
// section 4: a feature for each of s public users). None of their ratings is left in the copy, neither
// for training nor in a test file. Users keep their order, items their indices.
//
// The draw of public users depends on hashes of ids alone, and neither on ratings nor on a seed.
//
// It is an error when a named id is no user's, or is named twice, and when no user is left. It is also
// an error when public users were taken out before, and for a regression, whose rows have features
// already.
func TakeOut(s *dataset.Set, p PublicUsers) (*dataset.Set, error) {
	switch {
	case s.Raters != nil:
		return nil, errors.New("they have been taken out before")
	case s.Profile != nil:
		return nil, fmt.Errorf("%s is a regression, whose rows have features of their own", s.Name)
	}
	if err := errors.Join(s.Ratings.Validate(), s.ValidateIDs()); err != nil {
		return nil, err
	}
	public, count, err := public(s, p)
	if err != nil {
		return nil, err
	}
	s = s.Unpacked()
	out := *s
	out.Raters = &dataset.Raters{Least: p.Least}
	out.UserIDs = make([]string, 0, s.Users-count)
	place := make([]int32, s.Users) // of each user among those like it
	for u, id := range s.UserIDs {
		list := &out.UserIDs
		if public[u] {
			list = &out.Raters.IDs
		}
		place[u] = int32(len(*list))
		*list = append(*list, id)
	}
	parts := make([]byte, s.Len())
	of := 0
	for k, u := range s.User {
		if public[u] {
			parts[k] = 1
			of++
		}
	}
	out.Ratings, out.Raters.Ratings = pick(s.Ratings, parts, 0, s.Len()-of), pick(s.Ratings, parts, 1, of)
	for _, r := range []*dataset.Ratings{&out.Ratings, &out.Raters.Ratings} {
		for k, u := range r.User {
			r.User[k] = place[u]
		}
	}
	out.Ratings.Users, out.Raters.Users = len(out.UserIDs), count
	out.Tested = without(s.Tested, parts)
	out.Digest = out.ComputeDigest()
	return &out, nil
}

// without keeps the entries of part 0; nil stays nil.
func without[T any](list []T, parts []byte) []T {
	if list == nil {
		return nil
	}
	out := make([]T, 0, len(list))
	for k, v := range list {
		if parts[k] == 0 {
			out = append(out, v)
		}
	}
	return out
}

// public marks the public users.
func public(s *dataset.Set, p PublicUsers) (marked []bool, count int, err error) {
	marked = make([]bool, s.Users)
	if len(p.IDs) == 0 {
		if p.Count < 1 || p.Count >= s.Users {
			return nil, 0, fmt.Errorf("%d of the %d of %s; want at least 1, and 1 fewer than there are", p.Count, s.Users, s.Name)
		}
		for _, u := range drawn(s)[:p.Count] {
			marked[u] = true
		}
		return marked, p.Count, nil
	}
	index := make(map[string]int, s.Users)
	for u, id := range s.UserIDs {
		index[id] = u
	}
	for _, id := range p.IDs {
		u, known := index[id]
		switch {
		case !known:
			return nil, 0, fmt.Errorf("%s is not a user of %s", idtext.Quote([]byte(id)), s.Name)
		case marked[u]:
			return nil, 0, fmt.Errorf("%s is named twice", idtext.Quote([]byte(id)))
		}
		marked[u] = true
	}
	if len(p.IDs) == s.Users {
		return nil, 0, fmt.Errorf("all %d of %s are; a user must be left to train on", s.Users, s.Name)
	}
	return marked, len(p.IDs), nil
}

// drawn are the users in the order of the hashes of their ids.
func drawn(s *dataset.Set) []int32 {
	hashes := idhash.IDs("fedsim public user v1", s.UserIDs)
	order := make([]int32, s.Users)
	for u := range order {
		order[u] = int32(u)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(hashes[a], hashes[b]), cmp.Compare(a, b)) })
	return order
}
