package read

import (
	"context"
	"io"

	"github.com/fedsim/fedsim/dataset/pack"
	"github.com/fedsim/fedsim/dataset/synthetic"
)

// Pack writes a set in the packed form, which [Open] reads. Pack and Open take the same spec. A
// synthetic shape is written as it is generated, and never in memory as a whole; other data are, at 12
// bytes a rating, since they may be in any order.
func Pack(ctx context.Context, spec string, o Options, w io.Writer) (pack.Report, error) {
	if synthetic.IsShape(spec) {
		return synthetic.Pack(ctx, spec, o.synthetic(), w)
	}
	set, err := Open(ctx, spec, o)
	if err != nil {
		return pack.Report{}, err
	}
	p, err := pack.Write(set, w)
	p.Notices = set.Notices
	return p, err
}

// PackFile is [Pack] to a file, which must not be there yet (else the error wraps [fs.ErrExist]). It appears when it is whole.
func PackFile(ctx context.Context, spec string, o Options, path string) (pack.Report, error) {
	return pack.File(path, func(w io.Writer) (pack.Report, error) { return Pack(ctx, spec, o, w) })
}
