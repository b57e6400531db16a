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
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/internal/study/page"
	"github.com/fedsim/fedsim/internal/sweep"
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

// Preset is a study that fedsim sweep --preset runs.
type Preset struct {
	Name, Source, Title string
	Benchmark           bool // it has no claims
	Options             sweep.Options
	// Settings returns the settings at a scale, small or full.
	Settings func(scale string) ([]config.Setting, error)
	// Part makes a part of a page, with a verdict on each claim, of finished runs in a folder.
	Part func(runs study.Runs, dir string) (page.Part, error)
}

// Presets returns the study of a name, or with all every study of a paper's figure; nil where no package adds studies.
var Presets func(name string) ([]Preset, error)

// Section is a section that fedsim report has besides its runs.
type Section struct {
	page.Section
	Noun  string // what it shows, in the singular
	Found []int  // how many of these each folder has
}

// Sections lists functions that read folders and make a section of what they find there.
var Sections []func(warn func(error), dirs []string) (Section, error)

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
