package command

import (
	"bytes"
	"context"
	"fmt"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/verb"
)

type dataRatersCmd struct {
	Data    string `arg:"" help:"As for fedsim run --data."`
	Users   int    `name:"public-users" placeholder:"N" help:"How many users are public, as of fedsim run."`
	IDs     string `name:"public-ids" placeholder:"FILE" help:"Who is public, as of fedsim run."`
	Binary  bool   `help:"As public-binary of fedsim run: what they liked, each with the weight 1."`
	Columns string `placeholder:"user=NAME,..." help:"What the data call their columns, as of fedsim run."`
	Out     string `required:"" placeholder:"FILE.csv" help:"Where to write the features; the setting features reads the file. It must not be there yet."`
}

func (c *dataRatersCmd) Run(ctx context.Context, s verb.Streams) error {
	if c.Users < 1 && c.IDs == "" {
		return cli.Misusef("who is public? say --public-users or --public-ids")
	}
	said := []config.Setting{{Key: algorithm.PublicUsers.Name, Value: fmt.Sprint(c.Users), Origin: "--public-users"}, {Key: algorithm.PublicIDs.Name, Value: c.IDs, Origin: "--public-ids"}, {Key: algorithm.Columns.Name, Value: c.Columns, Origin: "--columns"}}
	if c.Binary {
		said = append(said, config.Setting{Key: algorithm.PublicBinary.Name, Value: "yes", Origin: "--binary"})
	}
	conf, err := config.Resolve(said)
	if err != nil {
		return err
	}
	p := verb.NewProgress(s.Err)
	set, err := experiment.OpenData(ctx, conf, c.Data, p.Loading(c.Data))
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
