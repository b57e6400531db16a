// Package read opens sets of ratings. It also reads lists of items and files of item features beside them, and verifies copies of
// published sets. A spec takes one way:
//
//	spec -> source (internal/dataset/files)    a folder, an archive, a file or a pipe
//	     -> rows (internal/dataset/records)    what the file is, and an opener for it: scanner, JSON lines or Parquet
//	     -> table (table.go)                   ids, ratings and times, in the order of the file
//	     -> set (order.go)                     in canonical order, with its digest
//
// Generated and packed sets are opened by packages synthetic and pack. This package never downloads anything, and writes nothing but
// packed files ([PackFile]). It makes two promises beside the promises of every set:
//
//   - The items of a set are a public catalogue where the source lists them, rated or not. Without a list they are the rated items,
//     which are then assumed to be public: no privacy statement about the set protects which ones they are. The assumption also covers
//     a rated item that is not listed, which becomes an item of the set all the same.
//   - A file with a repeated (user, item) pair, or with anything but a finite rating within the range, is refused with a
//     [*dataset.FileError] that says where. [Options] may state what a repeated pair means. Nothing is repaired silently. A client that
//     must not refuse a file for its ratings learns instead which records are left out ([Options.Skipped]).
package read

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/dataset/files"
	"github.com/fedsim/fedsim/internal/dataset/pack"
	"github.com/fedsim/fedsim/internal/dataset/published"
	"github.com/fedsim/fedsim/internal/dataset/records"
	"github.com/fedsim/fedsim/internal/dataset/synthetic"
	"github.com/fedsim/fedsim/internal/lists"
)

// Open opens a data set. The spec has one of these forms:
//
//	synthetic           the same as synthetic:ml-1m
//	synthetic:SHAPE     a generated set; List names the shapes
//	synthetic:SHAPE-N   the same with N users, who rate as many of the same items each
//	DIR                 a folder that holds ratings.csv, .tsv, .dat, .inter, .jsonl or .parquet, or u.data
//	ZIP                 an archive with one folder that holds one of these, or of a single file
//	FILE                a file of ratings
//	-                   the piped text, read as a file
//	NAME                the copy in the cache of a published set; List names them
//
// With a label's name ([Columns]) the file is a table of a regression instead, with a header: a row is an example, and the columns except
// the label's are features ([Set.Profile]). A program opens such tables if it imports a reader of them ([RegisterRegressions]).
//
// A path that exists wins over a name. The content of a file decides its format, and its name only where rows without a header say too
// little: formats.yaml of internal/dataset/records lists them all.
//
//   - Columns of a header may stand in any order and among others, which are ignored. [Options.Columns] states names that no format has.
//     Without a column of ratings each row is a click ([Set.Clicks]).
//   - Objects with these names, one a line, are JSON lines; ids may be texts or numbers. Parquet cannot be read from an archive or a pipe,
//     and errors count its rows in place of lines.
//   - A file that begins with FEDSIMP1 is a packed set ([Pack]); every byte of it is checked. It is opened from its path alone.
//
// The items of a MovieLens set are listed and described by the file beside it: movies.csv, movies.dat or u.item. Text of the latter two that
// is not UTF-8 is read as ISO 8859-1. The items of other sets are listed by an items.csv ([dataset.ItemColumn]). Rated items that are not
// listed are added. Values are kept as the nearest float32.
//
// Files of an archive are unpacked as they are read, and nothing is written. A file that would unpack to more than 8 GiB or 200 times its
// packed size is refused.
//
// Errors in a file's content are [*dataset.FileError]. A file without ratings, and a folder without a file of ratings, wrap
// [dataset.ErrNoRatings]. A missing path wraps [fs.ErrNotExist], a published set that is not in the cache [published.ErrNotDownloaded], an
// unknown shape [synthetic.ErrUnknownShape]. When ctx ends, Open returns its error.
func Open(ctx context.Context, spec string, o Options) (*dataset.Set, error) {
	switch {
	case synthetic.Is(spec):
		if o.Test != "" || o.Columns != (Columns{}) || o.Form != (Form{}) || len(o.Unrated) > 0 {
			return nil, fmt.Errorf("data %q: a generated set has no columns to name, no form to say and no test file", spec)
		}
		set, err := synthetic.Open(ctx, spec, o.synthetic())
		if err == nil && !o.Times && set.Times != nil {
			set.MaybeTimes = true
			set.Digest = set.ComputeDigest()
		}
		return set, err
	case pack.Is(spec):
		if o.Test != "" || o.Columns != (Columns{}) || o.Form != (Form{}) || len(o.Unrated) > 0 || o.Times {
			return nil, fmt.Errorf("data %q: a packed file has no columns to name, no timestamps and no test file; use the data that it was packed from", spec)
		}
		return pack.Open(ctx, spec, o.synthetic().Options)
	}
	load := load
	if o.Columns.Label != "" {
		load = loadRegression
		switch {
		case o.Form.NoHeader || len(o.Unrated) > 0 || o.BadRows == BadRowsSkip:
			return nil, fmt.Errorf("data %q: a regression has a header, and neither unrated values nor rows to leave out; leave out --no-header, --unrated and --bad-rows", spec)
		case o.Test != "" || o.Times:
			return nil, fmt.Errorf("data %q: a regression has no timestamps and no test file; split.by random is needed", spec)
		}
	}
	s, err := findSource(ctx, spec, o)
	if err != nil {
		return nil, err
	}
	set, err := load(ctx, s, o)
	if errors.Is(err, records.ErrNoRows) && Once(spec) {
		err = fmt.Errorf("%s: %w: the pipe is empty, or was read before; save the data to a file, and name it with --data", spec, dataset.ErrNoRatings)
	}
	return set, errors.Join(err, s.Close())
}

