package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/dataset/download"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/results/recommend"
)

type dataGetCmd struct {
	Name   string `arg:"" help:"A published set: ml-100k, ml-1m, ml-10m, ml-20m, ml-25m or ml-latest-small."`
	Mirror string `placeholder:"URL" help:"Address of a folder with the same archives, to download from instead of GroupLens'. The digests to be met stay the same, but for ml-latest-small, whose digest is published beside it."`
	Format string `enum:"table,json" default:"table" help:"table or json."`
}

func (c *dataGetCmd) Run(ctx context.Context, s verb.Streams) error {
	p := verb.NewProgress(s.Err)
	r, err := download.Get(ctx, c.Name, download.Params{Mirror: c.Mirror, Progress: p.Fetching("downloading "+c.Name, megabytes)})
	p.Clear()
	if errors.Is(err, download.ErrUnknown) {
		return cli.Misusef("%w", err)
	}
	if err != nil {
		return err
	}
	return cli.PrintForm(s.Out, c.Format, dataTables, "got", r)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

type dataIDsCmd struct {
	Data string `arg:"" help:"As for fedsim run --data."`
	verb.Flags
	Of string `enum:"users,items" default:"users" help:"users or items."`
}

// Run prints the ids of all users, or items, with a usable rating.
func (c *dataIDsCmd) Run(ctx context.Context, s verb.Streams) error {
	o, err := options(c.Flags)
	if err != nil {
		return err
	}
	var left []*dataset.FileError
	o.Skipped = func(e *dataset.FileError) { left = append(left, e) }
	set, err := read.Open(ctx, c.Data, o)
	if err != nil {
		return misread(err)
	}
	verb.Notify(set.Notices, s)
	if len(left) > 0 {
		fmt.Fprintf(s.Err, "warning: %d rows do not count; the first: %v\n", len(left), left[0])
	}
	ids := set.UserIDs
	if c.Of == "items" {
		ids = set.ItemIDs
	}
	w := bufio.NewWriter(s.Out)
	for _, id := range ids {
		if strings.ContainsAny(id, "\r\n") {
			return fmt.Errorf("the id %q goes over several lines, and cannot be listed one a line", id)
		}
		fmt.Fprintln(w, id)
	}
	return w.Flush()
}

type dataPackCmd struct {
	Data string `arg:"" help:"As for fedsim run --data. A generated set is written as it is generated; others are read into memory."`
	verb.Flags
	Out    string `required:"" placeholder:"FILE" help:"Where to write it; --data reads the file. It must not be there yet."`
	Format string `enum:"table,json" default:"table" help:"table or json."`
}

func (c *dataPackCmd) Run(ctx context.Context, s verb.Streams) error {
	o, err := options(c.Flags)
	if err != nil {
		return err
	}
	p := verb.NewProgress(s.Err)
	o.Progress = p.Loading(c.Data)
	packed, err := read.PackFile(ctx, c.Data, o, c.Out)
	p.Clear()
	if err != nil {
		return misread(taken(c.Out, err))
	}
	verb.Notify(packed.Notices, s)
	return cli.PrintForm(s.Out, c.Format, dataTables, "packed", packed)
}

type dataRatersCmd struct {
	Data string `arg:"" help:"As for fedsim run --data."`
	verb.Flags
	Binary bool   `help:"As public-binary of fedsim run: what they liked, each with the weight 1."`
	Out    string `required:"" placeholder:"FILE.csv" help:"Where to write the features; the setting features reads the file. It must not be there yet."`
}

func (c *dataRatersCmd) Run(ctx context.Context, s verb.Streams) error {
	said := c.Settings()
	if c.Binary {
		said = append(said, config.Setting{Key: algorithm.PublicBinary.Name, Value: "yes", Origin: "--binary"})
	}
	conf, err := config.Resolve(said)
	if err == nil && algorithm.PublicUsers.Int(conf) == 0 && algorithm.PublicIDs.Is(conf, "") {
		err = cli.Misusef("who is public? say --public-users or --public-ids")
	}
	if err != nil {
		return err
	}
	p := verb.NewProgress(s.Err)
	set, err := experiment.OpenData(experiment.Hear(ctx, p.Warn), conf, c.Data, p.Loading(c.Data))
	p.Clear()
	if err != nil {
		return err
	}
	f, err := read.Features(set, "rater")
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err = f.WriteCSV(&text, set.ItemIDs); err != nil {
		return err
	}
	if err = writeNew(c.Out, &text); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "%d ratings of %d users; use them with --features %s, where none of these users takes part\n", len(f.Categories[0].Value), len(f.Categories[0].Values), c.Out)
	return err
}

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
	return taken(name, atomicfile.Create(name, text.Bytes(), 0o644))
}

// taken makes a wrong call of the error of --out that is there already.
func taken(name string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return cli.Misusef("--out %s: it is there already; give another name, or remove it", name)
	}
	return err
}

type dataVerifyCmd struct {
	Data   string `arg:"" help:"Name of a published set that was downloaded, or the folder or zip archive of a copy."`
	Format string `enum:"table,json" default:"table" help:"table or json."`
}

func (c *dataVerifyCmd) Run(ctx context.Context, s verb.Streams) error {
	p := verb.NewProgress(s.Err)
	v, err := read.Verify(ctx, c.Data, read.Options{Progress: p.Loading(c.Data)})
	p.Clear()
	if len(v.Checks) == 0 && err != nil {
		return err
	}
	return errors.Join(cli.PrintForm(s.Out, c.Format, dataTables, "verified", v), err, v.Err())
}
