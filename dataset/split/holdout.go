package split

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/csr"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/problems"
)

// defaultTarget is the share of a held-out user's likes to be predicted when [Params] names none.
const defaultTarget = 0.2

// validateHeldOut reports everything that is wrong with the parameters for holding users out.
func (p Params) validateHeldOut() error {
	var errs problems.List
	test, target := p.test(), p.target()
	errs.If(!(test > 0 && (test < 1 || whole(test))) && !p.Whole,
		"held-out users: test share is %v; want more than 0 and less than 1, or a whole number of users", p.Test)
	errs.If(!(p.Validation >= 0 && (p.Validation < 1 || whole(p.Validation))),
		"held-out users: validation share is %v; want at least 0 and less than 1, or a whole number of users", p.Validation)
	errs.If(len(errs) == 0 && !p.counted() && test+p.Validation >= 1,
		"held-out users: test share %v and validation share %v leave no user to train; want a sum below 1", test, p.Validation)
	errs.If(!(target > 0 && target < 1), "held-out users: target share is %v; want more than 0 and less than 1", p.Target)
	errs = append(errs, Params{Whole: p.Whole, By: p.By, Cut: p.Cut, Folds: p.Folds, Fold: p.Fold}.validateShares())
	errs.If(math.IsNaN(p.Positive) || math.IsInf(p.Positive, 0),
		"held-out users: the least positive rating is %v; want a number of stars, or 0 to take all", p.Positive)
	errs.If(p.Least < 0, "held-out users: a user must have at least %d ratings; want 0, to leave out no user, or more", p.Least)
	return errors.Join(errs...)
}

// whole reports whether x is a number of users.
func whole(x float64) bool { return x == math.Trunc(x) && x <= math.MaxInt32 }

// counted reports whether users are held out by number.
func (p Params) counted() bool { return p.test() >= 1 || p.Validation >= 1 }

// numbers returns how many users are held out by number. A share beside a number is a share of all
// users, rounded to the nearest number.
func (p Params) numbers(users int) (test, validation int) {
	number := func(x float64) int {
		if x < 1 {
			x = math.Round(x * float64(users))
		}
		return int(x)
	}
	return number(p.test()), number(p.Validation)
}

func (p Params) target() float64 { return cmp.Or(p.Target, defaultTarget) }

// HoldOut is a set whose users are divided into three parts. All ratings in it keep the set's indices and its counts of users and items.
//
// [UsersHeldOut] holds users out as Liang et al. do (Variational autoencoders for collaborative filtering, WWW 2018). Every user,
// independently of all others, goes to the test part with probability p.Test, to the validation part with p.Validation, else to training.
// Every rating of a held-out user goes to the target with probability p.Target, else to the history. Liang et al. hold out a number of
// users (p.Test and p.Validation of 1 or more) and take 0.2 of each user exactly (p.Exact). They keep ratings of 4 stars and more
// (p.Positive), and leave out users with fewer than 5 such ratings (p.Least).
//
// By number, the users with the least draws among all users of the set are held out, whatever they rated. Liang et al. draw from the users
// with enough ratings, so that a user's number of ratings would decide whether another user trains. Here it decides about that user alone,
// and held-out users with too few ratings are not measured.
//
// By time, the target of a held-out user is the user's last ratings: a share of them, one of them, or all after one moment. That moment is
// common to all users, and nothing after it is trained on. With a test file, its users are the test part and its ratings their target.
//
// Draws are hashes of the seed, the user's id and, for a rating, the item's, and differ from the draws of [Divide] of ratings. As there,
// adding or removing other ratings, users or items moves no user and no rating to another part. There are two exceptions: by number, other
// users do, and with p.Exact a held-out user's other ratings do. Neither makes one user's ratings decide which ratings of another user are
// trained on.
//
// It is an error when nothing is left in the training ratings, or in the target of a part that was
// asked for.
//
// [UsersSeen] divides the likes of each user by the same rules as ratings. Every user trains, and a part has the
// users with a target in it. A list of the test must not hold items of the validation part ([HeldOut.Hidden]).
type HoldOut struct {
	Train      dataset.Ratings // of the users who train; the others have none there
	TrainUsers []int32         // ascending; one may have no rating, where few stars are left out

	Validation, Test HeldOut
	// Seen reports that the users of Validation and Test train too ([UsersSeen]).
	Seen bool
}

