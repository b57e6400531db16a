package split

import (
	"github.com/fedsim/fedsim/dataset"
)

// holdOutTested makes those the test users whose ratings the test file has. The others train, or
// are for validation if that was their part.
func holdOutTested(s *dataset.Set, p Params, users []byte) {
	for u, part := range users {
		if part == partTest || part == partValidation && p.Validation == 0 {
			users[u] = partTrain
		}
	}
	for k, tested := range s.Tested {
		if tested && float64(s.Value[k]) >= p.Positive {
			users[s.User[k]] = partTest
		}
	}
}

// retarget decides anew which ratings of held-out users are to be predicted, where no draw decides it.
// On entry parts holds the parts of a draw.
func retarget(s *dataset.Set, p Params, users, parts []byte) {
	if s.Tested != nil {
		for k, tested := range s.Tested {
			if parts[k] != partLeftOut && users[s.User[k]] == partTest {
				parts[k] = partHistory
				if tested {
					parts[k] = partTarget
				}
			}
		}
		return
	}
	if p.By == "" || p.By == Random {
		return
	}
	liked, at := withoutLeftOut(s, parts)
	late, _ := partsOf(liked, Params{Test: p.target(), Seed: p.Seed, By: p.By, Cut: p.Cut})
	for i, k := range at {
		switch held := users[s.User[k]] != partTrain; {
		case held && late[i] == partTest:
			parts[k] = partTarget
		case held:
			parts[k] = partHistory
		case p.By == Time && late[i] == partTest:
			parts[k] = partLeftOut // the future of every user
		}
	}
}

// withoutLeftOut is the set without what is left out, and where each of its ratings is in this one.
func withoutLeftOut(s *dataset.Set, parts []byte) (*dataset.Set, []int) {
	out := &dataset.Set{Ratings: dataset.Ratings{Users: s.Users, Items: s.Items}, UserIDs: s.UserIDs, ItemIDs: s.ItemIDs}
	var at []int
	for k, part := range parts {
		if part == partLeftOut {
			continue
		}
		at = append(at, k)
		out.User, out.Item, out.Value = append(out.User, s.User[k]), append(out.Item, s.Item[k]), append(out.Value, s.Value[k])
		if s.Times != nil {
			out.Times = append(out.Times, s.Times[k])
		}
	}
	return out, at
}
