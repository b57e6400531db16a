package read

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/files"
	"github.com/fedsim/fedsim/internal/dataset/published"
	"github.com/fedsim/fedsim/internal/dataset/synthetic"
	"github.com/fedsim/fedsim/internal/lists"
)

// Verification is the result of [Verify].
type Verification struct {
	Set    string            `json:"set"`  // name of the published set it was compared with
	Path   string            `json:"path"` // of the ratings
	Checks []published.Check `json:"checks"`
}

// ErrMismatch is wrapped by the error of a set that differs from the published one.
var ErrMismatch = errors.New("is not the published set")

// Err returns nil when all checks passed, else an error that wraps [ErrMismatch] and
// says which did not.
func (v Verification) Err() error {
	failed := slices.DeleteFunc(slices.Clone(v.Checks), func(c published.Check) bool { return c.OK })
	wrong := lists.Map(failed, func(c published.Check) string { return fmt.Sprintf("%s is %s, want %s", c.What, c.Got, c.Want) })
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w %s: %s", v.Path, ErrMismatch, v.Set, strings.Join(wrong, "; "))
}

// Verify compares a copy of a published set with the published digests and counts. Verify and [Open] take the same spec. An archive with
// the name of a set is compared with the built-in digests, and in the cache with the digest recorded when it was downloaded. Then the set
// is read, which finds malformed rows and archive checksums that do not hold. Its counts are compared with those published for its name, or
// else for the most similar set.
//
// Faults in the content are in the result, not in the error. The error is an error of reading, and
// comes with the checks made so far.
func Verify(ctx context.Context, spec string, o Options) (Verification, error) {
	if synthetic.Is(spec) {
		return Verification{}, fmt.Errorf("data %q is generated and has nothing to verify; want one of %s, or the path of a copy",
			spec, strings.Join(published.Names(), ", "))
	}
	s, err := findSource(ctx, spec, o)
	if err != nil {
		return Verification{}, err
	}
	v, err := verify(ctx, s, o)
	return v, errors.Join(err, s.Close())
}

func verify(ctx context.Context, s *files.Source, o Options) (Verification, error) {
	v := Verification{Path: s.Path(s.File)}
	p, named := published.Lookup(strings.TrimSuffix(s.Name, ".zip"))
	if s.Archive != "" {
		v.Set = p.Name
		var err error
		if v.Checks, err = checkArchive(ctx, s.Archive, p, o.Cache); err != nil || v.Err() != nil {
			return v, err // another archive is not worth reading
		}
	}
	set, err := load(ctx, s, o)
	if err != nil {
		return v, err
	}
	info := set.Info()
	if !named {
		p = mostLike(info)
	}
	v.Set = p.Name
	vouched := slices.ContainsFunc(v.Checks, func(c published.Check) bool { return c.Want != "" })
	v.Checks = append(v.Checks, countChecks(p, info, vouched)...)
	return v, nil
}

// checkArchive compares the digests of an archive with those known for a set.
func checkArchive(ctx context.Context, archive string, p published.Set, c published.Cache) ([]published.Check, error) {
	if c == "" {
		c, _ = published.UserCache() // without one, the archive is not in it
	}
	got, checks, err := c.Check(ctx, p, archive)
	if err != nil || len(checks) > 0 {
		return checks, err
	}
	return []published.Check{{What: "sha-256", Got: got.SHA256, Against: "no digest is known for this archive", OK: true}}, nil
}

// counts compares the counts of a set with the published ones.
func counts(p published.Set, i dataset.Info) []published.Check {
	compare := func(what string, got, want int) published.Check {
		return published.Compare(what, strconv.Itoa(got), strconv.Itoa(want), "published for "+p.Name)
	}
	return []published.Check{
		compare("ratings", i.Ratings, p.Ratings), compare("users", i.Users, p.Users),
		compare("items", i.Items, p.Items), compare("rated items", i.RatedItems, p.RatedItems),
	}
}

// unlike returns how many checks failed.
func unlike(checks []published.Check) (n int) {
	for _, c := range checks {
		if !c.OK {
			n++
		}
	}
	return n
}

// countChecks compares the counts of a set with the published counts. If a digest vouches for a set
// that is updated over time, differing counts belong to another edition and are no fault.
func countChecks(p published.Set, i dataset.Info, vouched bool) []published.Check {
	checks := counts(p, i)
	if vouched && p.Renewed() && unlike(checks) > 0 {
		for k := range checks {
			checks[k].Want, checks[k].OK = "", true
			checks[k].Against = "another edition than that whose counts are known"
		}
	}
	return checks
}

// mostLike returns the published set that shares the most counts with another set; among several it
// returns the nearest in ratings.
func mostLike(i dataset.Info) published.Set {
	distance := func(p published.Set) float64 { return math.Abs(math.Log(float64(i.Ratings) / float64(p.Ratings))) }
	return slices.MinFunc(published.Sets(), func(a, b published.Set) int {
		return cmp.Or(cmp.Compare(unlike(counts(a, i)), unlike(counts(b, i))), cmp.Compare(distance(a), distance(b)))
	})
}
