package split

import "github.com/fedsim/fedsim/dataset"

// SeenUsers divides a set for rankings of users that training has seen. A rating of at least positive
// stars is a like. The parts of p divide the likes of each user. Users with fewer than least likes are
// left out. Every user trains, and a part has the users with a target in it. A list of the test must not hold items of the validation part ([HeldOut.Hidden]).
func SeenUsers(s *dataset.Set, p Params, positive float64, least int) (*HoldOut, error) {
	s = s.Unpacked()
	if err := checkSplit(s, p); err != nil {
		return nil, err
	}
	liked := likedOf(s, positive, least)
	parts, counts := partsOf(liked, p)
	if err := p.checkParts(counts); err != nil {
		return nil, err
	}
	d := dataset.NewDigester()
	d.Text("fedsim seen users v1")
	d.Text(s.Digest)
	d.Number(uint64(len(parts)))
	d.Bytes(parts)
	of := func(part byte) dataset.Ratings { return pick(liked.Ratings, parts, part, counts[part]) }
	h := &HoldOut{Train: of(partTrain), Seen: true, Digest: d.Sum()}
	for u := range int32(s.Users) {
		h.TrainUsers = append(h.TrainUsers, u)
	}
	h.Validation = HeldOut{History: h.Train, Target: of(partValidation)}
	h.Test = HeldOut{History: h.Train, Target: of(partTest), Hidden: h.Validation.Target}
	h.Validation.Users, h.Test.Users = usersWith(h.Validation.Target), usersWith(h.Test.Target)
	return h, nil
}

// SeenTraining is the training part of [SeenUsers] alone, which may be empty.
func SeenTraining(s *dataset.Set, p Params, positive float64, least int) (dataset.Ratings, error) {
	s = s.Unpacked()
	if err := checkSplit(s, p); err != nil {
		return dataset.Ratings{}, err
	}
	liked := likedOf(s, positive, least)
	parts, counts := partsOf(liked, p)
	return pick(liked.Ratings, parts, partTrain, counts[partTrain]), nil
}

// likedOf returns the set with the ratings of enough stars alone.
func likedOf(s *dataset.Set, positive float64, least int) *dataset.Set {
	few := fewRatings(s, HoldOutParams{Positive: positive, Least: least})
	keep, count := make([]byte, s.Len()), 0
	for k, u := range s.User {
		if float64(s.Value[k]) >= positive && (few == nil || !few[u]) {
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
