package split

import "github.com/fedsim/fedsim/dataset"

// seenUsers divides the likes of each user ([UsersSeen]).
func seenUsers(s *dataset.Set, p Params) (*Parts, error) {
	liked := likedOf(s, p)
	d := dataset.NewDigester()
	d.Text("fedsim seen users v1")
	d.Text(s.Digest)
	d.Number(uint64(liked.Len()))
	out, err := divide(liked, p, d)
	if err != nil {
		return nil, err
	}
	h := &HoldOut{Train: out.Train, Seen: true}
	for u := range int32(s.Users) {
		h.TrainUsers = append(h.TrainUsers, u)
	}
	h.Validation = HeldOut{Users: usersWith(out.Validation), History: out.Train, Target: out.Validation}
	h.Test = HeldOut{Users: usersWith(out.Test), History: out.Train, Target: out.Test, Hidden: out.Validation}
	out.Held = h
	return out, nil
}

// likedOf returns the set with the ratings of enough stars alone.
func likedOf(s *dataset.Set, p Params) *dataset.Set {
	few := fewRatings(s, p)
	keep, count := make([]byte, s.Len()), 0
	for k, u := range s.User {
		if float64(s.Value[k]) >= p.Positive && (few == nil || !few[u]) {
			keep[k] = 1
			count++
		}
	}
	out := *s
	out.Ratings = pick(s.Ratings, keep, 1, count)
	if s.Tested != nil {
		out.Tested = nil
		for k, is := range s.Tested {
			if keep[k] == 1 {
				out.Tested = append(out.Tested, is)
			}
		}
	}
	return &out
}

// usersWith lists the users that have a rating, ascending.
func usersWith(r dataset.Ratings) []int32 {
	has := make([]byte, r.Users)
	for _, u := range r.User {
		has[u] = 1
	}
	return usersOf(has, 1)
}