// Once reports whether a spec names standard input, another pipe, or a folder with ratings in a pipe, which is empty when it is read again.
func Once(spec string) bool { return files.Once(spec) }

// synthetic are the options of a generated set.
func (o Options) synthetic() synthetic.Options {
	packed := pack.Options{Min: o.Min, Max: o.Max, Packed: o.Packed, Progress: o.Progress}
	return synthetic.Options{Options: packed, Fields: o.Fields, Times: o.Times || o.MaybeTimes}
}

// load reads the ratings of a source, and its items where they are listed.
func load(ctx context.Context, s *files.Source, o Options) (*dataset.Set, error) {
	if s.Member != "" {
		o.Form.Member = s.Member
	}
	t := newTable(o)
	if s.Found.What != "" {
		t.found = []dataset.Finding{s.Found}
	}
	for _, file := range append([]string{s.File}, s.Parts...) {
		if err := t.open(ctx, s, file); err != nil {
			return nil, err
		}
		t.Progress = nil // it counts the first file alone
	}
	if err := t.loadItems(ctx, s); err != nil {
		return nil, err
	}
	if list := s.Unused(t.format.Items); len(list) > 0 {
		t.found = append(t.found, dataset.Finding{What: "not used", Found: strings.Join(files.Some(list), ", "), Sure: dataset.Certain, Why: "beside the ratings"})
	}
	if t.Test != "" {
		if err := t.openTest(ctx); err != nil {
			return nil, err
		}
	}
	t.notifyScale()
	return t.sort(s.Name)
}

// Entry describes a source of data that [Open] understands: a spec with its counts, or a file format.
type Entry = synthetic.Entry

// List returns the synthetic sets, then the published ones, then the file formats.
func List() []Entry {
	list := synthetic.Shapes()
	for _, p := range published.Sets() {
		list = append(list, Entry{
			Name: p.Name, Description: p.Description,
			Users: p.Users, Items: p.Items, Ratings: p.Ratings, Min: p.Min, Max: p.Max,
		})
	}
	form := func(f records.Format) Entry {
		return Entry{Name: f.Title, Description: f.About, Min: f.Min, Max: f.Max}
	}
	return append(list, lists.Map(records.Described(), form)...)
}

// Find returns the error of [Open] for data that are not there, and reads nothing.
func Find(ctx context.Context, spec string, o Options) error {
	if synthetic.Is(spec) {
		return nil
	}
	s, err := findSource(ctx, spec, o)
	if err != nil {
		return err
	}
	return s.Close()
}

// findSource opens the source that a spec stands for.
func findSource(ctx context.Context, spec string, o Options) (*files.Source, error) {
	s, err := files.Open(ctx, spec, o.files())
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	p, ok := published.Lookup(spec)
	if !ok {
		return nil, fmt.Errorf("data %q: %w; want a folder, zip archive or file of ratings, one of %s, or synthetic[:%s]",
			spec, err, strings.Join(published.Names(), ", "), strings.Join(synthetic.ShapeNames(), "|:"))
	}
	archive, err := p.Cached(o.Cache)
	if err != nil {
		return nil, err
	}
	if s, err = files.Open(ctx, archive, Options{}.files()); err != nil {
		return nil, err
	}
	s.Name = p.Name
	return s, nil
}

