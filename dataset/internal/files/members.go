package files

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dataset"
)

// ratingsFiles are the names of the file that is looked for in a folder.
var ratingsFiles = []string{"ratings.csv", "ratings.dat", "u.data", "ratings.tsv", "ratings.inter", "ratings.jsonl", "ratings.parquet", "train_triplets.txt"}

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
func findMembers(ctx context.Context, f Folder, where string, o Options) (members, error) {
	names := slices.DeleteFunc(f.names(), isHidden)
	if want := o.Member; want != "" {
		if !f.Has(want) {
			return members{}, fmt.Errorf("--member: %s has no file %s; it has %s", where, want, strings.Join(Some(names), ", "))
		}
		return members{[]string{want}, dataset.Finding{What: "member", Found: want, Sure: dataset.Stated}}, nil
	}
	own := BaseName(where) + ".inter" // as RecBole has it
	called := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !isRatingsFile(name) && UnpackedName(name) != own })
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
	rank := func(name string) int { return slices.Index(ratingsFiles, strings.ToLower(UnpackedName(name))) }
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}

// soleRatings returns the only file whose beginning is one of ratings; no file where there is none.
func soleRatings(ctx context.Context, f Folder, where string, names []string, o Options) (members, error) {
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
	return members{}, fmt.Errorf("%s: %w: no file of it has a name such as %s, and there may be ratings in %s; say in which, as --member %s", where, dataset.ErrNoRatings, ratingsFiles[0], strings.Join(Some(list), ", "), list[0])
}

// describing are the names, without extension, of files that people call their lists of items.
var describing = []string{"items", "movies", "books", "products", "catalog", "catalogue", "metadata"}

// Unused lists files beside the ratings that are not among the used ones: all of a folder or archive, and of a file
// that was named itself the lists of items.
func (s *Source) Unused(used ...string) []string {
	used = append(append(used, s.File), s.Parts...)
	return slices.DeleteFunc(s.names(), func(name string) bool {
		stem, _, _ := strings.Cut(strings.ToLower(name), ".")
		return isHidden(name) || slices.Contains(used, name) || s.Found.What == "" && !slices.Contains(describing, stem)
	})
}

// hasRatings reports whether a file begins like one of ratings.
func hasRatings(ctx context.Context, f Folder, name string, o Options) bool {
	r, size, err := f.Open(name)
	if err != nil {
		return false
	}
	defer r.Close() //nolint:errcheck // read-only: nothing can be lost
	return o.Holds != nil && o.Holds(ctx, Input{ReadCloser: r, Path: f.Path(name), Size: size, Beside: f.Has})
}
