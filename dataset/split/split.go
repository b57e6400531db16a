// Package split divides the ratings of a set: into training, validation and test parts ([Divide]), and
// into private and public users ([TakeOut]). It also divides items or users among organisations
// ([PartitionItems], [PartitionUsers]). It reads no file.
//
// The part of a rating depends only on the seed and on the rating's user and item id; so does the
// choice of held-out users. Adding or removing any other rating, user or item moves nothing from one
// part to another. Which organisation has an item or a user depends on the seed and on the ids and
// genres of the catalogue, never on a rating. Splits by time say what they depend on ([By]).
package split

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/problems"
)

// defaultTest is the share of ratings held out for the test when [Params] names none.
const defaultTest = 0.1

// Users says whose lists of items a split is for.
type Users string

// Kinds of users. The zero value divides ratings, for predicting ratings.
const (
	// UsersHeldOut do not train. Shares and folds are of users.
	UsersHeldOut Users = "held-out"
	// UsersSeen train too. Shares and folds are of what users like.
	UsersSeen Users = "seen"
)

// Params say how to split a set.
type Params struct {
	Whole      bool    // there is no test part, whatever Test says
	Test       float64 // share held out for the test, 0 < Test < 1; zero means 0.1. From 1 on a number of users held out
	Validation float64 // share held out for tuning, 0 for none; Test + Validation < 1. From 1 on a number of users held out
	Seed       uint64  // public; another seed gives another split

	By  By       // zero means Random; of no meaning where the set has a test file. Of held-out users: which ratings are to be predicted
	Cut *float64 // of Time: the timestamp from which on ratings are the test; nil: by the shares

	// Folds, if not 0, cuts the ratings (or the users) into so many parts of about the same size by chance. Fold, from 1,
	// is the test, in place of Test. The folds of one seed are disjoint and hold every rating (or user).
	Folds, Fold int

	// Users asks for a split for lists of items. The fields below have a meaning for such splits only.
	Users Users
	// Positive is the fewest stars of a like. Other ratings are left out everywhere, in training too; 0 leaves out none.
	Positive float64
	// Least is the number of likes that a user must have. A user with fewer is left out everywhere. At 0 no user is left out.
	Least int
	// Target is the share of a held-out user's likes to be predicted, 0 < Target < 1; zero means 0.2.
	Target float64
	// Exact has the target be the share of each held-out user's likes, rounded down, in place of every like by itself
	// with that probability. Of no meaning by time and with a test file.
	Exact bool
}

// ParseFold reads which fold of how many is the test, such as 1/5. The empty text is no folds.
func ParseFold(text string) (fold, folds int, err error) {
	const most = 1000
	if text == "" {
		return 0, 0, nil
	}
	a, b, _ := strings.Cut(text, "/")
	fold, err = strconv.Atoi(a)
	folds, err2 := strconv.Atoi(b)
	if err = errors.Join(err, err2); err != nil || folds < 2 || folds > most || fold < 1 || fold > folds {
		return 0, 0, fmt.Errorf("%q is no fold; give which of how many, such as 1/5, of 2 to %d", text, most)
	}
	return fold, folds, nil
}

// Validate reports everything that is wrong with the parameters.
func (p Params) Validate() error {
	switch p.Users {
	case "", UsersSeen:
		return p.validateShares()
	case UsersHeldOut:
		return p.validateHeldOut()
	default:
		return fmt.Errorf("split: users %q; want one of %v", p.Users, []Users{UsersHeldOut, UsersSeen})
	}
}

func (p Params) validateShares() error {
	var errs problems.List
	test := p.test()
	errs.If(!(test > 0 && test < 1) && !p.Whole, "split: test share is %v; want more than 0 and less than 1", p.Test)
	errs.If(!(p.Validation >= 0 && p.Validation < 1), "split: validation share is %v; want at least 0 and less than 1", p.Validation)
	errs.If(len(errs) == 0 && test+p.Validation >= 1,
		"split: test share %v and validation share %v leave nothing to train on; want a sum below 1", test, p.Validation)
	errs.If(p.By != "" && !slices.Contains(kinds, p.By), "split: by %q; want one of %v", p.By, kinds)
	errs.If(p.Whole && p.By != "" && p.By != Random, "split: by %q asks for a test part, and there is to be none", p.By)
	errs.If(p.Folds != 0 && (p.Folds < 2 || p.Fold < 1 || p.Fold > p.Folds || p.By != "" && p.By != Random || p.Whole),
		"split: fold %d of %d; there must be at least 2 folds by chance, and the fold is one of them", p.Fold, p.Folds)
	errs.If(p.Cut != nil && (p.By != Time || p.Validation > 0), "split: a cut at a time is of a split by time, without a validation part")
	return errors.Join(errs...)
}

func (p Params) test() float64 {
	if p.Whole {
		return 0
	}
	if p.Folds != 0 {
		return 1 / float64(p.Folds)
	}
	return cmp.Or(p.Test, defaultTest)
}

