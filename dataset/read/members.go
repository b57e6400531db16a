package read

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dataset"
)

// mostTried limits the files of a folder or archive that are looked into.
const mostTried = 100

// partName is the name of a part of a file, as Spark writes it.
var partName = regexp.MustCompile(`^part-[0-9a-zA-Z_.-]+$`)

// members are the files that hold the ratings, and how they were found. There are several where they are parts of one.
type members struct {
	files []string
	found dataset.Finding
}

// findMembers returns the files of a folder that hold the ratings. It takes a named file, a file with a usual name, the parts of a file,
// or the only file whose content is ratings. It does not guess among several.
func findMembers(ctx context.Context, f folder, where string, o Options) (members, error) {
	names := slices.DeleteFunc(f.names(), isHidden)
	if want := o.Form.Member; want != "" {
		if !f.has(want) {
			return members{}, fmt.Errorf("--member: %s has no file %s; it has %s", where, want, strings.Join(firstOf(names, mostNamed), ", "))
		}
		return members{[]string{want}, dataset.Finding{What: "member", Found: want, Sure: dataset.Stated}}, nil
	}
	own := baseName(where) + ".inter" // as RecBole has it
	called := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !isRatingsFile(name) && unpackedName(name) != own })
	switch len(called) {
	case 0:
	case 1:
		return members{called, dataset.Finding{What: "member", Found: called[0], Sure: dataset.Certain, Why: "by its name"}}, nil
	default:
		return members{}, fmt.Errorf("%s holds %s; name the file itself, or say --member %s", where, strings.Join(inKnownOrder(called), " and "), called[0])
	}
	parts := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !partName.MatchString(name) })
	if len(parts) > 0 {
		return members{parts, dataset.Finding{What: "member", Found: fmt.Sprintf("%d parts from %s", len(parts), parts[0]), Sure: dataset.Certain, Why: "by their names"}}, nil
	}
	if m, err := soleRatings(ctx, f, where, names, o); err != nil || len(m.files) > 0 {
		return m, err
	}
	return members{}, fmt.Errorf("%s: %w: looked in it for %s, %s", where, dataset.ErrNoRatings, strings.Join(ratingsFiles, ", "), own)
}

// inKnownOrder orders names as in the list of names of files of ratings.
func inKnownOrder(names []string) []string {
	rank := func(name string) int { return slices.Index(ratingsFiles, strings.ToLower(unpackedName(name))) }
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}

// soleRatings returns the only file whose beginning is one of ratings; no file where there is none.
func soleRatings(ctx context.Context, f folder, where string, names []string, o Options) (members, error) {
	var list []string
	for _, name := range names[:min(len(names), mostTried)] {
		if hasRatings(ctx, f, name, o) {
			list = append(list, name)
		}
	}
	switch len(list) {
	case 0:
		return members{}, nil
	case 1:
		return members{list, dataset.Finding{What: "member", Found: list[0], Sure: dataset.Likely, Why: "no other file begins like ratings"}}, nil
	}
	return members{}, fmt.Errorf("%s: %w: no file of it has a name such as %s, and there may be ratings in %s; say in which, as --member %s", where, dataset.ErrNoRatings, ratingsFiles[0], strings.Join(firstOf(list, mostNamed), ", "), list[0])
}

// describing are the names, without extension, of files that people call their lists of items.
var describing = []string{"items", "movies", "books", "products", "catalog", "catalogue", "metadata"}

// nameUnused adds a finding about the files beside the ratings that are not read: all of a folder or archive, and
// of a file that was named itself the lists of items.
func (t *table) nameUnused(s *source) {
	used := append([]string{s.file}, s.parts...)
	if t.format.items != nil {
		used = append(used, t.format.items.file)
	}
	list := slices.DeleteFunc(s.names(), func(name string) bool {
		stem, _, _ := strings.Cut(strings.ToLower(name), ".")
		return isHidden(name) || slices.Contains(used, name) || s.found.What == "" && !slices.Contains(describing, stem)
	})
	if len(list) == 0 {
		return
	}
	text := strings.Join(firstOf(list, mostNamed), ", ")
	t.found = append(t.found, dataset.Finding{What: "not used", Found: text, Sure: dataset.Certain, Why: "beside the ratings"})
}

// hasRatings reports whether a file begins like one of ratings.
func hasRatings(ctx context.Context, f folder, name string, o Options) bool {
	r, size, err := f.open(name)
	if err != nil {
		return false
	}
	defer r.Close() //nolint:errcheck // read-only: nothing can be lost
	rows, err := sniff(ctx, input{ReadCloser: r, path: f.path(name), size: size, beside: f.has}, o)
	return err == nil && rows.rows != nil
}
