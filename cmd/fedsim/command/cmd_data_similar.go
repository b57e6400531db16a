package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/results/recommend"
)

type dataSimilarCmd struct {
	Folder     string `name:"run" required:"" placeholder:"DIR" help:"Folder of a finished run on public data: ratings of people who are not among the users of the features."`
	Data       string `placeholder:"DATA" help:"Where the data of that run are now. Default: where they were."`
	Neighbours int    `default:"100" placeholder:"K" help:"Nearest items that an item gets, at most."`
	By         string `enum:"inner,cosine" default:"inner" help:"By what items are near: inner (product of their embeddings) or cosine."`
	Binary     bool   `help:"Give every one of them the weight 1."`
	Out        string `required:"" placeholder:"FILE.csv" help:"Where to write them; the setting features reads the file. It must not be there yet."`
}

func (c *dataSimilarCmd) Run(ctx context.Context, s verb.Streams) error {
	if c.Neighbours < 1 {
		return cli.Misusef("--neighbours %d: want at least 1", c.Neighbours)
	}
	p := verb.NewProgress(s.Err)
	r, err := recommend.Open(ctx, c.Folder, recommend.Options{Data: c.Data, Progress: p.Loading("the data of " + c.Folder)})
	p.Clear()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	items, doubtful, err := r.WriteSimilar(&text, c.Neighbours, recommend.Near(c.By), c.Binary)
	if err != nil {
		return err
	}
	if err = writeNew(c.Out, &text); err != nil {
		return err
	}
	if 2*doubtful > items {
		fmt.Fprintf(s.Err, "warning: %d of %d items have more items of the same direction (cosine 1.000) than neighbours here. Their neighbours say nothing. Take a run with a larger rank or epsilon\n", doubtful, items)
	}
	spent := "it was trained without privacy"
	if algorithm.Private(r.Config) {
		spent = "its privacy is the privacy of the run, which adds to theirs"
	}
	fmt.Fprintf(s.Err, "warning: features are taken for public. This file follows from the ratings of %s (digest %.12s); %s. Do not use it where any of these users are among the federation's\n", r.Data.Name, r.Data.Digest, spent)
	_, err = fmt.Fprintf(s.Out, "%d of %d items have similar ones; use them with --features %s\n", items, r.Data.Items, c.Out)
	return err
}

// writeNew writes the file of --out, which must not be there yet.
func writeNew(name string, text *bytes.Buffer) error {
	err := atomicfile.Create(name, text.Bytes(), 0o644)
	if errors.Is(err, os.ErrExist) {
		return cli.Misusef("--out %s: it is there already; give another name, or remove it", name)
	}
	return err
}
