package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/experiment"
)

// experimentFlags say what is run: the flags that run and plan have in common. Each
// flag of the type *string, here and in the command around it, stands for the
// configuration key of its name; the experiment package reads and checks it.
type experimentFlags struct {
	File string `arg:"" optional:"" name:"experiment.yaml" help:"Experiment file with the same names as the flags; flags win over it."`

	Algorithm    *string `placeholder:"NAME" help:"lfl-sgdmf (clients are users), vfl-sgdmf (parties own items), hfl-sgdmf or hfl-synsgd (parties have users); dpals, ada-dpals, dp-cmf, ssp-c, ssp-i, am-ssp, ssp-convex, private-item-bias (clients are users and sum sufficient statistics); fmf-lfl, fmf-vfl, fmf-hfl (the same without noise); sgd-mf (all ratings in one place). Default lfl-sgdmf."`
	Data         *string `placeholder:"DATA" help:"synthetic[:small|:ml-1m|:ml-10m], a folder, zip archive or file of ratings, or the name of a set that fedsim data get has downloaded. Default synthetic, which is synthetic:ml-1m."`
	RatingMin    *string `placeholder:"STARS" help:"Bottom of the rating scale, for data whose format does not say it."`
	RatingMax    *string `placeholder:"STARS" help:"Top of the rating scale, likewise."`
	Epsilon      *string `placeholder:"E" help:"Privacy budget of the whole run, or inf for no noise. Default 10."`
	Delta        *string `placeholder:"D" help:"The delta of it. Default the smaller of 1e-5 and 1/(10 users)."`
	Unit         *string `placeholder:"UNIT" help:"What is protected: user or, with vfl-sgdmf, rating, which is its default."`
	Accountant   *string `placeholder:"NAME" help:"rdp (proved), gdp-skellam (of Skellam noise: numerical evidence, less noise), pld (of sampled Gaussian noise: proved and tight) or best. By default rdp, and pld with organisations."`
	Rounds       *string `placeholder:"T" help:"Iterations to attempt. By default 10 with devices, 2 to 12 outer steps where they sum statistics, 100 with organisations, 1000 with hfl-synsgd."`
	Rank         *string `placeholder:"P" help:"Length of an embedding. Default 1, of sums of statistics 4, or 8 without noise."`
	Features     *string `placeholder:"SPEC" help:"Public features of items to learn from: genres, year, CSV files (item_id, category, value and perhaps weight), with commas between, or none. By default what comes with the data; of dp-cmf, ssp-c, ssp-i, am-ssp and ssp-convex."`
	Feedback     *string `placeholder:"KIND" help:"What a rating is, of algorithms that sum statistics: explicit (a value on the scale; the default) or implicit (something was consumed)."`
	Contribution *string `placeholder:"WHAT" help:"What a user sends the gradient of: one-rating (the paper's form; the default) or all-ratings, clipped to --clip-norm, which learns far more from the same budget."`
	ClipNorm     *string `placeholder:"C" help:"Largest norm of an all-ratings contribution, or of a unit's gradient with --clipping gradient or both. Default 5."`
	Parties      *string `placeholder:"S" help:"Organisations that take part. Default 10."`
	Partition    *string `placeholder:"HOW" help:"How items are dealt to parties: random (default) or category."`
	LocalSteps   *string `placeholder:"N" help:"Steps that a party takes between two averages. Default 10."`
	ItemSteps    *string `placeholder:"N" help:"Last steps of vfl-sgdmf, on items alone. Default 0."`
	SamplingRate *string `placeholder:"Q" help:"Chance of a unit to be in the sample of a step. Default 0.05."`
	ClipRatings  *string `placeholder:"N" help:"Most ratings of a user that a party trains on, with unit user. By default 10, 5 or 2, by the parties."`
	Clipping     *string `placeholder:"HOW" help:"What bounds a party's gradients: embedding (the paper's form; the default), gradient (DP-SGD, to --clip-norm) or both, which needs far less noise."`
	Train        *string `placeholder:"WHAT" help:"What an HFL party moves in a step: items (its users are fitted before; the default) or both."`
	Dropout      *string `placeholder:"SHARE" help:"Chance of a client to be lost in an iteration. By default 0.1, and 0 with organisations."`
	DropoutAt    *string `placeholder:"STAGE" help:"advertise, share, masked-input, consistency (of mode active), unmask, replace (of noise replace) or any. Default any."`
	Leave        *string `placeholder:"SHARE" help:"Share of the clients that leave for good in the course of the run. Default 0."`
	Away         *string `placeholder:"SHARE" help:"Share of the clients that go away once and come back. Default 0."`
	AwayRounds   *string `placeholder:"N" help:"For how many iterations they are away. Default 3."`
	Tolerance    *string `placeholder:"SHARE" help:"Share of the clients that an iteration may lose. Default 0.3."`
	SitOut       *string `placeholder:"SHARE" help:"Share of the clients that, lost in one iteration, may sit the next out, so that it need not be set up anew with everybody: two exchanges instead of four. Default 0."`
	Colluders    *string `placeholder:"SHARE" help:"Share of the clients whose noise does not count, because they may help the aggregator. By default 0.05."`
	Secagg       *string `placeholder:"KIND" help:"ideal (default): the exact sum, without the cryptography; real: with it, and the same integers; none for a single party."`
	Mode         *string `placeholder:"MODE" help:"What a real sum defends against: semi-honest (default) parties, or active ones, who may lie."`
	Noise        *string `placeholder:"KIND" help:"split (default), replace (the published scheme, which leaks, at its true cost) or none; of organisations own."`
	NoiseDraw    *string `placeholder:"WHO" help:"sum or client: the same law, drawn at once or by each client. Default sum, and client with --secagg real."`
	Seed         *string `placeholder:"N" help:"Everything random of the run follows from it. Default 1."`

	Set []string `placeholder:"KEY=VALUE" sep:"none" help:"Any key of an experiment file, with dots between levels; may be repeated."`
}

