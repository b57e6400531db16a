package command

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/results"
	"github.com/fedsim/fedsim/results/export"
	"github.com/fedsim/fedsim/results/recommend"
)

type exportCmd struct {
	Folder string `required:"" name:"run" placeholder:"DIR" help:"Folder of a finished run, or of a deployment's model."`
	To     string `required:"" enum:"parquet,csv,safetensors,faiss,word2vec" placeholder:"FORMAT" help:"parquet, csv, safetensors, faiss (an IndexFlatIP) or word2vec (its text format)."`
	Out    string `placeholder:"DIR" help:"Folder to make. Default: export-FORMAT in the run's folder."`
	Users  bool   `help:"Export the matrices of users too. ε does not cover them: they follow from each user's exact ratings."`
	Data   string `placeholder:"DATA" help:"Of --users: fit the users of these ratings to the released items, on this machine, and export them in place of the run's."`
	formFlags
}

func (c *exportCmd) Run(ctx context.Context, s verb.Streams) error {
	set, err := c.form(c.Data)
	if err != nil {
		return err
	}
	all, err := results.ReadEmbeddings(c.Folder)
	if err != nil {
		return cli.Misusef("--run: %w", err)
	}
	if c.Data != "" {
		if !c.Users {
			return cli.Misusef("--data says whose matrices to export; say --users too")
		}
		p := verb.NewProgress(s.Err)
		fitted, failed := recommend.FitUsers(ctx, c.Folder, recommend.Options{Data: c.Data, Form: set, Progress: p.Loading(c.Data)})
		p.Clear()
		if failed != nil {
			return namedWrongly(misread(failed))
		}
		all = append(slices.DeleteFunc(all, model.Embeddings.OfUsers), fitted...)
	}
	kept := slices.DeleteFunc(slices.Clone(all), func(x model.Embeddings) bool { return !c.Users && x.OfUsers() })
	switch {
	case len(kept) == 0:
		return cli.Misusef("--run: %s has matrices of users alone, which follow from exact ratings; say --users to export them", c.Folder)
	case len(kept) < len(all):
		fmt.Fprintln(s.Err, "the matrices of users are left out; --users exports them too")
	case slices.ContainsFunc(all, func(x model.Embeddings) bool { return x.OfUsers() }):
		fmt.Fprintln(s.Err, "warning: ε does not cover the user_ matrices: with the items' matrices they may give away exact ratings; keep them with their users")
	}
	out := c.Out
	if out == "" {
		out = filepath.Join(c.Folder, "export-"+c.To)
	}
	files, err := export.Write(c.To, out, kept)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s: %s\n", out, strings.Join(files, ", "))
	return nil
}
