// Package command adds the lab to the command fedsim: its algorithms, the verbs attack, audit, plot, report, sweep, tune and verify,
// and the study of fedsim run --sessions. A program imports it beside cmd/fedsim/command.
package command

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/verb"
	_ "github.com/fedsim/fedsim/lab" // the algorithms
	"github.com/fedsim/fedsim/lab/verify"
	"github.com/fedsim/fedsim/results"
)

// examples holds three calls of each verb.
//
//go:embed examples.txt
var examples string

type verbs struct {
	Sweep  sweepCmd  `cmd:"" help:"Run many experiments: all combinations of lists of values, on this machine or a cluster."`
	Plot   plotCmd   `cmd:"" help:"Draw one picture of finished runs, as PDF, SVG or PNG."`
	Report reportCmd `cmd:"" help:"Make one web page of finished runs: pictures, numbers, claims and the commands that repeat them."`
	Tune   tuneCmd   `cmd:"" help:"Search settings by the validation part, and measure the best on the test once; --private pays for the search."`
	Audit  auditCmd  `cmd:"" help:"Try to catch the stated epsilon out: thousands of runs on worst-case neighbours, and a lower bound."`
	Attack attackCmd `cmd:"" help:"Attack simulated runs: who was in them, what a user likes, what a client sent, what lying clients can do; at each epsilon."`
	Verify verifyCmd `cmd:"" help:"Check a folder that you were handed: digests, ε computed a second time, all sessions; --again repeats the run."`
}

func init() {
	verb.Add(examples, func() any {
		v := new(verbs)
		v.Sweep.Take = func(k *config.Key) bool { return !slices.Contains(algorithm.Placing(), k) } // which the sweep sees to
		v.Audit.Take, v.Attack.Take = audited, attacked
		return v
	})
	verb.OverTime = overTime
}

// whole has a function fill a file in place of an old one.
func whole(path string, fill func(io.Writer) error) error {
	return atomicfile.WriteAll(atomicfile.File{Path: path, Mode: 0o644, Write: fill})
}

// verifyCmd is fedsim verify: a stranger checks a folder.
type verifyCmd struct {
	Folder      string   `arg:"" name:"folder" help:"Folder of a finished run, or of a deployment's model."`
	Again       bool     `help:"Repeat the run and compare its model bit for bit. A deployment is repeated from --owners; with noise, its model is compared with --repetitions."`
	Owners      []string `placeholder:"PATH" sep:"none" help:"File or folder with the ratings of a deployment's clients, as their owners have them. May be repeated: in the order of the places, if rounds ask clients in turns."`
	Start       string   `placeholder:"FOLDER" help:"Folder of the model that a deployment's session starts from, if it starts from one."`
	Log         string   `placeholder:"LOG" help:"Folder or address of a deployment's log of sessions, which its aggregator keeps. With --receipts."`
	Receipts    string   `placeholder:"FILE" help:"Receipts that owners kept of their sessions, receipts.jsonl; of several owners one after the other."`
	Repetitions int      `default:"19" help:"Repetitions of a deployment with noise. With 99 a model that lies outside of them all counts as forged."`
	JSON        bool     `name:"json" help:"Print an object."`
}

// Run checks the folder. A forgery ends with exit code 1, and a folder of which something cannot be checked with 2.
func (c *verifyCmd) Run(ctx context.Context, s verb.Streams) error {
	switch {
	case len(c.Owners) > 0 != (c.Again && results.IsDeployed(c.Folder)):
		return cli.Misusef("--owners: needed with --again of a deployment's folder, and of no other")
	case (c.Log == "") != (c.Receipts == ""):
		return cli.Misusef("--log and --receipts: needed together, since a receipt names the key of the log")
	case c.Log != "" && !results.IsDeployed(c.Folder):
		return cli.Misusef("--log: %s is not the folder of a deployment's model, which has a %s", c.Folder, results.PublicFile)
	}
	p := verb.NewProgress(s.Err)
	r, err := verify.Folder(ctx, c.Folder, verify.Options{
		Again: c.Again, Owners: c.Owners, Start: c.Start, Repetitions: c.Repetitions, Log: c.Log, Receipts: c.Receipts, Progress: p, Loading: p.Loading(c.Folder),
	})
	p.Clear()
	if err != nil {
		return err
	}
	return errors.Join(verb.PrintAs(s.Out, map[bool]string{true: "json"}[c.JSON], r), r.Err())
}