// settings collects what was said to the command that has the flags in it, given
// by its pointer: the file first, then flags, then --set.
func (f *experimentFlags) settings(command any) ([]experiment.Setting, error) {
	var list []experiment.Setting
	if f.File != "" {
		var err error
		if list, err = experiment.ReadFile(f.File); err != nil {
			return nil, err
		}
	}
	v := reflect.ValueOf(command).Elem()
	for _, field := range keyFields(v.Type()) {
		if p := v.FieldByIndex(field.Index).Interface().(*string); p != nil {
			key := kebab(field.Name)
			list = append(list, experiment.Setting{Key: key, Value: *p, Origin: "--" + key})
		}
	}
	for _, s := range f.Set {
		key, value, ok := strings.Cut(s, "=")
		if !ok {
			return nil, &usageError{fmt.Errorf("--set %s: KEY=VALUE is needed", s)}
		}
		list = append(list, experiment.Setting{Key: key, Value: value, Origin: "--set " + key})
	}
	return list, nil
}

// keyFields are the fields of a command that stand for keys.
func keyFields(command reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(command), func(f reflect.StructField) bool { return f.Type != reflect.TypeFor[*string]() })
}

// kebab turns DropoutAt into dropout-at.
func kebab(s string) string {
	var b strings.Builder
	for i, r := range s {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('-')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

// open resolves what was said, warns of what is odd in it, and loads the data.
func open(ctx context.Context, said []experiment.Setting, s streams, p *progress) (*experiment.Experiment, error) {
	config, err := experiment.Resolve(said)
	if err != nil {
		return nil, err
	}
	for _, w := range config.Warnings() {
		fmt.Fprintf(s.err, "warning: %s\n", w)
	}
	e, err := experiment.Open(ctx, config, p.loading(config.Data))
	if err != nil {
		return nil, err
	}
	p.clear()
	warnings, err := e.Warnings()
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		fmt.Fprintf(s.err, "warning: %s\n", w)
	}
	return e, nil
}
