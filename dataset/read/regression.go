package read

import (
	"context"
	"fmt"
	"io"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/files"
)

// RegressionFile is the open file of a regression.
type RegressionFile struct {
	io.Reader        // unpacked text in UTF-8
	Set       string // name of the set to make
	Path      string // for messages
	Size      int64  // packed bytes, 0 where the size is unknown
}

// regressions reads a regression. It is nil in a program that imports no reader of regressions.
var regressions func(ctx context.Context, f RegressionFile, o Options) (*dataset.Set, error)

// RegisterRegressions sets how [Open] reads files with a label's name ([Columns]). Call it in an init function.
func RegisterRegressions(read func(ctx context.Context, f RegressionFile, o Options) (*dataset.Set, error)) {
	regressions = read
}

// loadRegression opens the file of a source for the reader of regressions.
func loadRegression(ctx context.Context, s *files.Source, o Options) (*dataset.Set, error) {
	r, err := s.Input(o.Progress)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // read-only: nothing can be lost
	if regressions == nil {
		return nil, fmt.Errorf("%s: label=%s names a regression, and this program has no reader of regressions; use the command fedsim", r.Path, o.Columns.Label)
	}
	size := r.Size
	if _, err = r.Unwrap(ctx, o.files()); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Path, err)
	}
	return regressions(ctx, RegressionFile{Reader: r, Set: s.Name, Path: r.Path, Size: size}, o)
}
