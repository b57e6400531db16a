// Package files finds the file of ratings that a path names, in a folder, an archive or a pipe, and takes it out of what it is
// packed in. Text then is UTF-8 with lines that end in LF. The package knows no format of ratings: where no file has a usual name,
// the caller says which one begins like ratings ([Options]).
package files

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/fedsim/fedsim/dataset"
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

// Input opens the file of ratings of a source.
func (s *Source) Input(progress func(done, total int64)) (Input, error) {
	return s.InputOf(s.File, progress)
}

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
		input := o.Standard
		if input == nil {
			input = os.Stdin
		}
		return &Source{Folder: pipe{input}, Name: "stdin", File: Standard, Close: func() error { return nil }}, nil
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
	s := &Source{Name: BaseName(name), Close: func() error { return nil }}
	if info.IsDir() {
		if err = DiskFolder(name).Readable(); err != nil {
			return nil, err
		}
		s.Folder = DiskFolder(name)
		m, err := findMembers(ctx, s.Folder, name, o)
		if err != nil {
			return s, err
		}
		s.File, s.Parts, s.Found = m.files[0], m.files[1:], m.found
		return s, nil
	}
	dir, file := filepath.Split(name)
	s.Folder, s.File = DiskFolder(dir), file
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
