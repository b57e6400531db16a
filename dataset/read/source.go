package read

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/published"
	"github.com/fedsim/fedsim/dataset/synthetic"
)

// source holds the files that a spec names, where the spec is no synthetic set.
type source struct {
	folder
	name    string          // of the set
	file    string          // of the ratings, in the folder
	parts   []string        // files with more of the same, in the folder
	member  string          // of a tar archive, where the spec names it
	found   dataset.Finding // how the file was found
	archive string          // path of the zip archive, "" when there is none
	close   func() error
}

// input is a file of ratings that is open.
type input struct {
	io.ReadCloser
	path     string                 // for messages; its last element may tell the format
	size     int64                  // bytes, 0 where that is unknown
	beside   func(name string) bool // whether a file stands beside it
	progress func(read int64)       // hears how many bytes were read; may be nil
}

// input opens the file of ratings of a source.
func (s *source) input(progress func(done, total int64)) (input, error) {
	return s.inputOf(s.file, progress)
}

func (s *source) inputOf(file string, progress func(done, total int64)) (input, error) {
	r, size, err := s.open(file)
	in := input{ReadCloser: r, path: s.path(file), size: size, beside: s.has}
	if progress != nil {
		in.progress = func(read int64) { progress(read, size) }
	}
	return in, err
}

// findSource opens the source that a spec stands for.
func findSource(ctx context.Context, spec string, o Options) (*source, error) {
	s, err := openSource(ctx, spec, o)
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
	if s, err = openSource(ctx, archive, Options{}); err != nil {
		return nil, err
	}
	s.name = p.Name
	return s, nil
}

// openSource opens a folder, a zip archive or a single file of ratings.
func openSource(ctx context.Context, name string, o Options) (*source, error) {
	if name == standardInput {
		input := o.Input
		if input == nil {
			input = os.Stdin
		}
		return &source{folder: pipe{input}, name: "stdin", file: standardInput, close: func() error { return nil }}, nil
	}
	info, err := os.Stat(name)
	if archive, member, is := cutMember(name); err != nil && is && o.Form.Member == "" {
		o.Form.Member = member
		s, failed := openSource(ctx, archive, o)
		if failed == nil {
			s.member = member
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
	s := &source{name: baseName(name), close: func() error { return nil }}
	if info.IsDir() {
		s.folder = diskFolder(name)
		m, err := findMembers(ctx, s.folder, name, o)
		if err != nil {
			return s, err
		}
		s.file, s.parts, s.found = m.files[0], m.files[1:], m.found
		return s, nil
	}
	dir, file := filepath.Split(name)
	s.folder, s.file = diskFolder(dir), file
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