// Known returns the ratings by which a model knows its users: of the training, and the histories of users that training has not seen.
// h may be nil: nothing is held out.
func (h *HoldOut) Known(training dataset.Ratings) dataset.Ratings {
	if h == nil || h.Seen {
		return training
	}
	all := dataset.Ratings{Users: training.Users, Items: training.Items}
	for _, part := range []dataset.Ratings{training, h.Validation.History, h.Test.History} {
		part.Each(func(u, j int32, x float32) {
			all.User, all.Item, all.Value = append(all.User, u), append(all.Item, j), append(all.Value, x)
		})
	}
	return all
}

// HeldOut are users that training has not seen. Their embeddings are computed from the
// history, and recommendations for them are compared with the target.
type HeldOut struct {
	Users           []int32 // ascending; one may have no rating in either
	History, Target dataset.Ratings
	// Hidden holds ratings that are neither: no list may hold their items.
	Hidden dataset.Ratings
}

// Parts of held-out users, as they are hashed; they continue the numbers of [Parts].
const (
	partHistory byte = 3 + iota
	partTarget
	partLeftOut // fewer stars than count, or of a user with too few ratings
)

func holdOutUsers(s *dataset.Set, p Params) (*Parts, error) {
	if test, validation := p.numbers(s.Users); p.counted() && test+validation >= s.Users {
		return nil, fmt.Errorf("held-out users: %d for the test and %d for validation are to be held out of %d users, which leaves no user to train; want fewer, or shares below 1",
			test, validation, s.Users)
	}
	users, parts := holdOutParts(s, p)
	d := dataset.NewDigester()
	d.Text("fedsim held-out users v1")
	d.Text(s.Digest)
	d.Text(string(users))
	d.Text(string(parts))
	h := &HoldOut{
		Train: pickOf(s, users, partTrain, parts, partTrain), TrainUsers: usersOf(users, partTrain),
		Validation: heldOut(s, users, partValidation, parts), Test: heldOut(s, users, partTest, parts),
	}
	err := p.checkParts([3]int{h.Train.Len(), h.Validation.Target.Len(), h.Test.Target.Len()},
		[3]string{"training users have", "target of validation users has", "target of test users has"}, s.Len(),
		"held-out users: the %s none of %d ratings; %s, or use more ratings, ratings of fewer stars (split.positive), or another seed (split.seed)")
	if err != nil {
		return nil, err
	}
	return &Parts{Train: h.Train, Validation: h.Validation.Target, Test: h.Test.Target, Held: h, Digest: d.Sum()}, nil
}

// holdOutParts draws the part of every user and rating.
func holdOutParts(s *dataset.Set, p Params) (users, parts []byte) {
	draws, items := idtext.Draws("fedsim held-out user v1", s.UserIDs, p.Seed), idtext.Hashes("fedsim held-out item v1", s.ItemIDs)
	users = lists.Map(draws, p.cut().of)
	if p.counted() {
		p.count(draws, users)
	}
	if s.Tested != nil {
		holdOutTested(s, p, users)
	}
	liked, at := likedOf(s, p)
	target := targets(liked, p, users, func(k int) uint64 { return idtext.Mix(draws[liked.User[k]] ^ items[liked.Item[k]]) })
	parts = bytes.Repeat([]byte{partLeftOut}, s.Len())
	for i, k := range at {
		whose, isTarget := users[s.User[k]], target[i]
		if s.Tested != nil && whose == partTest {
			isTarget = s.Tested[k]
		}
		switch {
		case whose == partTrain && isTarget && p.By == Time: // the future of every user
		case whose == partTrain:
			parts[k] = partTrain
		case isTarget:
			parts[k] = partTarget
		default:
			parts[k] = partHistory
		}
	}
	return users, parts
}