// Parts are a set cut into three disjoint parts, which keep its indices and its
// counts of users and items. A user or an item may have no rating in a part.
type Parts struct {
	Train, Validation, Test dataset.Ratings

	// Held divides users where the split is for lists of items ([Params.Users]); else nil. Its targets are the parts.
	Held *HoldOut

	// Digest is a hex SHA-256 over the set's digest and the part of every
	// rating: equal exactly when the same content is cut in the same way.
	Digest string
}

// Parts of a split, as they are hashed.
const (
	partTrain byte = iota
	partValidation
	partTest
)

// Divide sends every rating, independently of all others, to the test part with probability p.Test, to the validation part with
// p.Validation, else to the training part. The draw is a hash of the seed and the rating's user and item id alone, so that other ratings,
// users or items move no rating to another part. With the same seed a larger test share holds all of a smaller one.
//
// This is the default. The other kinds ([By]) go by timestamps. Where the set has a test file, that file is the test part, and p.Validation
// of the other ratings are for validation. For lists of items ([Params.Users]) see [HoldOut].
//
// A hand-made set must have an id for each user and item, distinct among users and among items: indices shift when a user or an item goes. It
// is an error when ids are missing, and when a part that was asked for stays empty.
func Divide(s *dataset.Set, p Params) (*Parts, error) {
	if err := checkSplit(s, p); err != nil {
		return nil, err
	}
	switch p.Users {
	case UsersHeldOut:
		return holdOutUsers(s.Unpacked(), p)
	case UsersSeen:
		return seenUsers(s.Unpacked(), p)
	}
	if s.Packed != nil && (p.By == "" || p.By == Random) && s.Tested == nil {
		return splitPacked(s, p)
	}
	s = s.Unpacked()
	return divide(s, p, splitDigester(s.Digest, s.Len()))
}

// divide cuts the ratings of a set, and hashes their parts behind what d holds.
func divide(s *dataset.Set, p Params, d *dataset.Digester) (*Parts, error) {
	parts := partsOf(s, p)
	counts := [3]int{countOf(parts, partTrain), countOf(parts, partValidation), countOf(parts, partTest)}
	if err := p.checkParts(counts, partNames, s.Len(), emptyPart); err != nil {
		return nil, err
	}
	d.Bytes(parts)
	return &Parts{
		Train:      pick(s.Ratings, parts, partTrain),
		Validation: pick(s.Ratings, parts, partValidation),
		Test:       pick(s.Ratings, parts, partTest),
		Digest:     d.Sum(),
	}, nil
}

// partNames names the parts of ratings, and emptyPart is the error of one of so many ratings that is empty.
var partNames = [3]string{"training", "validation", "test"}

const emptyPart = "split: the %s part of %d ratings is empty; %s, or use more ratings or another seed (split.seed)"

// checkParts reports parts that are asked for and stay empty, by the name, the number of all ratings and a remedy.
func (p Params) checkParts(counts [3]int, names [3]string, ratings int, format string) error {
	var errs []error
	for part, remedy := range [3]string{
		"lower the test and validation shares (split.test, split.validation)",
		"raise the validation share (split.validation) or set it to 0",
		"raise the test share (split.test)",
	} {
		if wanted := [3]bool{true, p.Validation > 0, !p.Whole}; wanted[part] && counts[part] == 0 {
			errs = append(errs, fmt.Errorf(format, names[part], ratings, remedy))
		}
	}
	return errors.Join(errs...)
}

// splitDigester hashes a set's digest, and then the parts of so many ratings.
func splitDigester(set string, ratings int) *dataset.Digester {
	d := dataset.NewDigester()
	d.Text("fedsim split v1")
	d.Text(set)
	d.Number(uint64(ratings))
	return d
}

// Training returns the training part alone, as [Divide] cuts the set, which may be empty. A party with some of the ratings, perhaps one
// user's, gets exactly those on which a run over all ratings would train: none if its user is held out. Users that are held out by number
// follow from who else there is, and are refused.
func Training(s *dataset.Set, p Params) (dataset.Ratings, error) {
	if err := checkSplit(s, p); err != nil {
		return dataset.Ratings{}, err
	}
	s = s.Unpacked()
	switch p.Users {
	case UsersHeldOut:
		if p.counted() {
			return dataset.Ratings{}, errors.New("held-out users: who is among a number of them follows from all users, whom a party does not know; want shares below 1")
		}
		users, parts := holdOutParts(s, p)
		return pickOf(s, users, partTrain, parts, partTrain), nil
	case UsersSeen:
		s, _ = likedOf(s, p)
	}
	return pick(s.Ratings, partsOf(s, p), partTrain), nil
}

// checkSplit reports everything that keeps the set from being split.
func checkSplit(s *dataset.Set, p Params) error {
	return errors.Join(p.Validate(), s.Ratings.Validate(), s.ValidateIDs(), checkTimes(s, p.By))
}

