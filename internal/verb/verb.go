// Package verb has what the verbs of fedsim share: flags for keys, streams, progress. It lists the verbs
// and the further parts of verbs that packages add to the command, which does not know these packages.
package verb

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/forecast"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/units"
	"github.com/fedsim/fedsim/results"
)

// Streams are where a verb prints its results and everything else.
type Streams struct{ Out, Err io.Writer }

// Warn prints a warning about something that a verb leaves out.
func (s Streams) Warn(err error) {
	fmt.Fprintf(s.Err, "fedsim: warning: %v\n", err) //nolint:errcheck // it is only a warning
}

var added []func() any

// Examples holds calls of the added verbs, a line each, for the ends of their helps.
var Examples string

// Add adds verbs with three calls of each. commands returns a pointer to a struct whose fields are the verbs for kong, in the order
// of the help. Packages call Add from their init.
func Add(examples string, commands func() any) {
	added = append(added, commands)
	Examples += examples
}

// Has reports whether a verb was added, which has examples.
func Has(name string) bool { return strings.Contains(Examples, "fedsim "+name+" ") }

// Tree returns the added verbs as a part of the tree of commands.
func Tree() kong.Plugins {
	return lists.Map(added, func(commands func() any) any { return commands() })
}

// SessionsFlags are the flags of fedsim run for the study of several sessions.
type SessionsFlags struct {
	Sessions int             `group:"Over time:" placeholder:"N" help:"Study N sessions on data with times: each trains on the ratings by then, and is tested on the next period. Compares learning on with training anew at the same --total-epsilon, and with one session."`
	Total    float64         `name:"total-epsilon" group:"Over time:" placeholder:"E" help:"Privacy budget of all sessions together."`
	Shares   forecast.Shares `group:"Over time:" enum:"equal,front-loaded" default:"equal" help:"How sessions share the budget: equal, or front-loaded, where the first session takes half."`
	Seeds    int             `group:"Over time:" default:"1" help:"Repeat the study with so many seeds, from --seed on."`
}

// OverTime is the study of several sessions in a row, printed as table or json; nil where no package adds it.
var OverTime func(ctx context.Context, said []config.Setting, r SessionsFlags, format string, s Streams) error

// KeptError is the error of a verb that was interrupted and says what it keeps.
type KeptError interface {
	error
	Kept()
}

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

	trained bool // rounds were reported
}

// NewProgress returns a Progress that writes to w.
func NewProgress(w io.Writer) *Progress { return &Progress{Bar: cli.NewBar(w)} }

// Start begins a phase. Rounds print a line each; phases after the rounds are announced.
func (p *Progress) Start(label string, rounds int) {
	p.Bar.Start(label, rounds)
	if p.trained {
		p.Announce()
	}
}

// Resumed prints the round after which a run continues.
func (p *Progress) Resumed(after, rounds int) {
	text := fmt.Sprintf("continues after round %d of %d", after, rounds)
	if after == 0 {
		text = "no checkpoint of this run is there; it begins at round 1"
	}
	p.Note(text)
	p.From(after)
}

// Round prints the results of a round.
func (p *Progress) Round(m results.Metrics, skipped error) error {
	p.trained = true
	return p.Line(m.Round, m.Note(skipped))
}

// Events tells a program how far a run is: each event is a line of JSON.
type Events struct{ W io.Writer }

// event is a line that tells of the course of a run. A nil number is not of its kind.
type event struct {
	Event  string `json:"event"`
	Phase  string `json:"phase,omitempty"`
	After  *int   `json:"after,omitempty"`
	Rounds int    `json:"rounds,omitempty"`
	Text   string `json:"text,omitempty"`
	Done   *int   `json:"done,omitempty"`
}

// Start prints that a phase begins.
func (e Events) Start(label string, rounds int) {
	e.write(event{Event: "phase", Phase: label, Rounds: rounds}) //nolint:errcheck // the next round says so, too
}

// Resumed prints the round after which a run continues.
func (e Events) Resumed(after, rounds int) {
	e.write(event{Event: "resumed", After: &after, Rounds: rounds}) //nolint:errcheck // likewise
}

// Note prints a note.
func (e Events) Note(text string) { e.write(event{Event: "note", Text: text}) } //nolint:errcheck // likewise

// Step prints a step of a phase.
func (e Events) Step(done int) { e.write(event{Event: "step", Done: &done}) } //nolint:errcheck // likewise

// Round prints the results of a round.
func (e Events) Round(m results.Metrics, skipped error) error {
	why := ""
	if skipped != nil {
		why = skipped.Error()
	}
	return e.write(struct {
		Event string `json:"event"`
		results.Metrics
		Skipped string `json:"skipped,omitempty"`
	}{"round", m, why})
}

func (e Events) write(v any) error { return json.NewEncoder(e.W).Encode(v) }

// ExperimentFlags say what is run, for run and plan.
type ExperimentFlags struct {
	File string `arg:"" optional:"" name:"experiment.yaml" help:"Experiment file with the same names as the flags. A flag with another value is an error; see --from."`
	From string `placeholder:"DIR|FILE" help:"Start from the settings of the finished run in this folder, or of an experiment file. Flags replace them, and a warning names each replaced value. fedsim run checks that the data are those of the run."`

	KeyFlags
}