// count gives parts to users by their draws: the least are for the test, the next for validation.
func (p Params) count(draws []uint64, users []byte) {
	for u := range users {
		users[u] = partTrain
	}
	test, validation := p.numbers(len(users))
	for rank, u := range byHash(draws)[:min(test+validation, len(users))] {
		users[u] = partTest
		if rank >= test {
			users[u] = partValidation
		}
	}
}

// targets returns which ratings are to be predicted if their users are held out. Exactly the share of each held-out user's ratings, rounded
// down, are the ratings with the least draws.
func targets(s *dataset.Set, p Params, users []byte, draw func(k int) uint64) []bool {
	out, share := make([]bool, s.Len()), Params{Test: p.target(), Seed: p.Seed, By: p.By, Cut: p.Cut}
	switch {
	case s.Tested == nil && p.By != "" && p.By != Random:
		for k, part := range partsOf(s, share) {
			out[k] = part == partTest
		}
	case p.Exact:
		start := csr.Starts(s.User, s.Users)
		order := csr.Order(s.User, s.Item, s.Items, start)
		for u, whose := range users {
			if whose == partTrain {
				continue
			}
			of := order[start[u]:start[u+1]]
			slices.SortStableFunc(of, func(a, b int32) int { return cmp.Compare(draw(int(a)), draw(int(b))) })
			const rounding = 1e-9 // of a product that is a whole number
			for _, k := range of[:int(p.target()*float64(len(of))+rounding)] {
				out[k] = true
			}
		}
	default:
		c := share.cut()
		for k := range out {
			out[k] = c.of(draw(k)) == partTest
		}
	}
	return out
}

func usersOf(users []byte, part byte) []int32 {
	var list []int32
	for u, p := range users {
		if p == part {
			list = append(list, int32(u))
		}
	}
	return list
}

// heldOut puts a part of held-out users together.
func heldOut(s *dataset.Set, users []byte, part byte, parts []byte) HeldOut {
	return HeldOut{
		Users:   usersOf(users, part),
		History: pickOf(s, users, part, parts, partHistory), Target: pickOf(s, users, part, parts, partTarget),
	}
}

// pickOf returns the ratings of one part that users of one part gave.
func pickOf(s *dataset.Set, users []byte, whose byte, parts []byte, part byte) dataset.Ratings {
	chosen := make([]byte, len(parts))
	for k, p := range parts {
		if p == part && users[s.User[k]] == whose {
			chosen[k] = 1
		}
	}
	return pick(s.Ratings, chosen, 1)
}

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

// seenUsers divides the likes of each user ([UsersSeen]).
func seenUsers(s *dataset.Set, p Params) (*Parts, error) {
	liked, _ := likedOf(s, p)
	d := dataset.NewDigester()
	d.Text("fedsim seen users v1")
	d.Text(s.Digest)
	d.Number(uint64(liked.Len()))
	out, err := divide(liked, p, d)
	if err != nil {
		return nil, err
	}
	h := &HoldOut{Train: out.Train, TrainUsers: usersOf(make([]byte, s.Users), 0), Seen: true}
	h.Validation = HeldOut{Users: usersWith(out.Validation), History: out.Train, Target: out.Validation}
	h.Test = HeldOut{Users: usersWith(out.Test), History: out.Train, Target: out.Test, Hidden: out.Validation}
	out.Held = h
	return out, nil
}

// likedOf returns the set with the ratings of enough stars alone, of users with enough of them, and where each of its ratings is in s.
func likedOf(s *dataset.Set, p Params) (*dataset.Set, []int) {
	liked := make([]int, s.Users)
	for k, u := range s.User {
		if float64(s.Value[k]) >= p.Positive {
			liked[u]++
		}
	}
	keep := make([]byte, s.Len())
	var at []int
	for k, u := range s.User {
		if float64(s.Value[k]) >= p.Positive && liked[u] >= p.Least {
			keep[k], at = 1, append(at, k)
		}
	}
	out := *s
	out.Ratings, out.Tested = pick(s.Ratings, keep, 1), only(s.Tested, keep, 1)
	return &out, at
}

// usersWith lists the users that have a rating, ascending.
func usersWith(r dataset.Ratings) []int32 {
	has := make([]byte, r.Users)
	for _, u := range r.User {
		has[u] = 1
	}
	return usersOf(has, 1)
}
