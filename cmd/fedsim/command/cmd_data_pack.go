package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/verb"
)

type dataPackCmd struct {
	Data string `arg:"" help:"As for fedsim run --data. A generated set is written as it is generated; others are read into memory."`
	dataFlags
	Out    string `required:"" placeholder:"FILE" help:"Where to write it; --data reads the file. It must not be there yet."`
	Format string `enum:"table,json" default:"table" help:"table or json."`
}

func (c *dataPackCmd) Run(ctx context.Context, s verb.Streams) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	p := verb.NewProgress(s.Err)
	o.Progress = p.Loading(c.Data)
	packed, err := read.PackFile(ctx, c.Data, o, c.Out)
	p.Clear()
	switch {
	case errors.Is(err, fs.ErrExist):
		return cli.Misusef("--out %s: it is there already; give another name, or remove it", c.Out)
	case err != nil:
		return misread(err)
	}
	verb.Notify(packed.Notices, s)
	if c.Format == "json" {
		return cli.PrintJSON(s.Out, packed)
	}
	_, err = fmt.Fprintf(s.Out, "%d ratings of %d users and %d items in %d bytes, %.2f a rating; digest %.12s\n",
		packed.Ratings, packed.Users, packed.Items, packed.Bytes, float64(packed.Bytes)/float64(packed.Ratings), packed.Digest)
	return err
}
