package command

import (
	"context"
	"errors"

	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/lab/verify"
)

// verifyCmd is fedsim verify: a stranger checks a folder.
type verifyCmd struct {
	Folder string `arg:"" name:"folder" help:"Folder of a finished run, or of a deployment's model."`
	Again  bool   `help:"Repeat a simulation and compare its model bit for bit."`
	JSON   bool   `name:"json" help:"Print an object."`
}

// Run checks the folder. A forgery ends with exit code 1, and a folder of which something cannot be checked with 2.
func (c *verifyCmd) Run(ctx context.Context, s verb.Streams) error {
	p := verb.NewProgress(s.Err)
	r, err := verify.Folder(ctx, c.Folder, verify.Options{Again: c.Again, Progress: p, Loading: p.Loading(c.Folder)})
	p.Clear()
	if err != nil {
		return err
	}
	format := "table"
	if c.JSON {
		format = "json"
	}
	return errors.Join(verb.PrintAs(s.Out, format, r), r.Err())
}