// partsOf draws the part of every rating. It hashes each id once: what is left to do for a rating is a single mix.
func partsOf(s *dataset.Set, p Params) []byte {
	parts := make([]byte, s.Len())
	switch {
	case s.Tested != nil:
		partByFile(s, p, draws(s, p.Seed), parts)
	case p.By == Time:
		partByTime(s, p, parts)
	case p.By == UserTime || p.By == LeaveOneOut:
		partByUser(s, p, draws(s, p.Seed), parts)
	default:
		partByChance(s, p, parts)
	}
	return parts
}

// cut turns hashes into parts.
type cut struct {
	test, trained float64 // ends of the test part and of the validation part behind it
	fold, folds   int
}

func (p Params) cut() cut { return cut{p.test(), p.test() + p.Validation, p.Fold, p.Folds} }

// of returns the part of a rating, or of a user, by its hash.
func (c cut) of(hash uint64) byte {
	u := float64(int64(hash>>11)) / (1 << 53)
	if c.folds != 0 {
		fold := min(int(u*float64(c.folds)), c.folds-1)
		u = (float64((fold-c.fold+1+c.folds)%c.folds) + u*float64(c.folds) - float64(fold)) / float64(c.folds) // turned until the fold comes first
	}
	switch {
	case u < c.test:
		return partTest
	case u < c.trained:
		return partValidation
	default:
		return partTrain
	}
}

// drawsOf returns a draw for each user and a hash of each item, whose mix is the draw of a rating.
func drawsOf(s *dataset.Set, seed uint64) (users, items []uint64) {
	return idtext.Draws("fedsim split user v1", s.UserIDs, seed), idtext.Hashes("fedsim split item v1", s.ItemIDs)
}

// draws returns the hash of each rating.
func draws(s *dataset.Set, seed uint64) func(k int) uint64 {
	users, items := drawsOf(s, seed)
	return func(k int) uint64 { return idtext.Mix(users[s.User[k]] ^ items[s.Item[k]]) }
}

// splitPacked is Split of packed ratings by chance: parts are views of the same file. It reads every rating once.
func splitPacked(s *dataset.Set, p Params) (*Parts, error) {
	c := p.cut()
	users, items := drawsOf(s, p.Seed)
	d := splitDigester(s.Digest, s.Len())
	var parts [3]dataset.Ratings
	var counts [3]int
	for part, view := range s.Packed.Divide(func(user int, rated []int32, parts []byte) {
		for k, j := range rated {
			parts[k] = c.of(idtext.Mix(users[user] ^ items[j]))
		}
		d.Bytes(parts)
	}) {
		parts[part], counts[part] = dataset.Ratings{Users: s.Users, Items: s.Items, Packed: view}, view.Len()
	}
	if err := p.checkParts(counts, partNames, s.Len(), emptyPart); err != nil {
		return nil, err
	}
	return &Parts{Train: parts[partTrain], Validation: parts[partValidation], Test: parts[partTest], Digest: d.Sum()}, nil
}

// perBlock counts the ratings that one goroutine takes at a time.
const perBlock = 1 << 16

// inBlocks calls f for every block of n ratings, which begins at from and ends before to, on all cores. f must write to places
// of its own only.
func inBlocks(n int, f func(block, from, to int)) {
	lists.Each(runtime.GOMAXPROCS(0), blocksOf(n), func(block int) { f(block, block*perBlock, min((block+1)*perBlock, n)) })
}

func blocksOf(n int) int { return (n + perBlock - 1) / perBlock }

func countOf(parts []byte, part byte) int { return bytes.Count(parts, []byte{part}) }

// partByChance writes the part of every rating as [Divide] draws it.
func partByChance(s *dataset.Set, p Params, parts []byte) {
	c := p.cut()
	users, items := drawsOf(s, p.Seed)
	inBlocks(len(parts), func(_, from, to int) {
		rated, drawn := s.Item[from:to], parts[from:to]
		for k, u := range s.User[from:to] {
			drawn[k] = c.of(idtext.Mix(users[u] ^ items[rated[k]]))
		}
	})
}

// pick returns the ratings of one part.
func pick(r dataset.Ratings, parts []byte, part byte) dataset.Ratings {
	start := make([]int, blocksOf(len(parts))+1) // block b writes from start[b]
	for from := 0; from < len(parts); from += perBlock {
		b := from / perBlock
		start[b+1] = start[b] + countOf(parts[from:min(from+perBlock, len(parts))], part)
	}
	out := dataset.NewRatings(r.Users, r.Items, start[len(start)-1])
	if r.Times != nil {
		out.Times = make([]float64, out.Len())
	}
	if out.Len() == 0 {
		return out
	}
	inBlocks(len(parts), func(block, from, to int) {
		n := start[block]
		for k := from; k < to; k++ {
			if parts[k] != part {
				continue
			}
			out.User[n], out.Item[n], out.Value[n] = r.User[k], r.Item[k], r.Value[k]
			if r.Times != nil {
				out.Times[n] = r.Times[k]
			}
			n++
		}
	})
	return out
}
