package read

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/fedsim/fedsim/dataset/internal/files"
	"github.com/fedsim/fedsim/dataset/published"
	"github.com/fedsim/fedsim/dataset/synthetic"
)

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