// Flags are flags of keys. They are made from the declarations of the keys once a call needs them.
type Flags struct {
	kong.Plugins
	Take func(*config.Key) bool `kong:"-"` // chooses the keys; nil takes all
}

// KeyFlags are the flags of keys, and --set.
type KeyFlags struct {
	Flags

	Set []string `placeholder:"KEY=VALUE" sep:"none" help:"Any key of an experiment file, with dots between levels; may be repeated."`
}

// MakeFlags makes a flag for each key that is taken and has one.
func (f *Flags) MakeFlags() {
	var fields []reflect.StructField
	for i, k := range config.Keys() {
		if k.Flag && (f.Take == nil || f.Take(k)) {
			kind := reflect.TypeFor[[]string]() // so that a flag given twice keeps both values; Settings passes them on
			if k.Switch {
				kind = reflect.TypeFor[*bool]()
			}
			fields = append(fields, reflect.StructField{
				Name: fmt.Sprintf("Key%d", i), Type: kind,
				Tag: reflect.StructTag(fmt.Sprintf("name:%q placeholder:%q sep:\"none\" help:%q choices:%q group:%q", k.Name, k.Placeholder, flagHelp(k), strings.Join(choices(k), " "), group(k))),
			})
		}
	}
	f.Plugins = kong.Plugins{reflect.New(reflect.StructOf(fields)).Interface()}
}

// choices are the values that a key can have, where they are a list.
func choices(k *config.Key) []string {
	switch {
	case k == algorithm.Name.Key:
		return algorithm.Names()
	case k.Kind == config.Word:
		return k.Words
	}
	return nil
}

func flagHelp(k *config.Key) string {
	help := k.Help
	if list := choices(k); len(list) > 0 && (k == algorithm.Name.Key || !strings.Contains(help, list[0])) {
		help += " One of " + strings.Join(list, ", ") + "."
	}
	switch {
	case k.Auto != "":
		help += " Default: " + k.Auto + "."
	case k.Default != "":
		help += " Default " + k.Default + "."
	}
	return help
}

// Settings collects what was said by the file, the flags and --set. Flags replace settings of --from, and no others.
func (f *ExperimentFlags) Settings(warn io.Writer) ([]config.Setting, error) {
	said, err := f.KeyFlags.Settings()
	if err != nil {
		return nil, err
	}
	for _, s := range said {
		k := config.Find(s.Key)
		number := k != nil && (k.Kind == config.Real || k.Kind == config.Whole || k.Kind == config.Seed)
		if number && (strings.Contains(s.Value, ",") || strings.Contains(s.Value, "..")) { // as sweeps take it
			several := ""
			if Has("sweep") {
				several = fmt.Sprintf("; for several: fedsim sweep --%s %s", s.Key, s.Value)
			}
			return nil, cli.Misusef("%s: this command takes one value%s", s.Origin, several)
		}
	}
	file := cmp.Or(f.File, f.From)
	if i, failed := os.Stat(file); f.File == "" && f.From != "" && (failed != nil || i.IsDir()) {
		file = filepath.Join(f.From, "config.yaml")
	}
	switch {
	case file == "":
		return said, nil
	case f.File != "" && f.From != "":
		return nil, cli.Misusef("--from %s: an experiment file is given, too", f.From)
	case holdsRatings(file):
		return nil, cli.Misusef("%s holds ratings and no settings: fedsim run --data %[1]s", file)
	}
	base, err := results.ReadSettings(file)
	if err != nil {
		return nil, err
	}
	all, replaced := config.Over(base, said)
	for _, pair := range replaced {
		if f.File != "" {
			return nil, cli.Misusef("%w; to start from the settings of the file and replace some: --from %s", config.Twice(pair[0], pair[1]), f.File)
		}
		WarnReplaced(warn, pair)
	}
	return all, nil
}

// WarnReplaced says which value of a base another value replaces, if results may depend on it.
func WarnReplaced(w io.Writer, pair [2]config.Setting) {
	if slices.Contains(algorithm.Placing(), config.Find(pair[0].Key)) {
		return
	}
	fmt.Fprintf(w, "warning: %s %s replaces %s %s of %s\n", pair[1].Origin, pair[1].Value, pair[0].Key, pair[0].Value, pair[0].Origin)
}

// Call returns the words of a call of another command with the same experiment file and flags.
func (f *ExperimentFlags) Call(verb string, said []config.Setting, more ...string) []string {
	words := []string{"fedsim", verb}
	switch {
	case f.File != "":
		words = append(words, f.File)
	case f.From != "":
		words = append(words, "--from", f.From)
	}
	for _, s := range said {
		switch k := config.Find(s.Key); {
		case !strings.HasPrefix(s.Origin, "--"): // from the file
		case k == algorithm.Workers.Key: // the results do not depend on it
		case s.Origin == "--"+s.Key && !k.Switch:
			words = append(words, s.Origin, s.Value)
		default:
			words = append(words, "--set", s.Key+"="+s.Value)
		}
	}
	return append(words, more...)
}

