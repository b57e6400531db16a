package split

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/csr"
)

// By says what decides which part of a split a rating belongs to.
type By string

// Kinds of split. Except with Random, the latest ratings are the test, the ratings before them are for
// validation where that is asked for, and all others are for training.
const (
	// Random is a draw for each rating.
	Random By = "random"
	// Time is one moment for all users: from there on everything is the test. It is found by the
	// shares, or said. Ratings of one moment stay together.
	Time By = "time"
	// UserTime takes the share of each user's ratings, rounded to the nearest number, the latest
	// ones. The first of them is always trained on.
	UserTime By = "user-time"
	// LeaveOneOut takes the last rating of each user with at least two. With validation it also takes
	// the rating before, of each user with at least three. In a set without timestamps it takes any
	// rating, by a draw.
	LeaveOneOut By = "leave-one-out"
)

func kinds() []By {
	return []By{Random, Time, UserTime, LeaveOneOut}
}

// ErrNoTimes is wrapped by the error where timestamps are needed and the source has none.
var ErrNoTimes = errors.New("the data have no timestamps: want a column timestamp, or another one named as it (columns)")

// checkTimes reports a set that cannot be split by time.
func checkTimes(s *dataset.Set, by By) error {
	switch {
	case s.Tested != nil && by != "" && by != Random:
		return errors.New("split: there is a test file, which says what the test is")
	case (by == Time || by == UserTime) && s.Times == nil && s.Len() > 0:
		return ErrNoTimes
	case s.Times != nil && len(s.Times) != s.Len():
		return errors.New("split: there is not one timestamp for each rating")
	default:
		return nil
	}
}

// partByTime cuts at one moment.
func partByTime(s *dataset.Set, p Params, parts []byte) {
	test, validation := cutsOf(s, p)
	for k, at := range s.Times {
		switch {
		case at >= test:
			parts[k] = partTest
		case at >= validation:
			parts[k] = partValidation
		}
	}
}

// cutsOf are the moments at which the test and the validation part begin.
func cutsOf(s *dataset.Set, p Params) (test, validation float64) {
	if p.Cut != nil {
		return *p.Cut, *p.Cut
	}
	if s.Len() == 0 {
		return 0, 0
	}
	times := slices.Sorted(slices.Values(s.Times))
	from := func(share float64) float64 {
		return times[min(len(times)-1, max(0, len(times)-int(math.Round(share*float64(len(times))))))]
	}
	test = from(p.test())
	if p.Validation == 0 {
		return test, test
	}
	return test, from(p.test() + p.Validation)
}

// partByUser takes the latest of each user.
func partByUser(s *dataset.Set, p Params, draw func(int) uint64, parts []byte) {
	start := csr.Starts(s.User, s.Users)
	order := csr.Order(s.User, s.Item, s.Items, start)
	for u := range s.Users {
		of := order[start[u]:start[u+1]]
		if s.Times != nil || p.By != LeaveOneOut {
			slices.SortFunc(of, func(a, b int32) int {
				return cmp.Or(cmp.Compare(s.Times[a], s.Times[b]), cmp.Compare(draw(int(a)), draw(int(b))))
			})
		} else {
			slices.SortFunc(of, func(a, b int32) int { return cmp.Compare(draw(int(a)), draw(int(b))) })
		}
		test, validation := p.held(len(of))
		for i, k := range of {
			switch {
			case i >= len(of)-test:
				parts[k] = partTest
			case i >= len(of)-test-validation:
				parts[k] = partValidation
			}
		}
	}
}

// held returns how many of a user's n ratings are the test and how many are for validation. At least
// one rating is left to train.
func (p Params) held(n int) (test, validation int) {
	if p.By == LeaveOneOut {
		test = min(1, max(0, n-1))
		if p.Validation > 0 {
			validation = min(1, max(0, n-1-test))
		}
		return test, validation
	}
	share := func(s float64) int { return int(math.Floor(s*float64(n) + 0.5)) }
	test = min(share(p.test()), max(0, n-1))
	return test, min(share(p.Validation), max(0, n-1-test))
}

// partByFile takes what the test file has; of all else, the share for validation by a draw.
func partByFile(s *dataset.Set, p Params, draw func(int) uint64, parts []byte) {
	rest := Params{Test: p.Validation} // the draw below that is for validation
	for k, tested := range s.Tested {
		switch {
		case tested:
			parts[k] = partTest
		case p.Validation > 0 && rest.part(draw(k)) == partTest:
			parts[k] = partValidation
		}
	}
}
