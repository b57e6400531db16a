// Package files finds the file of ratings that a path names, in a folder, an archive or a pipe, and takes it out of what it is
// packed in. Text then is UTF-8 with lines that end in LF. The package knows no format of ratings: where no file has a usual name,
// the caller says which one begins like ratings ([Options]).
package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/lists"
)

// Source holds the files that a spec names, where the spec is no synthetic set.
type Source struct {
	Folder
	Name    string          // of the set
	File    string          // of the ratings, in the folder
	Parts   []string        // files with more of the same, in the folder
	Member  string          // of a tar archive, where the spec names it
	Found   dataset.Finding // how the file was found
	Archive string          // Path of the zip archive, "" when there is none
	Close   func() error
}

// Options say which file of an archive or folder is meant, and how its text is encoded. The zero value finds out.
type Options struct {
	Member   string    // of an archive or folder
	Encoding string    // as of [CheckEncoding]
	Standard io.Reader // what "-" stands for; nil for [os.Stdin]
	// Holds reports whether a file begins like one of ratings. It tells among files that have no usual name.
	Holds func(ctx context.Context, in Input) bool
}

// Input is a file of ratings that is open.
type Input struct {
	io.ReadCloser
	Path     string                 // for messages; its last element may tell the format
	Size     int64                  // bytes, 0 where that is unknown
	Beside   func(name string) bool // whether a file stands beside it
	Progress func(read int64)       // hears how many bytes were read; may be nil
}

// InputOf opens a file of a source.
func (s *Source) InputOf(file string, progress func(done, total int64)) (Input, error) {
	r, size, err := s.Open(file)
	in := Input{ReadCloser: r, Path: s.Path(file), Size: size, Beside: s.Has}
	if progress != nil {
		in.Progress = func(read int64) { progress(read, size) }
	}
	return in, err
}

// Open opens a folder, a zip archive or a single file of ratings.
func Open(ctx context.Context, name string, o Options) (*Source, error) {
	if name == Standard {
		return &Source{Folder: pipe{cmp.Or[io.Reader](o.Standard, os.Stdin)}, Name: "stdin", File: Standard, Close: func() error { return nil }}, nil
	}
	info, err := os.Stat(name)
	if archive, member, is := cutMember(name); err != nil && is && o.Member == "" {
		o.Member = member
		s, failed := Open(ctx, archive, o)
		if failed == nil {
			s.Member = member
		}
		return s, failed
	}
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() { // a pipe cannot be rewound after a look at its beginning
		if archive, zipErr := openZip(ctx, name, o); archive != nil || zipErr != nil {
			return archive, zipErr
		}
	}
	dir, file := filepath.Split(name)
	s := &Source{Folder: DiskFolder(dir), File: file}
	if info.IsDir() {
		if err = DiskFolder(name).Readable(); err != nil {
			return nil, err
		}
		if s, err = find(ctx, name, []string{"."}, map[string]Folder{".": DiskFolder(name)}, o); err != nil {
			return nil, err
		}
	}
	s.Name, s.Close = BaseName(name), func() error { return nil }
	return s, nil
}