// holdsRatings reports whether the name of a file that stands for an experiment is one of data: a folder, or a file with
// an ending that experiments do not have.
func holdsRatings(name string) bool {
	if i, err := os.Stat(name); err == nil && i.IsDir() {
		_, err = os.Stat(filepath.Join(name, "config.yaml")) // a run's, which --from repeats
		return err != nil
	}
	ending := strings.ToLower(filepath.Ext(name))
	return slices.Contains([]string{".csv", ".tsv", ".dat", ".data", ".inter", ".parquet", ".jsonl", ".gz", ".zip", ".xz", ".zst", ".bz2", ".packed"}, ending)
}

// Settings collects what was said by flags, then by --set.
func (f *KeyFlags) Settings() ([]config.Setting, error) {
	set, err := config.Assignments("--set", f.Set)
	return append(f.Flags.Settings(), set...), err
}

// Settings collects what was said by flags.
func (f *Flags) Settings() (list []config.Setting) {
	for _, plugin := range f.Plugins {
		for field, v := range reflect.ValueOf(plugin).Elem().Fields() {
			key := field.Tag.Get("name")
			switch p := v.Interface().(type) {
			case []string:
				list = append(list, lists.Map(p, func(value string) config.Setting { return config.Setting{Key: key, Value: value, Origin: "--" + key} })...)
			case *bool:
				if p != nil {
					list = append(list, config.Setting{Key: key, Value: map[bool]string{true: "yes", false: "no"}[*p], Origin: "--" + key})
				}
			}
		}
	}
	return list
}

// Opener is experiment.Open, or opens an experiment in another way.
type Opener func(context.Context, config.Config, func(done, total int64)) (*experiment.Experiment, error)

// Open resolves what was said, warns of what is odd in it, and loads the data.
func Open(ctx context.Context, said []config.Setting, s Streams, p *cli.Bar, load Opener) (*experiment.Experiment, error) {
	c, err := config.Resolve(said)
	if err != nil {
		return nil, err
	}
	Notify(algorithm.Warnings(c), s)
	e, err := load(experiment.Hear(ctx, p.Warn), c, p.Loading(algorithm.Data.Of(c)))
	if err != nil {
		return nil, err
	}
	p.Clear()
	warnings, err := forecast.Warnings(e)
	if err != nil {
		return nil, err
	}
	Notify(append(startWarnings(e), warnings...), s)
	return e, nil
}

// startWarnings are about runs that a session builds on and that were trained on ratings of its test.
func startWarnings(e *experiment.Experiment) (list []string) {
	if e.Start == nil {
		return nil
	}
	dir := e.Start.From
	for range e.Start.Sessions {
		c, m, err := results.ReadConfig(dir)
		parts := e.Split
		if err == nil && m.DataDigest == e.Data.Digest && m.SplitDigest != parts.Digest {
			parts, err = experiment.Divide(c, e.Data)
		}
		if err != nil || m.SplitDigest != parts.Digest { // other data, or the folder of a deployment
			break
		}
		both, trained := 0, parts.Train.ByUser()
		for u := 0; u < e.Data.Users && parts != e.Split; u++ {
			test, _ := e.Test.Rows.Row(u)
			trained.Lend(u, func(items []int32, _ []float32) {
				for _, j := range items {
					if _, in := slices.BinarySearch(test, j); in {
						both++
					}
				}
			})
		}
		if both > 0 {
			list = append(list, fmt.Sprintf("start-from: %s has another split of these data, and was trained on %s of this test. Errors come out too small; "+
				"take its split: split.seed=%d, and the other keys of split as its config.yaml has them", dir, units.Counted(both, "rating"), algorithm.SplitSeedOf(c)))
		}
		dir = algorithm.StartFrom.Of(c)
	}
	return list
}

// Notify prints warnings, such as what reading the data dropped, assumed or merged.
func Notify[T any](list []T, s Streams) {
	for _, n := range list {
		fmt.Fprintf(s.Err, "warning: %v\n", n)
	}
}

// Groups holds the names of the keys by the headings of a command's help; the others stand under Training.
var Groups = map[string][]string{
	"Data:": {
		"data", "rating-min", "rating-max", "columns", "duplicates", "separator", "no-header", "day-first", "encoding", "member", "unrated", "bad-rows",
		"features", "feedback", "public-users", "public-ids", "public-binary",
	},
	"Privacy:":  {"epsilon", "delta", "unit", "accountant", "noise", "noise-draw", "secagg", "mode", "verify-inputs", "colluders"},
	"Dropouts:": {"dropout", "dropout-at", "tolerance", "sit-out", "leave", "away", "away-rounds"},
	"Output:":   {"out", "name", "baselines", "workers"},
}

// group returns the heading of a command's help under which the flag of a key stands.
func group(k *config.Key) string {
	for heading, names := range Groups {
		if slices.Contains(names, k.Name) {
			return heading
		}
	}
	return "Training:"
}