// Pack writes a set in the packed form, which [Open] reads. Pack and Open take the same spec. A
// synthetic shape is written as it is generated, and never in memory as a whole. Other data are, since they may be in
// any order: at 12 bytes a rating, and 20 with timestamps, which are left out.
func Pack(ctx context.Context, spec string, o Options, w io.Writer) (pack.Report, error) {
	if synthetic.IsShape(spec) {
		return synthetic.Pack(ctx, spec, o.synthetic(), w)
	}
	o.MaybeTimes = true
	set, err := Open(ctx, spec, o)
	if err != nil {
		return pack.Report{}, err
	}
	if set.Times != nil {
		set.Times, set.Notices = nil, append(set.Notices, pack.Untimed)
	}
	return pack.Write(set, w)
}

// PackFile is [Pack] to a file, which must not be there yet (else the error wraps [fs.ErrExist]). It appears when it is whole.
func PackFile(ctx context.Context, spec string, o Options, path string) (p pack.Report, err error) {
	err = atomicfile.New(path, func(w io.Writer) (err error) {
		p, err = Pack(ctx, spec, o, w)
		return err
	})
	return p, err
}

// RegressionFile is the open file of a regression.
type RegressionFile struct {
	io.Reader                  // unpacked text in UTF-8
	Set       string           // name of the set to make
	Path      string           // for messages
	Progress  func(read int64) // hears how many bytes were read; may be nil
}

// regressions reads a regression. It is nil in a program that imports no reader of regressions.
var regressions func(ctx context.Context, f RegressionFile, o Options) (*dataset.Set, error)

// RegisterRegressions sets how [Open] reads files with a label's name ([Columns]). Call it in an init function.
func RegisterRegressions(read func(ctx context.Context, f RegressionFile, o Options) (*dataset.Set, error)) {
	regressions = read
}

// loadRegression opens the file of a source for the reader of regressions.
func loadRegression(ctx context.Context, s *files.Source, o Options) (*dataset.Set, error) {
	r, err := s.InputOf(s.File, o.Progress)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // read-only: nothing can be lost
	if regressions == nil {
		return nil, fmt.Errorf("%s: label=%s names a regression, and this program has no reader of regressions; use the command fedsim", r.Path, o.Columns.Label)
	}
	if len(s.Parts) > 0 {
		return nil, fmt.Errorf("%s: a regression is read from one file, and %s has more of the same rows; put all rows into one file, or name one with --member", r.Path, s.Parts[0])
	}
	if _, err = r.Unwrap(ctx, o.files()); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Path, err)
	}
	return regressions(ctx, RegressionFile{Reader: r, Set: s.Name, Path: r.Path, Progress: r.Progress}, o)
}

// Table reads a table whose first line names its columns. It may be packed, encoded and separated in any way that [Open]
// knows. Some columns have the given names: they show the separator. The function open gets the header, which is empty if the
// file is, and returns what takes each row and its line; a row is valid until the following one. Errors in the content are
// [*dataset.FileError].
func Table(ctx context.Context, path string, names []string, open func(header [][]byte) (take func(row [][]byte, line int) error, err error)) error {
	f, _, err := files.DiskFolder("").Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read-only: nothing can be lost
	return readTable(ctx, files.Input{ReadCloser: f, Path: path}, "", names, open)
}

// readTable is Table of a file that is open, in an encoding; "" finds it out.
func readTable(ctx context.Context, in files.Input, encoding string, names []string, open func(header [][]byte) (func(row [][]byte, line int) error, error)) error {
	s, header, _, err := openHeaded(ctx, in, encoding, names)
	if err != nil {
		return err
	}
	take, err := open(header)
	if err != nil {
		return s.Locate(in.Path, err)
	}
	fields := len(header) // which is valid until the first row
	return eachRow(s, in.Path, func(row [][]byte, line int) error {
		if len(row) != fields {
			return fmt.Errorf("%d fields, want %d as in the header", len(row), fields)
		}
		return take(row, line)
	})
}

// eachRow calls take with each row that is left, and its line.
func eachRow(s *records.Scanner, path string, take func(row [][]byte, line int) error) error {
	for {
		row, err := s.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = take(row, s.Line)
		}
		if err != nil {
			return s.Locate(path, err)
		}
	}
}

// openHeaded takes a table out of what it is packed in and reads its header. Some columns have the given names.
func openHeaded(ctx context.Context, in files.Input, encoding string, names []string) (*records.Scanner, [][]byte, []dataset.Finding, error) {
	found, err := in.Unwrap(ctx, files.Options{Encoding: encoding})
	if err != nil {
		return nil, nil, nil, &dataset.FileError{File: in.Path, Line: 1, Err: err}
	}
	s, header, err := records.OpenTable(ctx, in, names)
	if err != nil {
		err = s.Locate(in.Path, err)
	}
	return s, header, found, err
}