// cutMember cuts the path of a file in an archive into the path of the archive and the rest.
func cutMember(name string) (archive, member string, is bool) {
	for at := len(name); ; {
		if at = strings.LastIndexAny(name[:at], `/\`); at <= 0 {
			return "", "", false
		}
		if info, err := os.Stat(name[:at]); err == nil {
			return name[:at], filepath.ToSlash(name[at+1:]), info.Mode().IsRegular() && at+1 < len(name)
		}
	}
}

// Folder is where the files of a set stand: a folder of the disk or of a zip archive.
type Folder interface {
	// Open opens a file of the folder and returns its size in bytes, 0 where it is unknown. The error
	// of a missing file wraps fs.ErrNotExist.
	Open(name string) (r io.ReadCloser, size int64, err error)
	Has(name string) bool
	names() []string         // of its files, ascending
	Path(name string) string // for messages
}

// BaseName names a path by its last element, and "." by the folder it stands for.
func BaseName(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return filepath.Base(path)
}

// DiskFolder is a folder of the disk; "" is the present one.
type DiskFolder string

func (d DiskFolder) Path(name string) string { return filepath.Join(string(d), name) }

func (d DiskFolder) Has(name string) bool {
	info, err := os.Stat(d.Path(name))
	return err == nil && !info.IsDir()
}

// Readable returns an error if the process may not list the folder or look at the files in it. Without it such a folder looks empty.
func (d DiskFolder) Readable() error {
	entries, err := os.ReadDir(cmp.Or(string(d), "."))
	for _, e := range entries {
		if _, denied := os.Stat(d.Path(e.Name())); errors.Is(denied, fs.ErrPermission) {
			return denied
		}
	}
	return err
}

// names leaves out pipes and sockets, where a look would wait for a writer, unless the name says that ratings come through them.
func (d DiskFolder) names() []string {
	entries, _ := os.ReadDir(cmp.Or(string(d), ".")) // Readable says what is wrong
	return lists.Map(slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		info, err := os.Stat(d.Path(e.Name()))
		return err != nil || info.IsDir() || !info.Mode().IsRegular() && !isRatingsFile(e.Name()) && !partName.MatchString(e.Name())
	}), fs.DirEntry.Name)
}

// Once reports whether a path names standard input, another pipe, or a folder in which ratings come through a pipe. A pipe is empty
// when it is read again.
func Once(name string) bool {
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		d := DiskFolder(name)
		return slices.ContainsFunc(d.names(), func(file string) bool { return Once(d.Path(file)) })
	}
	return name == Standard || err == nil && !info.Mode().IsRegular()
}

func (d DiskFolder) Open(name string) (io.ReadCloser, int64, error) {
	f, err := os.Open(d.Path(name))
	if err != nil {
		return nil, 0, err
	}
	var size int64
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return f, size, nil
}

// Standard is the spec of what is piped in.
const Standard = "-"

// pipe is a folder that holds the piped text alone. It hides that standard input may be a file, which would be read from its start.
type pipe struct{ io.Reader }

func (p pipe) Path(string) string { return "standard input" }

func (p pipe) Has(string) bool { return false }

func (p pipe) names() []string { return nil }

func (p pipe) Open(string) (io.ReadCloser, int64, error) {
	return io.NopCloser(p), 0, nil
}

// ratingsFiles are the names of the file that is looked for in a folder.
var ratingsFiles = []string{"ratings.csv", "ratings.dat", "u.data", "ratings.tsv", "ratings.inter", "ratings.jsonl", "ratings.parquet", "train_triplets.txt"}

// mostTried limits the files of a folder or archive that are looked into.
const mostTried = 100

// partName is the name of a part of a file, as Spark writes it.
var partName = regexp.MustCompile(`^part-[0-9a-zA-Z_.-]+$`)

// find finds the files that hold the ratings in one of some folders: the folder of a path on disk, or the folders of an archive by their
// paths in it. It takes a named file, or what [findIn] finds in the folder that has a file with a usual name, or else in one folder
// alone. An archive may have a single file of any name.
func find(ctx context.Context, where string, dirs []string, folders map[string]Folder, o Options) (*Source, error) {
	_, disk := folders["."].(DiskFolder)
	var all, usual []string // files, and folders
	for _, dir := range dirs {
		names := slices.DeleteFunc(folders[dir].names(), isHidden)
		if slices.ContainsFunc(names, isRatingsFile) {
			usual = append(usual, dir)
		}
		all = append(all, lists.Map(names, func(name string) string { return path.Join(dir, name) })...)
	}
	switch {
	case o.Member != "" && disk && folders["."].Has(o.Member):
		return sourceOf(folders["."], []string{o.Member}, o.Member, dataset.Stated, ""), nil
	case o.Member != "":
		named := namedBy(all, path.Clean(strings.ReplaceAll(o.Member, `\`, "/")))
		switch len(named) {
		case 0:
			return nil, fmt.Errorf("--member: %s has no file %s; it has %s", where, o.Member, strings.Join(Some(all), ", "))
		case 1:
			return sourceOf(folders[path.Dir(named[0])], []string{path.Base(named[0])}, named[0], dataset.Stated, ""), nil
		}
		return nil, fmt.Errorf("%s: has %s; say which, with its folder", where, strings.Join(named, " and "))
	case len(all) == 1 && !disk:
		return sourceOf(folders[path.Dir(all[0])], []string{path.Base(all[0])}, all[0], dataset.Certain, "the archive has no other file"), nil
	case len(usual) > 1:
		return nil, fmt.Errorf("%s: has ratings in its folders %s; unpack it and name one of them, or say which file with --member NAME", where, strings.Join(usual, " and "))
	case len(usual) == 1:
		dirs = usual
	}
	var found *Source
	for _, dir := range dirs {
		s, err := findIn(ctx, folders[dir], path.Join(where, dir), o)
		switch {
		case err == nil && found != nil:
			return nil, fmt.Errorf("%s: ratings may be in %s or %s; say in which, as --member NAME", where, found.Path(found.File), s.Path(s.File))
		case err == nil:
			found = s
		case disk || len(usual) == 1 || !errors.Is(err, dataset.ErrNoRatings) || strings.Contains(err.Error(), "--member"):
			return nil, err
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%s: %w: looked in all its folders for %s", where, dataset.ErrNoRatings, strings.Join(ratingsFiles, ", "))
	}
	return found, nil
}

// sourceOf makes a source of files of a folder.
func sourceOf(f Folder, files []string, found string, sure dataset.Sureness, why string) *Source {
	return &Source{Folder: f, File: files[0], Parts: files[1:], Found: dataset.Finding{What: "member", Found: found, Sure: sure, Why: why}}
}

// namedBy returns the files of a path, or else those with this last element.
func namedBy(files []string, want string) []string {
	if slices.Contains(files, want) {
		return []string{want}
	}
	return slices.DeleteFunc(slices.Clone(files), func(name string) bool { return !strings.EqualFold(path.Base(name), want) })
}

// findIn returns the files of a folder that hold the ratings. It takes a file with a usual name, the parts of a file,
// or the only file whose content is ratings. It does not guess among several.
func findIn(ctx context.Context, f Folder, where string, o Options) (*Source, error) {
	names := slices.DeleteFunc(f.names(), isHidden)
	own := BaseName(where) + ".inter" // as RecBole has it
	called := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !isRatingsFile(name) && UnpackedName(name) != own })
	parts := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !partName.MatchString(name) })
	switch {
	case len(called) == 1:
		return sourceOf(f, called, called[0], dataset.Certain, "by its name"), nil
	case len(called) > 1:
		rank := func(name string) int { return slices.Index(ratingsFiles, strings.ToLower(UnpackedName(name))) }
		slices.SortStableFunc(called, func(a, b string) int { return rank(a) - rank(b) })
		return nil, fmt.Errorf("%s holds %s; name the file itself, or say --member %s", where, strings.Join(called, " and "), called[0])
	case len(parts) > 0:
		return sourceOf(f, parts, fmt.Sprintf("%d parts from %s", len(parts), parts[0]), dataset.Certain, "by their names"), nil
	}
	like := slices.DeleteFunc(names[:min(len(names), mostTried)], func(name string) bool { return !hasRatings(ctx, f, name, o) })
	switch len(like) {
	case 0:
		return nil, fmt.Errorf("%s: %w: looked in it for %s, %s", where, dataset.ErrNoRatings, strings.Join(ratingsFiles, ", "), own)
	case 1:
		return sourceOf(f, like, like[0], dataset.Likely, "no other file begins like ratings"), nil
	}
	return nil, fmt.Errorf("%s: %w: no file of it has a name such as %s, and there may be ratings in %s; say in which, as --member %s",
		where, dataset.ErrNoRatings, ratingsFiles[0], strings.Join(Some(like), ", "), like[0])
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
