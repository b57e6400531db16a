package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/cli"
)

type dataPackCmd struct {
	Data       string   `arg:"" help:"As for fedsim run --data. A generated set is written as it is generated; others are read into memory."`
	RatingMin  *float64 `help:"Bottom of the rating scale, for data whose format does not say it."`
	RatingMax  *float64 `help:"Top of the rating scale, likewise."`
	Columns    string   `placeholder:"user=NAME,..." help:"What the data call their columns, as of fedsim run."`
	Duplicates string   `enum:"error,last,mean,count" default:"error" help:"What several rows of one user and item are, as of fedsim run."`
	Out        string   `required:"" placeholder:"FILE" help:"Where to write it; --data reads the file. It must not be there yet."`
	Format     string   `enum:"table,json" default:"table" help:"table or json."`
}

// Run implements fedsim data pack.
func (c *dataPackCmd) Run(ctx context.Context, s streams) error {
	columns, err := parseColumns(c.Columns)
	if err != nil {
		return err
	}
	p := newProgress(s.err)
	packed, err := read.PackFile(ctx, c.Data, read.Options{
		Min: c.RatingMin, Max: c.RatingMax, Columns: columns, Duplicates: read.Duplicates(c.Duplicates), Progress: p.Loading(c.Data),
	}, c.Out)
	p.Clear()
	switch {
	case errors.Is(err, fs.ErrExist):
		return cli.Misusef("--out %s: it is there already; give another name, or remove it", c.Out)
	case errors.Is(err, dataset.ErrScale):
		return cli.Misusef("--rating-min, --rating-max: %w", err)
	case errors.Is(err, read.ErrDuplicates):
		return cli.Misusef("--%w", err)
	case err != nil:
		return err
	}
	notify(packed.Notices, s)
	if c.Format == "json" {
		return cli.PrintJSON(s.out, packed)
	}
	_, err = fmt.Fprintf(s.out, "%d ratings of %d users and %d items in %d bytes, %.2f a rating; digest %.12s\n",
		packed.Ratings, packed.Users, packed.Items, packed.Bytes, float64(packed.Bytes)/float64(packed.Ratings), packed.Digest)
	return err
}
