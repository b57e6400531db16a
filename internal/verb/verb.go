// Package verb has what the verbs of fedsim share: flags for keys, streams, progress. It lists the verbs
// and the further parts of verbs that packages add to the command, which does not know these packages.
package verb

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/forecast"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/sweep"
	"github.com/fedsim/fedsim/results"
)

// Streams are where a verb prints its results and everything else.
type Streams struct{ Out, Err io.Writer }

// Warn prints a warning about something that a verb leaves out.
func (s Streams) Warn(err error) {
	fmt.Fprintf(s.Err, "fedsim: warning: %v\n", err) //nolint:errcheck // it is only a warning
}

// Verb is a verb that a package adds to fedsim.
type Verb struct {
	Name     string // in lower case, as people type it
	Help     string // a line
	Examples string // three calls, a line each, for the end of the verb's help
	// New returns a pointer to the verb's struct of flags, which has a method Run for kong. The function flags makes flags for
	// the keys that it selects.
	New func(flags func(func(*config.Key) bool) KeyFlags) any
}

var added []Verb

// Add adds verbs, in the order of the help. Packages call Add from their init.
func Add(list ...Verb) { added = append(added, list...) }

// Added lists the verbs that were added.
func Added() []Verb { return added }

// Tree returns the added verbs as a part of the tree of commands. The function flags makes the flags of keys for the verb of a name.
func Tree(flags func(verb string, take func(*config.Key) bool) KeyFlags) kong.Plugins {
	if len(added) == 0 {
		return nil
	}
	fields, values := make([]reflect.StructField, len(added)), make([]reflect.Value, len(added))
	for i, v := range added {
		values[i] = reflect.ValueOf(v.New(func(take func(*config.Key) bool) KeyFlags { return flags(v.Name, take) })).Elem()
		fields[i] = reflect.StructField{Name: strings.ToUpper(v.Name[:1]) + v.Name[1:], Type: values[i].Type(), Tag: reflect.StructTag(fmt.Sprintf("cmd:\"\" help:%q", v.Help))}
	}
	tree := reflect.New(reflect.StructOf(fields))
	for i, v := range values {
		tree.Elem().Field(i).Set(v)
	}
	return kong.Plugins{tree.Interface()}
}

// Studies is a call of fedsim sweep --preset.
type Studies struct {
	Name, Scale, Out string
	DryRun           bool
	// Grid returns the runs of a study, whose settings the flags of the call replace.
	Grid func([]config.Setting, sweep.Options) ([]sweep.Run, error)
	// Run makes runs in a folder, and returns the folders of the finished runs.
	Run func(ctx context.Context, dir string, runs []sweep.Run) ([]string, error)
}

// RunStudies runs the studies of papers' figures, and makes a page of them; nil where no package adds studies.
var RunStudies func(context.Context, Studies, Streams) error

// Sessions are the flags of fedsim run --sessions.
type Sessions struct {
	Sessions int
	Total    float64 // ε of all sessions
	Shares   forecast.Shares
	Seeds    int
	Format   string // table or json
}

// OverTime is the study of several sessions in a row; nil where no package adds it.
var OverTime func(context.Context, []config.Setting, Sessions, Streams) error

// Printer is a report that prints itself for people.
type Printer interface {
	Print(w io.Writer) error
}

// PrintAs writes a report: as an object where the format is json.
func PrintAs(w io.Writer, format string, report Printer) error {
	if format == "json" {
		return cli.PrintJSON(w, report)
	}
	return report.Print(w)
}

// Progress tells a person how far a run is.
type Progress struct {
	*cli.Bar

	w       io.Writer
	trained bool // rounds were reported
}

// NewProgress returns a Progress that writes to w.
func NewProgress(w io.Writer) *Progress { return &Progress{Bar: cli.NewBar(w), w: w} }

// Start prints that a phase begins. Rounds print a line each; phases after the rounds are
// announced.
func (p *Progress) Start(label string, rounds int) {
	p.Bar.Start(label, rounds)
	if p.trained {
		p.Announce()
	}
}

// Resumed prints the round after which a run continues.
func (p *Progress) Resumed(after, rounds int) {
	p.Clear()
	text := fmt.Sprintf("continues after round %d of %d\n", after, rounds)
	if after == 0 {
		text = "no checkpoint of this run is there; it begins at round 1\n"
	}
	io.WriteString(p.w, text) //nolint:errcheck // it is only progress
	p.From(after)
}

// Note prints a note.
func (p *Progress) Note(text string) {
	p.Clear()
	io.WriteString(p.w, text+"\n") //nolint:errcheck // it is only progress
}

// Round prints the results of a round.
func (p *Progress) Round(m results.Metrics, skipped error) error {
	p.trained = true
	return p.Line(m.Round, m.Note(skipped))
}
